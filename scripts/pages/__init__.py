"""Pages of the site that ``make docs`` generates."""
