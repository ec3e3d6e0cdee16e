"""Your own data for a language model: prompts from a file, rewards from a function."""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.base import checks, files, outside
from asyncsim.base.parts import choice, flag, handed_on, made, whole
from asyncsim.tasks._language import PARTS, Answer, LanguageTask, chosen, reward_of

_TEXTS = checks.table(__file__, "texts.toml")["text"]

_OWN = ("prompts", "completions", "completion_ids", "ended")
"""What a reward may ask for beside the columns of the data."""

_Columns = dict[str, list[Any]]
"""Values of every column, in the order of the rows."""
_FORMS = "a .jsonl or .parquet file, or a folder saved by datasets"


@dataclass(frozen=True)
class Text(LanguageTask):
    """Language task on prompts and answers from a user's data; see `text`."""

    data: str = ""
    rule: Any = "exact"
    stop: str | None = None
    template: str | None = None
    bos: bool = False
    part: str = "all"
    digest: str = ""
    asked: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    columns: Any = field(default=None, compare=False, repr=False)
    marker: Any = field(default=None, compare=False, repr=False)

    speaker: ClassVar[str] = "smollm2"

    @property
    def watches(self) -> bool:  # type: ignore[override]
        """Whether the stop string may span several tokens, so that it is looked for in the text."""
        return self.stop is not None and len(self.stop.encode()) > 1

    def encoded(self, tokenizer: Any) -> list[list[int]]:
        """Token ids of every prompt, with the chat template and the beginning-of-text token if requested."""
        if self.template is None:
            rows = [tokenizer.encode(text) for text in self.texts]
        else:
            remedy = "use a model whose tokenizer has a chat template, or template=None"
            checks.require(hasattr(tokenizer, "chat"), "template", self.template, "known to the model", remedy)
            chats = ([{"role": "user", "content": each}] if isinstance(each, str) else each for each in self.asked)
            rows = [tokenizer.chat(each) for each in chats]
        if self.bos:
            first = getattr(tokenizer, "bos", None)
            remedy = "leave bos out: the model has no such token"
            checks.require(first is not None, "bos", True, "False for this model", remedy)
            rows = [row if row[:1] == [first] else [first, *row] for row in rows]
        return rows

    def needed(self, tokenizer: Any) -> list[int]:
        """Number of tokens of each prompt's right answer with its stop; empty if a reward function decides."""
        bound, remedy = "given for a model without a token that ends a text", "give stop, as stop='\\n'"
        checks.require(self.stop is not None or bool(_ends(tokenizer)), "stop", self.stop, bound, remedy)
        if self.marker is not None:
            return []
        # The token that ends a text is no text.
        return [len(tokenizer.encode(text + (self.stop or ""))) + (self.stop is None) for text in self.answers]

    def goes_on(self, written: Tensor) -> Tensor:
        """Whether the stop string is still missing in the tokens `written`, int64 `[R, G, N, t]`: bool `[R, G, N]`."""
        going = torch.ones(written.shape[:3], dtype=torch.bool)
        # Only a token with the last character of the stop can complete it.
        for at in torch.isin(written[..., -1], torch.tensor(self._last)).nonzero().tolist():
            going[tuple(at)] = str(self.stop) not in self.tokenizer.decode(written[tuple(at)].tolist())
        return going

    def rewards(self, prompts: Sequence[int], answers: Sequence[Answer]) -> list[float]:
        """Rewards of answers: by the user's function, or 1 for an ended answer that equals the right text, else 0."""
        if self.marker is None:
            pairs = zip(prompts, answers, strict=True)
            return [float(each.ended and each.text.strip() == self.answers[q]) for q, each in pairs]
        own = {
            "prompts": [self.texts[q] for q in prompts],
            "completions": [each.text for each in answers],
            "completion_ids": [list(each.ids) for each in answers],
            "ended": [each.ended for each in answers],
        }
        every = own | {name: [values[q] for q in prompts] for name, values in self.columns.items()}
        given = self.marker(**{name: every[name] for name in _asked(self.marker, list(every))})
        name, remedy = _name(self.rule), "return a list with one number for each of `completions`"
        listed = hasattr(given, "__len__") and not isinstance(given, (str, bytes, dict))
        count = len(given) if listed else 1
        checks.require(listed and count == len(answers), f"rewards of {name}", given, f"{len(answers)} numbers", remedy)
        values = given.tolist() if hasattr(given, "tolist") else given
        paid = zip(prompts, values, strict=True)
        return [reward_of(f"{name}, of an answer to prompt {q}", x, remedy) for q, x in paid]

    def describe(self) -> dict[str, Any]:
        """Settings of the task for the header of a run, with the digest of the data."""
        return {**super().describe(), "task_rule": _name(self.rule)}

    @cached_property
    def _last(self) -> list[int]:
        last = str(self.stop)[-1]
        # A character of several bytes may come in pieces, which decode to a replacement.
        return [*_holding(self.tokenizer, last), *([] if last.isascii() else _holding(self.tokenizer, "\ufffd"))]

    @cached_property
    def _stopping(self) -> tuple[int, ...]:
        single = _holding(self.tokenizer, self.stop) if self.stop is not None and not self.watches else ()
        return tuple(sorted({*_ends(self.tokenizer), *single}))

    def _stops(self) -> tuple[int, ...]:
        return self._stopping

    def _text(self, ids: Any) -> str:
        text = str(self.tokenizer.decode(ids))
        return text if self.stop is None else text.partition(self.stop)[0]

    def _ended(self, ids: Sequence[int]) -> bool:
        return super()._ended(ids) or (self.watches and str(self.stop) in self.tokenizer.decode(ids))


