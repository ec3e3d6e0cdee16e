"""Claims on consecutive gradients."""
