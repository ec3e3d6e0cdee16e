"""Claims on alarms before collapse: what a score is worth, how often it errs, and how early it comes."""