@made(**_TEXTS["text"])
def text(
    data: str = handed_on(..., **_TEXTS["data"]),
    prompt: str = handed_on("prompt", 'name of the column that is asked, or a format such as "Q: {question}\\nA:"'),
    answer: str | None = handed_on(None, 'name of the column with the right answer (None: "answer" for "exact")'),
    reward: Any = handed_on("exact", **_TEXTS["reward"]),
    stop: str | None = handed_on(None, "text that ends an answer beside the model's own end (None: nothing else)"),
    template: str | None = choice("chat", **_TEXTS["template"]).but(None, optional=True),
    horizon: int = whole(64, "T, tokens of the longest answer", 1, checks.LARGEST, remedy="give at least one token"),
    bos: bool = flag("the token that begins a text stands in front of every prompt"),
    prompts: int | None = handed_on(None, "Q, how many rows are asked (None: all)"),
    part: str = choice(*PARTS, words="every row, or each second one: two halves that share none"),
    split: str | None = handed_on(None, "name of the split, for a folder with several"),
) -> Text:
    """Language task on prompts from your own data, with your own reward.

    Row q of the data is prompt q. An answer ends with the model's own end of text, or behind `stop`, which is no part
    of it; it may have several lines. A reward function is called once per batch and returns one number per answer. It
    names the lists that it reads, each with one entry per answer. They are `prompts`, `completions` (texts),
    `completion_ids`, `ended` (whether the answer ended within the horizon), and every column of the data by its name.
    "exact" pays nothing for an answer that did not end.

    >>> import json, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "sums.jsonl"
    >>> _ = path.write_text(json.dumps({"question": "1+2=", "answer": 3}))
    >>> def close(completions, answer):
    ...     return [1.0 if text.strip() == str(right) else 0.0 for text, right in zip(completions, answer)]
    >>> task = text(str(path), prompt="Sum: {question}", reward=close, stop="\\n", horizon=8)
    >>> task.texts, task.answers, task.horizon
    (('Sum: 1+2=',), ('',), 8)
    """
    columns, digest = _read(data, split)
    where = str(data)
    reserved = sorted({*columns} & {*_OWN})
    checks.require(not reserved, f"columns of {where}", ", ".join(reserved), "other names", "rename these columns")
    asked = _filled(columns, prompt, where)
    for row, each in enumerate(asked):
        remedy = "give every row a text" + (
            " or a list of messages" if template else ", or template='chat' for messages"
        )
        usable = isinstance(each, str) or (template is not None and _is_chat(each))
        fits = usable and bool(_words(each).strip())
        checks.require(fits, f"prompt of row {row} of {where}", each, "a text that is not empty", remedy)
    rows = chosen(range(len(asked)), len(range(len(asked))[PARTS[part]]) if prompts is None else prompts, part)
    exact = isinstance(reward, str) and reward == "exact"
    right = _column(columns, answer or "answer", "answer", where) if exact or answer else [""] * len(asked)
    for row in rows if exact else ():
        told = isinstance(right[row], (str, int, float)) and bool(str(right[row]).strip())
        field, remedy = f"answer of row {row} of {where}", "give every row an answer, or a reward function"
        checks.require(told, field, right[row], "a text or a number", remedy)
    marker = None if exact else _marker(reward, [*_OWN, *columns])
    if stop is not None:
        remedy = "give stop='\\n', or leave it out (on the command line: --set 'task.stop=\"\\n\"')"
        checks.require(isinstance(stop, str) and bool(stop), "stop", stop, "a text", remedy)
        named = set(stop) <= set("\\nrt") and "\\" in stop
        checks.require(not named, "stop", stop, "a line break, not its name", remedy)
    texts, answers = ([str(each[row]) for row in rows] for each in ([_words(x) for x in asked], right))
    kept = {name: [values[row] for row in rows] for name, values in columns.items()}
    about = (where, reward, stop, template, bos, part, digest, tuple(asked[row] for row in rows), kept, marker)
    return Text(tuple(texts), tuple(each.strip() for each in answers), horizon, None, None, *about)


