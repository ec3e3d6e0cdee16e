"""Claims of AReaL (arXiv 2505.24298)."""
