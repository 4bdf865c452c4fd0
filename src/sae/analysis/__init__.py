"""Numbers from records, without torch: Pareto fronts, picks, comparisons and statistics."""
