"""Looking for good configurations: Bayesian optimisation of several objectives at once."""
