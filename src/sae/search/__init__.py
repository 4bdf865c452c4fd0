"""The best configurations for a budget: space, samplers, stopping, study, executors."""
