"""One script per figure: it reads result rows, draws them, and gives the numbers that the gallery quotes.

`python -m paper_figures [NAME ...]` writes NAME.png and NAME.pdf here, and README.md from _gallery.md and the entries
NAME.md. A script has a docstring and three names: EXPERIMENTS, whose rows it reads; draw(*tables) -> Figure and
numbers(*tables) -> dict of formatted numbers by name, both with one table for each experiment, in order.
"""
