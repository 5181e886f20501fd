"""Algorithms as the published numbers, not the text, say that they were run.

Each was found by a search whose grid and outcome ``scripts/search_graph.py`` or
``scripts/search_active.py`` shows.
"""
