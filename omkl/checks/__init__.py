"""The conformance suite of learners and of federations."""
