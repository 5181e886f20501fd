"""Conformance suite of learners and of federations."""
