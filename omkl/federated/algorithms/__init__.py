"""Federated algorithms, one file each. The file's name is the setting: ``algorithm=pof_mkl``."""
