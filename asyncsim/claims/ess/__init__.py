"""Claims on effective sample size."""
