"""What everything stands on: records, checks, keyed randomness, laws, files, uncertainty."""
