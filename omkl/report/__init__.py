"""Make tables and figures from run folders. No module here runs an experiment."""
