"""A demo history: the demo set, searched as a team would over two months."""
