"""What ``scripts/bench.py`` measures, a module a question.

limits    what can this machine do, and so: how fast could a round be at best?
learners  how fast is a round of each algorithm?
federated how fast is a client's round in a federation?
peers     how fast is the same work in NumPy?
long_streams  how long do long streams take, and how much memory?
page      all of it as Markdown and a plot, with ``tables`` and ``plots``

Every section is a function that returns plain dictionaries, which go into one JSON file.
"""
