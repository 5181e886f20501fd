"""Algorithms as the published numbers, not the text, say that they were run.

Each was found by a search whose grid and outcome ``omkl.papers.search_graph`` or
``omkl.papers.search_active`` shows.
"""
