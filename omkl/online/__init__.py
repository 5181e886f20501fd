"""Online learners for raw rows: encoding, scaling, intervals, panels and model files."""
