"""Runs: specs, one update, the loop, blocks of replicates and who does them, checkpoints, callbacks."""
