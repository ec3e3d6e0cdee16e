"""Claims on convergence bounds and slopes."""
