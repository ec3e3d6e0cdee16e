"""Rules that give the distribution of staleness from the settings of an event system: `claims.predicted_staleness`."""
