"""What is known, in so many tokens: the most valuable first, as JSON. Pure.

What an answer can't be made without is always there: the campaign, the best so far, the knobs with their
values. The rest is a list of lists, each with its best first, from which is taken in turns until nothing more
fits: a verdict, a finding, what waits, what the user said, and again. `left_out` says how many of each were
left out. Equal knowledge gives an equal digest.

Tokens are counted without the model's tokenizer, as one for every two characters: the text is ASCII, and
tokenizers that take each digit alone come to about that on JSON. What the endpoint counted is kept with the
answer.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.language_model.quoting import encoded
from configs.errors import UsageError
from experiments.measurement.evidence import Json

REFUSED = "refused"
"""The list of what was refused of the model's own answers: it says no more of the campaign."""

CHARACTERS_PER_TOKEN = 2
"""Of a text in ASCII that is mostly JSON; see the module's page."""


@dataclass(frozen=True)
class Known:
    """What may be told: `always` by name, and `lists` by name, the most valuable entry of each first.

    Every text in it that others wrote has gone through `quoting.plain`.
    """

    always: Mapping[str, Json]
    lists: Mapping[str, Sequence[Json]]


@dataclass(frozen=True)
class Digest:
    """The JSON, the tokens that it counts as, and how many entries of each list were left out.

    `content` is the fingerprint of all that is known, but for what was refused of answers: by it a question
    is the same one as before, and an answer that was refused is no reason to put it again.
    """

    text: str
    tokens: int
    left_out: Mapping[str, int]
    content: str


def tokens_of(text: str) -> int:
    """How many tokens a text counts as."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def digest(known: Known, most_tokens: int) -> Digest:
    """The digest in at most so many tokens.

    Raises `UsageError` where not even what must be told fits.
    """
    taken: dict[str, int] = dict.fromkeys(known.lists, 0)
    text = _written(known, taken)
    if tokens_of(text) > most_tokens:
        raise UsageError(
            f"the knobs and the best so far alone take {tokens_of(text)} tokens, and {most_tokens} are left "
            "for them.",
            "Raise language_model.prompt_tokens, or ban levers.",
        )
    open_lists = [name for name, entries in known.lists.items() if entries]
    while open_lists:
        for name in tuple(open_lists):
            more = {**taken, name: taken[name] + 1}
            longer = _written(known, more)
            if tokens_of(longer) > most_tokens:
                open_lists.remove(name)  # what comes after it in its list is worth less
                continue
            taken, text = more, longer
            if taken[name] == len(known.lists[name]):
                open_lists.remove(name)
    left = {name: len(entries) - taken[name] for name, entries in known.lists.items()}
    return Digest(text, tokens_of(text), left, _fingerprint(known))


def _fingerprint(known: Known) -> str:
    lists = {name: list(entries) for name, entries in known.lists.items() if name != REFUSED}
    return hashlib.sha256(encoded({**known.always, **lists}).encode()).hexdigest()


def _written(known: Known, taken: Mapping[str, int]) -> str:
    told: dict[str, Json] = dict(known.always)
    for name, entries in known.lists.items():
        told[name] = list(entries[: taken[name]])
    told["left_out"] = {name: len(known.lists[name]) - taken[name] for name in known.lists}
    return encoded(told)
