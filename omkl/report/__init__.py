"""Tables and figures, made from run folders only; nothing here runs an experiment."""
