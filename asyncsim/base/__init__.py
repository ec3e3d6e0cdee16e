"""The foundation of all other folders: records, checks, keyed randomness, distributions, files, uncertainty."""
