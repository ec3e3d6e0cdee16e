"""Guards whose messages name the field, the value, the bound and the remedy."""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from asyncsim.base.memory import free, free_on

LARGEST = 2**31 - 1
"""Largest count that versions and batches, which are int32, can hold."""
MANY = 20
"""Names of which a message lists all, at most."""
MEMORY = "ASYNCSIM_MEMORY"
"""Environment variable with the bytes that the arrays of one run may take, in place of what the machine has free."""
FEW = 32 << 20
"""Bytes that a run may take without a look at what is free, 32 MiB."""
UNITS = {unit: 1 << (10 * power) for power, unit in enumerate(("", "K", "M", "G", "T"))}
"""What K, M, G and T (and KiB, ...) stand for in a number of bytes."""
LIMIT = re.compile(r"(max|target)_\w*(stale|off_?policy|lag|age)|stale\w*_(threshold|limit)|buffer_max_|staleness$")
"""What trainers call a limit of staleness."""
GROUPED = re.compile(r"[-+\d_.eE]*\d_[-+\d_.eE]*")
"""A number with `_`: Python takes 1_0 for ten, and 0_1 for one."""


class InputError(ValueError):
    """An input that asyncsim cannot use; the message is one line, `FIELD = VALUE: must be BOUND; REMEDY`.

    The command line prints it without a traceback and exits with status 2.
    """

    def __init__(self, field: str, value: Any, bound: str, remedy: str) -> None:
        self.field, self.value, self.bound, self.remedy = field, value, bound, remedy
        if re.fullmatch(r"asyncsim\.\w+", str(getattr(value, "__module__", ""))) and hasattr(value, "__code__"):
            remedy = f"call it, {value.__module__.removeprefix('async')}.{value.__name__}(...); {remedy}"
        if hasattr(value, "read") and hasattr(value, "name"):
            self.remedy = remedy = f"give the path, {value.name!r}, not the open file"
        if re.search("second|time|length|delay|latency", field) and (time := seconds(value)) is not None:
            self.remedy = remedy = f"write {time:.15g}, the seconds of {value}"
        written = re.fullmatch(
            r"([\[('\"]*)(\d+(\.\d+|e\d+)*)(?: ?(%|[kKM])| ?[a-z]+/[a-z]+| ?tok(?:en)?s?)?[]'\"]*", shown(value)
        )
        if written and re.match("an integer|a finite number|a number|a positive number", bound):
            unit = {"%": 0.01, "k": 1e3, "K": 1e3, "M": 1e6}.get(written[4], 1.0)
            number, whole = float(written[2]) * unit, bound.startswith("an integer")
            spelled = written[1] or unit > 1.0 or (whole and written[3])
            if ", 1]" in bound and not whole and 5.0 <= number <= 100.0:
                self.remedy = remedy = f"write {number / 100.0:g} for {number:g} percent"
            elif spelled and number.is_integer() >= whole and str(number) not in remedy:
                self.remedy = remedy = f"write {number:.15g}" + f"; {remedy}" * bool(re.search("/|tok", shown(value)))
        # Names that were given may have line breaks in them, wherever they stand.
        what = field if value is None and bound == "given" else f"{field} = {shown(value)}:"
        super().__init__(" ".join(f"{what} must be {bound}; {remedy}".split()))

    def explaining(self, word: str, meanings: Mapping[str, str], most: int = 16) -> Self:
        """Add a note with the names that `word` may have meant and their meanings, at most `most`; return the error."""
        lines = explained(word, meanings, most)
        if lines:
            self.add_note(lines)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process boundaries in sweeps; the default rebuild would pass the joined line as `field`.
        notes = {name: value for name, value in vars(self).items() if name == "__notes__"}
        return type(self), (self.field, self.value, self.bound, self.remedy), notes


class CallError(InputError, TypeError):
    """Error for unknown or missing arguments of a function."""


