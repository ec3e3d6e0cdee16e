"""Runs: specs, updates, the loop, blocks of replicates and the workers that train them, checkpoints, callbacks."""
