"""A paper's table in the formats that it is written in; ``rendering`` writes the files."""
