"""Run folders: their format, how they are written, where their numbers come from."""
