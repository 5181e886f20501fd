"""Learners that are called row by row, in the units of the caller."""
