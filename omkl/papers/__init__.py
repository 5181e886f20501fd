"""Published tables beside ours: matching, searches, the page."""
