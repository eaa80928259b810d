"""Options, written once: what an option is, and the keywords that follow from the lists of them."""
