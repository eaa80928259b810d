"""A history to look at before one has a history: the demo set, searched as a team would have searched it over two months."""
