"""The tokenizer of the character model: one id for each character of a small alphabet."""

from __future__ import annotations

from collections.abc import Iterable

from asyncsim.base import checks

ALPHABET = "\n0123456789+-*/=() abcdefghijklmnopqrstuvwxyz.,:?"


class Characters:
    """Ids of characters; a line break ends a text."""

    def __init__(self, alphabet: str = ALPHABET) -> None:
        self.alphabet = alphabet
        self._number = {character: number for number, character in enumerate(alphabet)}

    @property
    def size(self) -> int:
        """Characters of the alphabet."""
        return len(self.alphabet)

    @property
    def end(self) -> tuple[int, ...]:
        """Ids that end a text."""
        return (self._number["\n"],)

    @property
    def newline(self) -> tuple[int, ...]:
        """Ids whose text holds a line break."""
        return self.end

    def encode(self, text: str) -> list[int]:
        """Ids of a text; a character outside the alphabet is refused.

        >>> Characters().encode("1+2=")
        [2, 11, 3, 15]
        """
        for character in text:
            remedy = f"the character model knows {self.alphabet!r}; use causal_lm('smollm2') or a model of words"
            checks.require(character in self._number, "character of a text", character, "in the alphabet", remedy)
        return [self._number[character] for character in text]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids.

        >>> Characters().decode([2, 11, 3, 15])
        '1+2='
        """
        return "".join(self.alphabet[number] for number in ids)