class RunWarning(UserWarning):
    """A warning to the user about a run's settings, found during the run; the command line prints it in one line."""


class ShortRunWarning(RunWarning):
    """Warning that a run is too short for a setting to have an effect."""


class RunError(RuntimeError):
    """An error that stops a run although its input was valid; the command line prints it in one line."""


def seconds(text: Any) -> float | None:
    """The seconds of a duration with a unit, such as 5ms, 90s, 30min, 1h or 2d; None for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(ms|[smhd])(?:(?:ec|econd|in|inute|r|our|ay)s?)?", str(text))
    return float(match[1]) * {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[match[2]] if match else None


def timed(field: str, value: Any) -> Any:
    """The seconds of a duration with a unit, if the name of the field says seconds; any other value unchanged."""
    known = seconds(value) if isinstance(value, str) and "seconds" in field else None
    return value if known is None else known


def shown(value: Any) -> str:
    """Format a value on one line, without its middle if it is long: the end of a path says most."""
    try:
        text = plain(" ".join(repr(value).split()))
    except ValueError:
        # Python refuses to print integers of more than some thousand digits.
        text = f"{type(value).__name__} too long to print"
    except RecursionError:
        text = f"{type(value).__name__} nested too deeply to print"
    return clipped(text, 160)


def plain(text: str) -> str:
    """Text form of a value, with names of functions and objects instead of their addresses."""
    text = re.sub(r"\boutside_(\w+)\.", r"\1.py:", text)
    return re.sub(r"<(?:function )?([\w.:]+(?:<[a-z]+>[\w.]*)*)(?: object)? at 0x\w+>", r"\1", text)


def extra(name: str, package: str = "") -> str:
    """How to install the packages of an extra; no registry has asyncsim itself."""
    anywhere = f", or anywhere pip install {package}" * bool(package)
    return f"in your clone of asyncsim run pip install '.[{name}]'{anywhere}"


def clipped(text: str, most: int) -> str:
    """Shorten `text` to at most `most` characters by leaving out its middle."""
    # Of a recorded distribution the first values say enough.
    text = re.sub(r"(empirical(?::[-+.\de]+){3})(?::[-+.\de]+){5,}", r"\1:...", text)
    half = (most - 3) // 2
    return text if len(text) <= most else f"{text[: most - 3 - half]}...{text[-half:]}"


def require(condition: bool, field: str, value: Any, bound: str, remedy: str) -> None:
    """Raise `InputError` unless the condition holds."""
    if not condition:
        raise InputError(field, value, bound, remedy)


def integer(field: str, value: Any, low: int, remedy: str, high: int | None = None) -> int:
    """Return `value` as an int within [low, high]; booleans and fractions are refused."""
    bound = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high}]"
    if high is not None and high >= LARGEST:
        bound = f"an integer >= {low} and at most {high}"
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    require(whole and value >= low and (high is None or value <= high), field, value, bound, remedy)
    return int(value)


def beside(path: Any) -> str:
    """Suggest a file with a similar name in the same folder, or a pattern for several that begin with it; else ""."""
    folder, name = os.path.split(str(path).rstrip("/"))
    names = sorted(os.listdir(folder or ".")) if os.path.isdir(folder or ".") else []
    begin = [each for each in names if name and each.startswith(name) and each.endswith((".csv", ".jsonl"))]
    if len(begin) > 1:
        return f"write '{os.path.join(folder, name)}*{os.path.splitext(begin[0])[1]}' for {len(begin)} files; "
    close = begin or difflib.get_close_matches(name, names, 1, 0.75)
    return f"did you mean {os.path.join(folder, close[0])}? " if close else ""


def is_number(value: Any) -> bool:
    """Whether a value is a plain number; True and False are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def real(
    field: str,
    value: Any,
    remedy: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    open_low: bool = False,
    finite: bool = True,
) -> float:
    """Return `value` as a float within the bounds; NaN, strings and tensors with a gradient are refused."""
    left = "(" if open_low or low == -math.inf else "["
    right = ")" if high == math.inf else "]"
    bound = ("a finite number in " if finite else "a number in ") + f"{left}{low:g}, {high:g}{right}"
    value = timed(field, value)
    require(not isinstance(value, (bool, np.bool_, str, bytes, bytearray)), field, value, bound, remedy)
    _refuse_trained(field, value, bound, remedy)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise InputError(field, value, bound, remedy) from None
    inside = (number > low if open_low else number >= low) and number <= high
    require(inside and (math.isfinite(number) or not finite), field, value, bound, remedy)
    return number


