"""What ``scripts/bench.py`` measures, a module a question.

limits    what can this machine do, and so: how fast could a round be at best?
learners  how fast is a round of each algorithm?
federated how fast is a client's round in a federation?
peers     how fast is the same work in NumPy, scikit-learn and river?
scale     what does a round cost at other sizes; how long do long streams and large sweeps take?
page      all of it as Markdown and plots, with ``tables`` and ``plots``

Every section is a function that returns plain dictionaries, which go into one JSON file.
"""
