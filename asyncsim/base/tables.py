"""Tables for users: data frames whose errors about unknown columns list the columns that exist."""

import functools
from typing import Any

import pandas as pd

from asyncsim.base import checks


class Table(pd.DataFrame):
    """A data frame whose errors about unknown columns list its own columns."""

    _constructor = property(lambda self: Table)
    __repr__ = functools.partialmethod(pd.DataFrame.to_string, max_rows=60, line_width=100, show_dimensions="truncate")


def _naming(self: pd.DataFrame, plain: Any, *asked: Any, **settings: Any) -> Any:
    try:
        return plain(self, *asked, **settings)
    except (KeyError, AttributeError, NameError) as error:
        if not (plain is pd.DataFrame.__getattr__ and asked[0][0] == "_") and "columns are" not in str(error):
            columns = [*map(str, self.columns)]
            what = f"no {asked[0]!r}" if asked[:1] == error.args[:1] else error.args[0]
            hint = checks.hint(str(asked[0]) if asked else "", columns, "", 0.75)
            error.args = (f"{what}; {hint + ' ' if hint else ''}the columns are {', '.join(columns)}",)
        raise


for _name in ("__getitem__", "__getattr__", "groupby", "pivot", "pivot_table", "query", "sort_values", "set_index"):
    setattr(Table, _name, functools.partialmethod(_naming, getattr(pd.DataFrame, _name)))
