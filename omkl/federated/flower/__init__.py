"""The former place of ``omkl.federation.flower``."""
