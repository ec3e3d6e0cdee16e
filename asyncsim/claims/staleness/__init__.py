"""Claims on what a stale gradient does to stability."""
