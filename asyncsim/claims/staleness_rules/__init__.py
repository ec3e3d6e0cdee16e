"""Rules by which the settings of an event system choose a law of staleness: `claims.predicted_staleness`."""
