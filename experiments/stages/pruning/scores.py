"""What a criterion says of a model's layers: scores by document, their means, and what it would take out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from experiments.measurement.evidence import Json
from experiments.stages.pruning.choosing import Choice, Round, choose_in_rounds

SCORE_DIGITS = 6
"""Digits after the point of a score. Layers are chosen by rounded scores: what single precision leaves below
them is noise, and a reader of the report can follow the choice."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerScores:
    """A score for each layer from each calibration document.

    `by_document[d][l]` is the mean over the tokens of document d of what layer l scores there; `tokens[d]`
    are that document's tokens.
    """

    by_document: tuple[tuple[float, ...], ...]
    tokens: tuple[int, ...]

    @cached_property
    def array(self) -> FloatArray:
        """The scores as `[documents, layers]`."""
        return np.array(self.by_document, dtype=np.float64)

    @cached_property
    def means(self) -> tuple[float, ...]:
        """Each layer's mean over all tokens, rounded to `SCORE_DIGITS`."""
        means = np.average(self.array, axis=0, weights=np.array(self.tokens, dtype=np.float64))
        return tuple(round(float(mean), SCORE_DIGITS) for mean in means)


@dataclass(frozen=True)
class Ranking:
    """What a criterion found on one model: each layer's score beside all others, and the choice by rounds.

    `computed_in` says in which number format and where, such as `float32 on cpu`.
    """

    scores: LayerScores
    rounds: tuple[Round, ...]
    computed_in: str = ""

    @property
    def removed(self) -> tuple[int, ...]:
        """The layers that go, ascending."""
        return tuple(sorted(each.removed for each in self.rounds))

    def to_json(self) -> dict[str, Json]:
        """For the pipe between processes and for the artifact."""
        return {
            "by_document": [list(row) for row in self.scores.by_document],
            "tokens": list(self.scores.tokens),
            "computed_in": self.computed_in,
            "rounds": [
                {
                    "scores": {str(layer): score for layer, score in each.scores.items()},
                    "removed": each.removed,
                }
                for each in self.rounds
            ],
        }


def ranked_once(scores: LayerScores, layer_types: Sequence[str], choice: Choice) -> Ranking:
    """The ranking of a criterion whose scores stay the same whatever goes."""
    fixed = dict(enumerate(scores.means))
    return Ranking(scores, choose_in_rounds(layer_types, choice, lambda *_: fixed))


def ranking_from(data: Mapping[str, Json]) -> Ranking:
    """What `Ranking.to_json` wrote; raises `TypeError`, `KeyError` or `ValueError` for anything else."""
    by_document, tokens, rounds = data["by_document"], data["tokens"], data["rounds"]
    if not isinstance(by_document, list) or not isinstance(tokens, list) or not isinstance(rounds, list):
        raise TypeError("a ranking holds lists")
    return Ranking(
        LayerScores(
            tuple(tuple(_number(score) for score in _items(row)) for row in by_document),
            tuple(int(_number(count)) for count in tokens),
        ),
        tuple(_round(each) for each in rounds),
        str(data.get("computed_in", "")),
    )


def _round(data: Json) -> Round:
    if not isinstance(data, Mapping) or not isinstance(data["scores"], Mapping):
        raise TypeError("a round holds scores by layer")
    scores = {int(layer): _number(score) for layer, score in data["scores"].items()}
    return Round(scores, int(_number(data["removed"])))


def _items(data: Json) -> Sequence[Json]:
    if not isinstance(data, list):
        raise TypeError("scores come as a list")
    return data


def _number(data: Json) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise TypeError(f"{data!r} is no number")
    return data
