"""A learner that is called row by row, in the units of whoever calls it."""
