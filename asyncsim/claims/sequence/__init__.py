"""Claims on sequences of tokens."""