def rate(field: str, value: Any, remedy: str = "state the error rate you accept") -> float:
    """Return `value` as a float strictly between 0 and 1, such as an error rate."""
    number = real(field, value, remedy)
    require(0.0 < number < 1.0, field, value, "in (0, 1)", remedy)
    return number


def _refuse_trained(field: str, value: Any, bound: str, remedy: str) -> None:
    """Refuse tensors that require a gradient: a setting gets none, silently."""
    each = value if isinstance(value, (list, tuple)) else (value,)
    trained = any(getattr(one, "requires_grad", False) is True for one in each)
    require(not trained, field, value, f"{bound}, detached", remedy)


def boolean(field: str, value: Any, remedy: str) -> bool:
    """Return `value` as a bool; numbers and strings are refused."""
    require(isinstance(value, (bool, np.bool_)), field, value, "True or False", remedy)
    return bool(value)


def power(field: str, base: int, exponent: int, limit: int, unit: str, remedy: str) -> int:
    """base^exponent, refused above `limit`; logarithms are compared first, since the power may exceed memory."""
    bound = f"at most {limit} {unit}"
    if exponent * math.log(base) > math.log(limit) + 30.0:
        raise InputError(field, f"{base}^{exponent}", bound, remedy)
    require(base**exponent <= limit, field, base**exponent, bound, remedy)
    return int(base**exponent)


def memory(parts: Mapping[str, tuple[int, str]], device: str = "cpu") -> None:
    """Refuse a run whose arrays would not fit into memory; each array is given with its bytes and how to lower them."""
    total = sum(size for size, _ in parts.values())
    if not fits(total, device):
        most, whose = available(device)
        name, (size, lower) = max(parts.items(), key=lambda part: part[1][0])
        largest = f"at most {most} ({most / (1 << 30):.1f} GiB, {whose}) with all other arrays of the run"
        raise InputError(f"bytes of {name}", size, largest, f"lower {lower}, or set {MEMORY} (as 32GiB)")


def fits(size: float, device: str = "cpu") -> bool:
    """Whether the arrays of a run may take `size` bytes; the check takes a millisecond, so small sizes skip it."""
    few = size <= FEW and size_of(MEMORY) is None
    return few or size <= available(device)[0]


def available(device: str = "cpu") -> tuple[int, str]:
    """Bytes that the arrays of one run may take, and a description of this limit."""
    override = size_of(MEMORY)
    if override is None:
        return free() if device == "cpu" else free_on(device)
    return override, f"as {MEMORY} says"


def size_of(variable: str) -> int | None:
    """Bytes in an environment variable, given as a number or as 500M, 4G, 4GiB; None if it is not set."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(?:i?B)?", text, flags=re.IGNORECASE | re.ASCII)
    if match is None:
        raise InputError(variable, text, "a number of bytes", "write it as 500M, 4G or 4GiB")
    return int(float(match[1]) * UNITS[match[2].upper()])


def resource(module: str, name: str) -> str:
    """The text of the file `name` in the folder of a module; `module` is the path of the module's file."""
    return Path(module).with_name(name).read_text(encoding="utf-8")


def table(module: str, name: str) -> dict[str, Any]:
    """The content of a TOML file in the folder of a module, as in `resource`."""
    return tomllib.loads(resource(module, name))


