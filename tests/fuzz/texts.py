"""Short texts of a command line: near misses of what the parsers take, and what each parser may say of them."""

import io
import math
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from random import Random

from asyncsim.app import cli, wording
from asyncsim.base import checks, laws, notation
from asyncsim.schedules import _log_stacks
from asyncsim.systems import areal

WORDS = (
    *("lognormal", "pareto", "gamma", "constant", "exponential", "empirical", "uniform"),
    *("cap", "lr", "task.arms", "system.load", "sample_id", "train_version", "uid"),
    *("none", "inf", "True", "verl", "prime-rl", "openrlhf", "4GiB"),
)
NUMBERS = (
    *("1", "0", "-1", "1.0", "0.8", "1e9", "1e308", "1e309", "-1e400", "1e-320", "nan", "inf", "-inf", "Infinity"),
    *("0x10", "1_000", "٣", "1e", ".", "1048577", "9" * 30, "9" * 400, "9" * 5000),
    *("1,2", " 2 ", "+3", "²", "1e5000"),
)
SIGNS = (
    *(":", "::", "=", "==", ",", "+", ".", "-", "--", "[", "]", "{", "}", "(", ")", "'", '"', "\\"),
    *("\n", "\x00", " ", "", "é", "\ud800"),
    *("[[", "{[]}", "{**{}}", "#", "f''", "lambda: 0", "1if 1else 2", "*" * 9, "[" * 200, "-" * 300, "not "),
)


def text(random: Random) -> str:
    """Words, numbers and signs in some order; now and then a plain random text."""
    if random.random() < 0.1:
        return "".join(chr(random.randrange(1, 0x500)) for _ in range(random.randrange(12)))
    pools = (WORDS, NUMBERS, SIGNS, (":", "=", ","))
    return "".join(random.choice(random.choice(pools)) for _ in range(random.randrange(1, 8)))


def law_text(random: Random) -> str:
    """A law, or nearly one."""
    numbers = [random.choice(NUMBERS) for _ in range(random.choice((1, 2, 2, 2, 3)))]
    found = ":".join([random.choice((*laws.MAKERS, "uniform")), *numbers])
    return found if random.random() < 0.7 else changed(random, found)


def changed(random: Random, found: str) -> str:
    at = random.randrange(len(found) + 1)
    return found[:at] + random.choice(SIGNS) + found[at + random.randrange(3) :]


def pair(random: Random) -> str:
    key = random.choice(WORDS)
    return f"{key}={text(random)}" if random.random() < 0.8 else text(random)


def parsed(given: str) -> None:
    law = laws.Law.parse(given)
    assert laws.Law.parse(str(law)) == law
    with suppress(checks.InputError):  # an infinite mean
        assert law.mean() >= 0.0


def a_system(given: str) -> None:
    areal(2, 4, 8, length=given, load=1.0).describe()


def number(given: str) -> None:
    try:
        value = float(given)
    except ValueError:
        return
    notation.number(value)
    notation.measurement(value, abs(value) / 7 if math.isfinite(value) else 1.0, value)


def built(given: str) -> None:
    for kind, name in (("systems", "areal"), ("updates", "sgd"), ("schedules", "fixed")):
        try:
            wording.build(kind, name, wording.settings([given]))
        except checks.InputError:
            continue


OPTIONS = (
    *("--set", "--model", "--at", "--task", "--method", "--system", "--link", "--staleness", "--samples", "--seed"),
    *("--size", "--diagnostics", "--dtype", "--like", "--strict", "--advantage", "--schedule", "--every"),
    *("--coupled", "--allow"),
)
ENDS = {
    "list": ("nothing",),
    "run": ("--updates", "0"),
    "timeline": ("--updates", "0"),
    "verify": ("no/such",),
    "conformance": ("no_such.py:f",),
    "diagnose": ("no_such.csv",),
    "runn": (),
}
"""What makes a command cheap where it understands all that stands before."""
BETWEEN = "\x1f"


def command_text(random: Random) -> str:
    """Words of a command line, none of them a path to write to."""
    command = random.choice(list(ENDS))
    makers = (text, pair, lambda random: random.choice(OPTIONS), lambda random: random.choice(WORDS))
    words = [random.choice(makers)(random) for _ in range(random.randrange(5))]
    ends = ENDS[command] if random.random() < 0.9 or command != "list" else ()
    return BETWEEN.join([command, *words, *ends])


def command(given: str) -> None:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
        try:
            cli.main(given.split(BETWEEN))
        except SystemExit as end:
            # The lines below it list known names with their meanings.
            lines = [line for line in said.getvalue().splitlines() if line.strip() and not line.startswith("  ")]
            assert end.code in (0, 2) and (end.code == 0 or len(lines) == 1), said.getvalue()


PARSERS: tuple[tuple[Callable[[str], object], Callable[[Random], str], int], ...] = (
    (parsed, law_text, 30),
    (lambda given: laws.as_law("length", given), law_text, 10),
    (lambda given: laws.as_probabilities("law", given), law_text, 5),
    (a_system, law_text, 2),
    (lambda given: wording.settings([given]), pair, 25),
    (lambda given: wording.settings([given, given]), pair, 2),
    (_log_stacks.mapping_of, pair, 8),
    (_log_stacks.stack_of, text, 4),
    (notation.label, text, 4),
    (number, text, 6),
    (built, pair, 1),
    (command, command_text, 1),
    (lambda given: checks.real("number", given, "give one"), text, 1),
    (lambda given: checks.one_of("name", given, WORDS, "choose one"), text, 1),
)
"""What is called, with what, and how often: the weights add up to a hundred."""


def mutated(seed: int) -> tuple[Callable[[str], object], str]:
    """The call with this number."""
    random = Random(seed)
    parser, make, _ = random.choices(PARSERS, [weight for _, _, weight in PARSERS])[0]
    return parser, make(random)
