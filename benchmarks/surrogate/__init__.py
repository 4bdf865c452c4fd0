"""A search problem made of real runs: what they gave, and the script that made them."""
