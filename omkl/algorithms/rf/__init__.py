"""Kernel classifiers on random features: the memory does not grow with the stream."""
