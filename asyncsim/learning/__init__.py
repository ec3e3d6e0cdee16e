"""The learning loop: specs, batches, steps, ratios, drawing, runs, exact values."""
