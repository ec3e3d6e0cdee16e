"""A calculator that is called by every second character, so that models of random weights call it often."""

from dataclasses import dataclass

from asyncsim.tasks.texts import Calculator


@dataclass(frozen=True)
class Talkative(Calculator):
    """Ids that three divides call; the reply has as many digits as the id asks for, 0 to 3, and knows what was said."""

    def _due(self, prompt, written):
        owed = []
        for place, token in enumerate(written):
            if owed:
                owed = owed[1:]
            elif token % 3 == 0:
                owed = self.tokenizer.encode(str(1000 + sum(prompt) + 7 * sum(written[: place + 1]))[1 : 1 + token % 4])
        return owed[0] if owed else -1


def talkative(texts=("1+2=", "12+34=", "7=", "12+39="), horizon=7):
    """Short prompts of unequal lengths."""
    return Talkative(tuple(texts), ("1",) * len(texts), horizon)
