"""Run folders: format, writing, and provenance of the numbers."""
