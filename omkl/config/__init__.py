"""Settings: the command line, what Hydra composes of it, their kinds, and the typed result."""