def _marker(reward: Any, known: list[str]) -> Callable[..., Any]:
    """Load the reward function; refuse one whose arguments are missing in the data."""
    place = not isinstance(reward, str) or ":" in reward
    checks.require(place, "reward", reward, "exact, or your function", "write reward='exact', or 'my.py:function'")
    function = outside.loaded(reward, "reward") if isinstance(reward, str) else reward
    bound, remedy = "'exact', a function, or its place as my.py:name", "write def f(completions, **columns)"
    checks.require(callable(function), "reward", reward, bound, remedy)
    _asked(function, known)
    return function


def _asked(function: Callable[..., Any], known: list[str]) -> list[str]:
    """Names of the lists that a reward function takes."""
    own = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in own):
        return known
    for each in own:
        optional = each.default is not each.empty or each.kind is each.VAR_POSITIONAL
        remedy = f"name its arguments among {', '.join(known)}"
        checks.require(each.name in known or optional, f"argument of {_name(function)}", each.name, "known", remedy)
    return [each.name for each in own if each.name in known]


def _name(reward: Any) -> str:
    return reward if isinstance(reward, str) else str(getattr(reward, "__name__", type(reward).__name__))


def _is_chat(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, dict) and "content" in x for x in value)


def _words(asked: Any) -> str:
    """Text of a prompt; for a list of messages, the text of the last message."""
    return str(asked[-1]["content"]) if _is_chat(asked) else str(asked)


def _ends(tokenizer: Any) -> Sequence[int]:
    """Ids of tokens that end an answer by themselves."""
    eos: Sequence[int] = getattr(tokenizer, "eos", tokenizer.end)
    return eos


def _holding(tokenizer: Any, text: str) -> list[int]:
    """Ids of tokens whose text contains the given text."""
    return [i for i in range(tokenizer.size) if text in tokenizer.decode([i])]


# Rows of a user's data: JSONL and Parquet files, and folders that `datasets` saved.


def _read(data: Any, split: str | None = None) -> tuple[_Columns, str]:
    """Columns of a file or folder, and the first 12 hexadecimal digits of the SHA-256 of its contents."""
    written = "pandas.DataFrame(rows).to_json('rows.jsonl', orient='records', lines=True) and give 'rows.jsonl'"
    checks.require(not isinstance(data, list), "data", data, "the name of a file", f"write {written}")
    path = files.named("data", data).expanduser()
    checks.require(path.exists(), "data", str(path), _FORMS, "give the path of a file that exists")
    if path.is_dir():
        columns, digest = _folder(path, split)
    else:
        checks.require(split is None, "split", split, "absent for a file", "a file is one table: leave it out")
        files.Budget(path).fit(path.stat().st_size)
        known = {".jsonl": _lines, ".parquet": _parquet}
        checks.require(path.suffix in known, "data", str(path), _FORMS, "write one JSON object per line, as .jsonl")
        with files.decoding(path, f"{path.suffix} file", "write the file again", "data"):
            columns, digest = known[path.suffix](path), _digest([path])
    count = len(next(iter(columns.values()), []))
    checks.require(count > 0, "rows of the data", count, "at least 1", f"put rows into {path}")
    return columns, digest


