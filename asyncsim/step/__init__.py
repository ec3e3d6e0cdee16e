"""Inputs of one update: batches, versions, ratios, the step and its minibatches."""
