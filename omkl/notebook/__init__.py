"""Runs in a notebook: data frames as input and output, and plots.

``requests`` converts the arguments of ``omkl.run`` and ``omkl.sweep`` to settings, ``results`` is
one finished run, and ``runs`` is several runs as a data frame.
"""
