"""Federated algorithms, one file each; typed like the others: ``algorithm=pof_mkl``."""
