"""Claims on alarms before collapse: what they are made of, how early they come, and what a step loses."""
