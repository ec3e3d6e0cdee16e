"""One file per question, and one per paper that asks several; `python -m experiments --list` names them.

An experiment file has a docstring and four names: SETTINGS, a list of dicts, each giving one part of the rows; QUICK,
the same at a size of seconds; COLUMNS, the names of a row; run(setting) -> list of rows, dicts with just these names.
A paper file has a docstring and QUESTIONS, a list of the names of experiments.
"""
