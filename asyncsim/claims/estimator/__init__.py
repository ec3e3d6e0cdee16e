"""Claims on bias and variance of estimators."""
