"""Theorems of the papers, evaluated for a run."""
