"""Read settings from the command line, compose them with Hydra, and check them."""
