"""Measurements of ``scripts/bench.py``; each returns plain dictionaries for one JSON file.

limits     throughput of this machine, and the least time of a round
learners   time of a round of each algorithm
federated  time of a client's round in a federation
tables     the results as Markdown
suites     streams, learners and other libraries of ``scripts/benchmark.py``
"""
