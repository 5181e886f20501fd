"""The MLflow view of the run folders: the only folder that imports MLflow."""
