"""Federations of parties apart: each with rows of its own, or deployed with Flower."""
