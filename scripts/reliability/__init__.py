"""What ``scripts/chaos.py`` and ``scripts/endurance.py`` are made of.

place       where a command is started, disturbed and looked after
deployment  server and clients of a federation that are killed
page        the command line of both, and their tables in docs/reliability.md
"""
