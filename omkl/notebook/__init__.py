"""Runs in a notebook: data frames in, data frames out, plots.

``requests`` reads what ``omkl.run`` and ``omkl.sweep`` are given, ``results`` is one finished run,
``runs`` several of them as a frame.
"""
