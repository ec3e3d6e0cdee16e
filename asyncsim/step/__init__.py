"""What one update sees: batches, versions, ratios, the step and its minibatches."""
