"""Tables that people get: data frames in which a column that they lack is answered by those that they have."""

import functools
from typing import Any

import pandas as pd

from asyncsim.base import checks


class Table(pd.DataFrame):
    """A data frame whose errors over unknown columns name its own."""

    @property
    def _constructor(self) -> type["Table"]:
        return Table


def _naming(name: str) -> Any:
    plain = getattr(pd.DataFrame, name)

    @functools.wraps(plain)
    def call(self: pd.DataFrame, *arguments: Any, **settings: Any) -> Any:
        try:
            return plain(self, *arguments, **settings)
        except (KeyError, AttributeError, NameError) as error:
            asked, hidden = error.args[0], name == "__getattr__" and arguments[0].startswith("_")
            if not hidden and "the columns are" not in str(asked):
                columns = [*map(str, self.columns)]
                what = f"no {asked!r}" if arguments[:1] == (asked,) else str(asked)
                hint = checks.hint(str(arguments[0]) if arguments else "", columns, "", 0.75)
                error.args = (f"{what}; {hint} the columns are {', '.join(columns)}".replace("  ", " "),)
            raise

    return call


for _name in "__getitem__ __getattr__ groupby pivot pivot_table query sort_values set_index".split():
    setattr(Table, _name, _naming(_name))
