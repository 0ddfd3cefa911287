"""`raw`: running text, passages of the training modules of the standard library."""

from __future__ import annotations

import platform
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from experiments.corpora.calibration.packing import pack
from experiments.corpora.calibration.source import Ask, CorpusSource, Drawn, SourceKind, no_argument
from experiments.corpora.standard_library import training_documents
from experiments.measurement.evidence import Json

PREFIX = "raw"

CHARS_PER_TOKEN = 16
"""So much text per token wanted is tokenized: several times what a token of code has, so that it is
enough, and little beside a whole module."""


def passages(ask: Ask, tokens: int) -> Iterator[list[int]]:
    """Endless passages of at most `tokens` tokens, each from the beginning of a line of a training module.

    All modules take their turn, in an order of the seed, before one comes again; only the end of a module
    makes a passage shorter.
    """
    documents = training_documents()
    for turn in count():
        rng = random.Random(f"{ask.seed}/{PREFIX}/{turn}")
        for index in rng.sample(range(len(documents)), len(documents)):
            text = documents[index].text
            start = text.rfind("\n", 0, rng.randrange(len(text))) + 1
            ids = ask.encode(text[start : start + CHARS_PER_TOKEN * tokens])[:tokens]
            if ids:
                yield ids


@dataclass(frozen=True)
class RawText:
    """Running text; fewer samples are a prefix of more."""

    canonical: str = PREFIX

    def identity(self, device: str) -> Mapping[str, Json]:
        """The library's text changes with Python."""
        return {"corpus": PREFIX, "python": platform.python_version()}

    def draw(self, ask: Ask) -> Drawn:
        """Passages of the length of a document, joined where a module ends."""
        room = max(1, ask.sample_tokens - len(ask.between))
        documents = pack(passages(ask, room), ask.samples, ask.sample_tokens, ask.between, carry=False)
        version = platform.python_version()
        return Drawn(documents, f"running text of the standard library of Python {version}, training modules")


def parse(argument: str | None) -> CorpusSource:
    """The source of `raw`."""
    no_argument(PREFIX, argument)
    return RawText()


KIND = SourceKind(
    PREFIX,
    PREFIX,
    "Running text: passages of the training modules of Python's standard library.",
    parse,
)