ANSWERS: dict[str, str] = {}
"""Answers of the table by "place word", and by the word alone for an argument of any call in Python."""
NAMES: dict[str, dict[str, list[str]]] = {}
"""Names with what else people call each: those of ours under "", those of arguments under what takes them."""
_PATTERNS: dict[str, list[tuple[str, str]]] = {}
_WORDS: set[str] = set()
"""Words of the field: who writes one means it, so that it is no misspelling of a name with similar letters."""


def _read() -> None:
    """Read the table: rows `places: words: answer`, and rows `KIND=NAME: words` of other words for a name.

    Words with a backslash in them are one pattern. Of two rows for a word the later counts.
    """
    for places, words, *answer in (line.split(": ", 2) for line in resource(__file__, "elsewhere.txt").splitlines()):
        for place in places.split():
            kind, equals, name = place.partition("=")
            if "\\" in words:
                _PATTERNS.setdefault(place, []).append((words, answer[0]))
                continue
            if equals:
                NAMES.setdefault(kind, {})[name] = words.split()
            _WORDS.update(words.replace("-", "_").split() if kind in ("", place) and place != "own" else ())
            keys = (word if equals else f"{place} {word}" for word in words.split())
            ANSWERS.update(dict.fromkeys(keys, answer[0]) if answer else {})


_read()


def advice(word: Any, *places: str, otherwise: str = "") -> str:
    """Look up advice on a word, in the first of `places` that has an answer; else return `otherwise`.

    Rows with the word itself come before patterns, whose answer may repeat a group of the match.
    """
    for place in places:
        if found := ANSWERS.get(f"{place} {word}".strip()):
            return found
        for pattern, answer in _PATTERNS.get(place, ()):
            if match := re.fullmatch(pattern, str(word)):
                return match.expand(answer)
    return otherwise


def sectioned(name: str) -> list[str]:
    """Names under which a trainer's option, such as a.rollout.n, may be known: itself, rollout_n and n."""
    parts = re.split(r"[./]", name)
    return [name, *["_".join(parts[-2:]), parts[-1]][: 2 * len(parts) - 2]]


