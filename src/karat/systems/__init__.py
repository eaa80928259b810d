"""Makes runs: retrievers asked, laddered, stressed, and queries made for them."""
