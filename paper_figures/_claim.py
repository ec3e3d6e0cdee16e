"""A claim of a paper or of the package, and what came out here.

Those of a source stand in `_claims_SOURCE.py`, those of several in `_claims_more.py`; `_claims` puts them in order. A
number is text with `{figure:key}` for what a figure's `numbers()` gives. A verdict says what was tested, no more.
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncsim import claims
from asyncsim.base import checks

VERDICTS = ("reproduced", "under conditions", "not reproduced", "not tested")


@dataclass(frozen=True)
class Claim:
    """One claim: who says it, what came out, the number that decides, and the figure that shows it.

    `when`: the conditions, or what was not tested; `rebuilt`: our reconstruction of the method is judged. `stated`: the
    sentence in `claims.papers()`, whose exact results are set against it too. Without a figure they alone decide.
    """

    source: str
    text: str
    verdict: str
    number: str
    figure: str
    when: str = ""
    rebuilt: bool = False
    stated: str = ""

    @property
    def claims(self) -> tuple[str, ...]:
        """Ids of the exact results."""
        return claims.papers()[self.stated].claims if self.stated else ()

    def __post_init__(self) -> None:
        checks.one_of("verdict", self.verdict, VERDICTS, "choose one")
        conditional = self.verdict in ("under conditions", "not tested")
        checks.require(bool(self.when) or not conditional, "when", self.when, f"given where {self.verdict}", "say it")
