"""Search for the best configurations within a budget: spaces, samplers, trials, executors."""
