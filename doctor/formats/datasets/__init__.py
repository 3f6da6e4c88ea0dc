"""Data sets read without a framework: what columns and rows they have, and rows drawn from them."""
