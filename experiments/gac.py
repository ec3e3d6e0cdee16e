"""Do stale gradients point the same way again and again, and does it help to stop that? GAC (arXiv 2603.01501).

The paper says that consecutive gradients of asynchronous training stay aligned where synchronous ones are nearly
orthogonal, that this amplifies correlated updates up to divergence, and that projecting the aligned part away restores
synchronous training even at high staleness, with a guarantee under bounded staleness. The rule is a reconstruction:
thresholds and projection are ours (`updates.align`). One experiment asks after each of these.
"""

QUESTIONS = ["gac_steps", "gac_alignment", "gac_boundary", "gac_control", "gac_projection", "gac_bound"]
