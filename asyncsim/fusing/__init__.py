"""Compile a function of tensors with independent replicates to one machine program.

A function is recorded while it runs (`tape`), its operations become a graph of small vectors (`graph`, `rules`), and
the graph becomes one loop over replicates (`emitting`, `elementary`, `program`). Small values stay in registers, large
ones are computed in loops (`stages`, `rolling`). A bandit's update has a hundred operations on a few numbers each; here
it is one call. The recorded function remains the definition.
"""
