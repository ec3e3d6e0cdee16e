"""Claims on where a method converges."""
