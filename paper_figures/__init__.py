"""One script per figure: it reads result rows, draws them, and gives the numbers that the gallery quotes.

Scripts stand here, modules with an underscore help them; `entries/` is written by hand, `pictures/`, pages and JSON are
generated. `python -m paper_figures [NAME ...]` writes pictures/NAME.png and NAME.pdf, and pages from entries/. A script
has a docstring and three names: EXPERIMENTS, whose rows it reads, and in a dict which of them it draws (`_setup`);
draw(*tables) -> Figure and numbers(*tables) -> dict of formatted numbers by name, both with one table for each
experiment, in order. It may have page(*tables) -> all rows as HTML, which is written to NAME.html, and held(*tables):
the settings (`_claim.Setting`) in which each claim of the figure was tested, by a name that the claim gives.
"""
