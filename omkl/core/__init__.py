"""The streaming core: what is compiled, and what an algorithm is made of."""
