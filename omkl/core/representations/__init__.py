"""What the function of a kernel is made of: one module a representation."""
