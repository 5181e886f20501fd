"""Write and read run folders, and record the provenance of their numbers."""
