"""Check that algorithms keep the contracts of learners and of federations."""
