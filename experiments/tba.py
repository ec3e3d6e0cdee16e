"""Is trajectory balance on stale and replayed data accurate, better than on-policy methods, and fast?

TBA (arXiv 2503.18929) at the scale of tables: where it ends, what it returns, how fast its system is.
"""

QUESTIONS = ["tba_optimum", "tba_returns", "tba_speed", "tba_steps"]
