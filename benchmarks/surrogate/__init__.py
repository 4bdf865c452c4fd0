"""A search problem made of real runs: their results, and the script that made them."""
