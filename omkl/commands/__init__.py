"""The commands of the shell: they parse, call and print."""
