"""Reports of studies and runs: one page, and its figures and tables as files."""
