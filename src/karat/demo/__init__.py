"""A history to look at before one has one: the demo set, searched as a team would have done over two months."""