def near(word: str, names: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Names that a word may mean, best match first: synonyms, then swapped letters, then similar spellings."""
    word = word.strip("-").lower().replace("-", "_")
    alike, meant = difflib.SequenceMatcher(b=word), word in _WORDS
    scores: dict[str, float] = {}
    for name in names:
        own = name.lower().replace("-", "_")
        alike.set_seq1(own)
        begins = 0.9 * (own.startswith(f"{word}_") or word.startswith(f"{own}_") or word in own.split("/")[1:])
        limits = 0.9 * bool((LIMIT.match(word) or word in ("limit", "lag")) and LIMIT.match(own))
        letters = 4.0 * (own == word) or 2.0 * (not meant and sorted(own) == sorted(word))
        plural = 2.5 * (own.rstrip("s") == word.rstrip("s"))
        ratio = 0.0 if meant else alike.ratio()
        alike.set_seq1(head := own.partition("_")[0])
        ratio = max(ratio, 0.61 * (not meant and len(head) == len(word) and alike.ratio() > 0.65))
        scores[name] = max(3.0 * (word in NAMES[""].get(own, ())), letters, plural, begins, limits, ratio)
    return sorted((name for name in scores if scores[name] >= cutoff), key=lambda name: -scores[name])[:most]


def hint(word: str, names: Iterable[str], otherwise: str = "", cutoff: float = 0.6) -> str:
    """Ask whether the most similar of some names was meant; without a similar name, return `otherwise`."""
    close = near(word, names, 2, cutoff)
    both = {*close} == {"low", "high"}
    return f"did you mean {' and '.join(close) if both else close[0]}?" if close else otherwise


def options(parser: Any, words: Sequence[str] | None = None, otherwise: str = "") -> Any:
    """Parse words with an argparse `parser`; the error for an unknown option suggests a similar one, or `otherwise`."""
    given, unknown = parser.parse_known_args(words)
    known = [name[2:] for action in parser._actions for name in action.option_strings if name[:2] == "--"]
    for word in unknown[:1]:
        close = [f"did you mean --{each}?" for each in near(word, known, 1, 0.75)]
        advice = "".join(close) or otherwise or f"it has --{', --'.join(known)}"
        parser.error(f"{word} is no option; {advice}")
    return given


def explained(word: str, meanings: Mapping[str, str], most: int) -> str:
    """Format known names with their meanings, one per line, sorted by the words that they share with `word`.

    Words are compared by their first five letters. If there are more than `most` names, only those that share a word
    with `word` are listed.
    """

    def stems(text: str) -> set[str]:
        return {part[:5].lower() for part in re.findall("[A-Za-z]{3,}", text.replace("_", " "))} - {"each", "with"}

    def shared(name: str) -> int:
        return 2 * len(asked & stems(name)) + len(asked & stems(meanings[name]))

    known = {name.lstrip("-").replace("-", "_"): name for name in meanings if meanings[name]}
    asked = stems(word).union(*(stems(name) for name in known if word in NAMES[""].get(name, ())))
    ranked = sorted(known.values(), key=lambda name: -shared(name))
    close = [name for name in ranked if len(ranked) <= most or shared(name)][:most]
    return "\n".join(f"  {name}: {meanings[name]}" for name in close)


def one_of(
    field: str,
    value: Any,
    allowed: Iterable[Any],
    remedy: str,
    meanings: Mapping[str, str] | None = None,
    most: int = 16,
) -> Any:
    """Return `value` if it is allowed; the error names similar allowed values, and at most `most` of the `meanings`."""
    allowed = list(allowed)
    # An array compares with every name, element by element.
    if getattr(value, "ndim", 0) > 0 or value not in allowed:
        names = [str(name) for name in allowed]
        some = f"{len(names)} names, {', '.join(near(str(value), names, 6, 0.5) or names[:6])}, ..."
        answered = re.search("did you mean|^leave it out|^it is an arg|^[A-Z][\\w. +]* is ", remedy)
        close = [] if answered else near(str(value), names, 1, 0.75)
        remedy = f"did you mean {close[0]}? {remedy}" if close and f"{close[0]}=" not in remedy else remedy
        bound = "one of " + (", ".join(names) if len(names) <= MANY else some)
        raise InputError(field, value, bound, remedy).explaining(str(value), meanings or {}, most)
    return value


def each_of(field: str, values: Iterable[Any], allowed: Iterable[Any], remedy: str) -> None:
    """Refuse values, such as names of settings, if any of them is not allowed, as `one_of` does."""
    allowed = list(allowed)
    for value in values:
        one_of(field, value, allowed, remedy)


def finite_array(field: str, value: Any, shape: Sequence[int | None], remedy: str) -> np.ndarray:
    """Return `value` as a float64 array of the given shape (None: any length), without NaN or infinity."""
    wanted = "finite numbers of shape [" + ", ".join("any" if s is None else str(s) for s in shape) + "]"
    array = numbers(field, value, wanted, remedy)
    fits = array.ndim == len(shape) and all(s is None or s == n for s, n in zip(shape, array.shape, strict=True))
    require(fits and array.size > 0 and bool(np.isfinite(array).all()), field, value, wanted, remedy)
    return array


def numbers(field: str, value: Any, bound: str, remedy: str) -> np.ndarray:
    """Return `value` as a float64 array of any shape; strings, booleans and tensors with a gradient are refused."""
    _refuse_trained(field, value, bound, remedy)
    try:
        array, kind = np.asarray(value, dtype=np.float64), np.asarray(value).dtype.kind
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise InputError(field, value, bound, remedy) from None
    require(kind not in "bUS", field, value, bound, remedy)
    return array
