"""From a config to a record: the loop, the evaluation, and what joins them."""
