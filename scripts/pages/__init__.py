"""The pages of the site that are made when it is built (``make docs``)."""
