"""Benchmark suites: learners of omkl and models of other libraries on many streams.

settings    what a suite is, and its YAML files beside this one
generators  streams that change at known rows
streams     rows from packages, the catalogue and generators, with faults of sensors
models      models of other libraries, and one pass of a model over a stream
scores      errors of predictions, and statistics over streams
running     run all learners of a suite
page        tables and figures of the results
"""
