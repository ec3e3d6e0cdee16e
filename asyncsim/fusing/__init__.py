"""One machine program from a function of tensors whose replicates know nothing of each other.

A function is recorded while it runs (`tape`), its operations become a graph of small vectors (`graph`, `rules`), and
the graph one loop over replicates (`emitting`, `elementary`, `program`). What is small stays in registers, what is
large is made in loops (`stages`, `rolling`). A bandit's update is a hundred operations on a few numbers each; here it
is one call. The recorded function stays the definition.
"""
