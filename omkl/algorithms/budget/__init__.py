"""Kernel classifiers with a limited number of support vectors each."""
