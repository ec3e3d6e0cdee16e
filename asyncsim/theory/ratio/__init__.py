"""Claims on importance ratios."""