def _lines(path: Path) -> _Columns:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                remedy = f"fix the line ({error})"
                raise checks.InputError(f"line {number} of {path}", line.strip()[:60], "JSON", remedy) from None
            checks.require(isinstance(row, dict), f"line {number} of {path}", row, "a JSON object", "write {...}")
            names = list(rows[0]) if rows else list(row)
            missing = sorted({*names} ^ {*row})
            field, remedy = f"line {number} of {path}", f"give every line the same names: {', '.join(missing)} differs"
            checks.require(not missing, field, ", ".join(row), f"the names {', '.join(names)}", remedy)
            rows.append(row)
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


def _parquet(path: Path) -> _Columns:
    from pyarrow import parquet

    # Threads that read may outlive the interpreter, which then ends by a signal.
    columns: _Columns = parquet.read_table(path, use_threads=False).to_pydict()
    return columns


def _folder(path: Path, split: str | None) -> tuple[_Columns, str]:
    names = {each.name: each.suffix for each in path.iterdir()}
    kinds = [kind for kind in (".jsonl", ".parquet", ".json") if kind in names.values()]
    if kinds and not {"state.json", "dataset_dict.json"} & {*names}:
        inside = path / min((n for n in names if names[n] == kinds[0]), key=lambda name: ("train" not in name, name))
        remedy = f"write {inside} anew, one JSON object per line, as .jsonl" if kinds == [".json"] else None
        raise checks.InputError("data", str(path), _FORMS, remedy or f"name a file of it: task.data={inside}")
    try:
        import datasets
    except ImportError as error:
        remedy = "pip install datasets, or save the rows as .jsonl or .parquet"
        raise checks.InputError("package", "datasets", "installed (it reads folders)", remedy) from error
    remedy = "save the data with save_to_disk"
    with files.decoding(path, "folder saved by datasets", remedy, "data"):
        loaded = datasets.load_from_disk(str(path))
    if isinstance(loaded, Mapping):
        checks.require(split is not None, "split", split, f"one of {', '.join(loaded)}", "name a split of the folder")
        loaded = loaded[checks.one_of("split", str(split), list(loaded), "name a split of the folder")]
        path = path / str(split)
    else:
        checks.require(split is None, "split", split, "absent: this folder has no splits", "leave it out")
    return loaded.to_dict(), _digest(sorted(each for each in path.rglob("*") if each.is_file()))


def _digest(paths: Sequence[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:12]


def _column(columns: _Columns, name: str, what: str, data: Any) -> list[Any]:
    """Return a column by name; raise `InputError` that lists the columns of the data."""
    remedy = f"name a column of {data}: {', '.join(columns)}" + ", or give a reward, my.py:NAME" * (what == "answer")
    known = isinstance(name, str) and name in columns
    checks.require(known, what, name, "a column of the data", remedy)
    return columns[name]


def _filled(columns: _Columns, form: str, data: Any) -> list[Any]:
    """Return a column by name, or fill a format such as "Q: {question}" from the columns of every row."""
    if not isinstance(form, str) or form in columns or "{" not in form:
        return _column(columns, form, "prompt", data)
    try:
        pieces = list(Formatter().parse(form))
    except ValueError as error:
        remedy = f"write {{name}} for a column, {{{{ for a bracket ({error})"
        raise checks.InputError("prompt", form, "a format of columns", remedy) from None
    plain = all(not spec and not conversion for _, name, spec, conversion in pieces if name is not None)
    checks.require(plain, "prompt", form, "a format of columns by name alone", "write {name}, without : and !")
    values = {name: _column(columns, name, "prompt", data) for _, name, *_ in pieces if name is not None}
    count = len(next(iter(columns.values())))
    return ["".join(text + (str(values[name][q]) if name is not None else "") for text, name, *_ in pieces)
            for q in range(count)]  # fmt: skip
