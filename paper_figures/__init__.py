"""One script per figure: `python -m paper_figures.NAME` reads result rows and writes NAME.png and NAME.pdf here."""
