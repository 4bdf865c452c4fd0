"""Numbers from records, without torch: Pareto sets, hypervolume, the one to pick."""
