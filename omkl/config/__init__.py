"""Settings: the command line, their composition by Hydra, their schema, and the typed result."""
