"""Learn raw rows online: encoding, scaling, intervals, panels and model files."""
