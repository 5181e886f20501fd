"""Run jobs from a notebook, with data frames as input and output, and plots.

``requests`` converts the arguments of ``omkl.run`` and ``omkl.sweep`` to settings. ``results``
defines the result of one run, and ``runs`` the data frame of several runs.
"""
