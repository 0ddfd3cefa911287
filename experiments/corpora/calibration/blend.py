"""`blend:P`: the share P of the samples from `instruct`, the rest from `raw`, evenly interleaved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from experiments.corpora.calibration.instruct import Instructions
from experiments.corpora.calibration.raw import RawText
from experiments.corpora.calibration.source import Ask, CorpusSource, Drawn, SourceKind
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json

PREFIX = "blend"

_SHARE = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)


def instruct_places(samples: int, share: Fraction) -> tuple[bool, ...]:
    """Which samples come from `instruct`: of the first n, n × share rounded, for every n (halves up)."""
    counts = [int(number * share + Fraction(1, 2)) for number in range(samples + 1)]
    return tuple(counts[number + 1] > counts[number] for number in range(samples))


@dataclass(frozen=True)
class Blend:
    """A blend; `share` lies between 0 (all `raw`) and 1 (all `instruct`)."""

    share: Decimal

    @property
    def canonical(self) -> str:
        """The share without superfluous zeros."""
        return f"{PREFIX}:{format(self.share.normalize(), 'f')}"

    def identity(self, device: str) -> Mapping[str, Json]:
        """What the two sources depend on."""
        return {**RawText().identity(device), **Instructions().identity(device), "corpus": self.canonical}

    def draw(self, ask: Ask) -> Drawn:
        """As many samples of each as the share says, each source in its own order."""
        places = instruct_places(ask.samples, Fraction(self.share))
        instruct = Instructions().draw(replace(ask, samples=sum(places)))
        raw = RawText().draw(replace(ask, samples=len(places) - sum(places)))
        left = {True: iter(instruct.documents), False: iter(raw.documents)}
        return Drawn(
            [next(left[place]) for place in places],
            f"{sum(places)} of {instruct.described}; {len(raw.documents)} of {raw.described}",
        )


def parse(argument: str | None) -> CorpusSource:
    """The source of `blend:P`; raises `Infeasible` when P is no decimal number from 0 to 1."""
    if not argument:
        raise Infeasible(
            "illegal", "The corpus blend needs its share of instructions: write blend:0.5, for example."
        )
    if not _SHARE.fullmatch(argument) or not 0 <= Decimal(argument) <= 1:
        raise Infeasible(
            "illegal",
            f"The share in blend:{argument} is not a number from 0 to 1: write blend:0.5 for one half.",
        )
    return Blend(Decimal(argument))


KIND = SourceKind(
    PREFIX,
    "blend:P",
    "The share P (0 to 1) of the samples from instruct, the rest from raw, evenly interleaved.",
    parse,
)
