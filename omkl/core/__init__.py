"""Compiled streaming core: kernels, representations, the protocol and the loop over rounds."""
