"""Prepare a job from settings, compute it, and measure its regret against comparators."""
