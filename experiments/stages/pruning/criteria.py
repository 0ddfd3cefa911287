"""The criteria by which layers are ranked: a registry, each with what it measures and what it costs.

A criterion's function lives in a module that imports torch, so it is named here and loaded in the process
that scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from experiments.engines.port import Infeasible
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.kept_rows import NOTHING_KEPT, KeptRows
from experiments.stages.pruning.scores import Ranking

if TYPE_CHECKING:
    from transformers.models.qwen3_5 import Qwen3_5ForCausalLM


class Rank(Protocol):
    """Ranks a model's layers on documents (token ids), each read on its own, and chooses."""

    def __call__(
        self,
        model: Qwen3_5ForCausalLM,
        documents: Sequence[Sequence[int]],
        choice: Choice,
        workers: int = 1,
        kept: KeptRows = NOTHING_KEPT,
    ) -> Ranking:
        """Return the scores of all layers and the layers that go; `workers` documents are read at a time.

        A document's scores that are in `kept` are taken from there, others are kept there.
        """
        ...


@dataclass(frozen=True)
class Criterion:
    """One value of `pruning.criterion`.

    `rank` names the function as `module:function`; `forwards` says how many full forwards a calibration
    token costs in a model of L layers with n layers to go. `scores_once`: a layer's score is the same
    whatever else goes, so that one scoring serves every choice.
    """

    name: str
    rank: str
    measures: str
    forwards: str
    scores_once: bool

    def load(self) -> Rank:
        """Return the function; imports torch."""
        module, function = self.rank.split(":")
        return cast(Rank, getattr(import_module(module), function))


_PACKAGE = "experiments.stages.pruning"

CRITERIA: Mapping[str, Criterion] = {
    each.name: each
    for each in (
        Criterion(
            "block_influence",
            f"{_PACKAGE}.block_influence:rank_by_block_influence",
            "how much a layer turns the hidden state, 1 − E[cos(x_i, x_i+1)]",
            "1",
            True,
        ),
        Criterion(
            "leave_one_out_kl",
            f"{_PACKAGE}.leave_one_out:rank_by_leave_one_out_kl",
            "token KL of the model without a layer against the whole model",
            "(L + 1) / 2, and L heads",
            True,
        ),
        Criterion(
            "greedy_kl",
            f"{_PACKAGE}.leave_one_out:rank_by_greedy_kl",
            "the same, scored anew after each layer that goes",
            "n · (L + 1) / 2, and n · L heads",
            False,
        ),
    )
}
"""Values of `pruning.criterion`."""


def criterion_named(name: str) -> Criterion:
    """Return a criterion; raises `Infeasible` of kind `illegal` when there is none of this name."""
    if name not in CRITERIA:
        raise Infeasible(
            "illegal", f"There is no pruning.criterion {name!r}; it is one of {', '.join(CRITERIA)}."
        )
    return CRITERIA[name]
