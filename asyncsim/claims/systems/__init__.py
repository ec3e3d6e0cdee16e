"""Claims on the staleness that a system produces."""
