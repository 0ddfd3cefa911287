"""Leave-one-out KL of each layer, once or again after each layer that goes. Imports torch; runs in a process
of its own.

The score of a layer is the mean over tokens of KL(whole ‖ without it), in nats, of the distributions over
the next token. The whole model is always the one with all its layers, also when some have gone: what counts
is how far the text has come from where it began. Layers' errors don't add (EvoPress, arXiv 2410.14649), so
the greedy form scores what is left anew after each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.reference.checkpoint import layer_kinds
from experiments.stages.pruning.choosing import Choice, choose_in_rounds
from experiments.stages.pruning.kept_rows import NOTHING_KEPT, KeptRows, Row
from experiments.stages.pruning.layer_walk import LayerWalk
from experiments.stages.pruning.room import LOGIT_BYTES_MAX
from experiments.stages.pruning.scores import LayerScores, Ranking, ranked_once


def rank_by_leave_one_out_kl(
    model: Qwen3_5ForCausalLM,
    documents: Sequence[Sequence[int]],
    choice: Choice,
    workers: int = 1,
    kept: KeptRows = NOTHING_KEPT,
) -> Ranking:
    """The layers whose going alone changes the text least go."""
    return ranked_once(LeaveOneOut(model, documents, workers, kept).all_layers(), layer_kinds(model), choice)


def rank_by_greedy_kl(
    model: Qwen3_5ForCausalLM,
    documents: Sequence[Sequence[int]],
    choice: Choice,
    workers: int = 1,
    kept: KeptRows = NOTHING_KEPT,
) -> Ranking:
    """The layer whose going changes the text least goes, then what is left is scored again.

    The scores of the ranking are those of the first round, over all layers.
    """
    scorer = LeaveOneOut(model, documents, workers, kept)
    first = scorer.all_layers()

    def rescore(gone: tuple[int, ...], candidates: tuple[int, ...]) -> Mapping[int, float]:
        means = scorer.without(gone, candidates).means if gone else [first.means[each] for each in candidates]
        return dict(zip(candidates, means, strict=True))

    return Ranking(first, choose_in_rounds(layer_kinds(model), choice, rescore))


class LeaveOneOut:
    """Scores variants of one model on the same documents (token ids, each read on its own).

    What `kept` has of a document is taken from there, and what it lacks kept there.
    """

    def __init__(
        self,
        model: Qwen3_5ForCausalLM,
        documents: Sequence[Sequence[int]],
        workers: int = 1,
        kept: KeptRows = NOTHING_KEPT,
    ) -> None:
        self._model = model
        self._tokens = tuple(map(len, documents))
        self._walk = LayerWalk(model, documents, workers, kept)
        self._whole: dict[int, torch.Tensor] = {}

    def all_layers(self) -> LayerScores:
        """The KL without each layer alone."""
        return self.without((), self._walk.all_layers)

    def without(self, gone: Sequence[int], candidates: Sequence[int]) -> LayerScores:
        """The KL without the layers of `gone` and each of `candidates`, a column for each in their order."""

        def score(number: int) -> Row:
            intact, without = self._walk.last_states(number, gone, candidates)
            if number not in self._whole:  # the whole model's states serve all later rounds
                self._whole[number] = self._walk.whole_states(number) if gone else intact
            return self._mean_kl(self._whole[number], [without[each] for each in candidates])

        return LayerScores(self._walk.each_document(score, candidates, gone), self._tokens)

    def _mean_kl(self, whole: torch.Tensor, variants: Sequence[torch.Tensor]) -> Row:
        """Mean KL over the tokens of a document for each variant, all given by `[tokens, hidden]`."""
        totals = [0.0] * len(variants)
        step = max(1, LOGIT_BYTES_MAX // (4 * int(self._model.config.vocab_size)))
        for first in range(0, len(whole), step):
            expected = self._log_probs(whole[first : first + step])
            weights = expected.exp()
            for number, variant in enumerate(variants):
                found = self._log_probs(variant[first : first + step])
                totals[number] += float((weights * (expected - found)).sum(-1).double().sum())
        return tuple(total / len(whole) for total in totals)

    def _log_probs(self, states: torch.Tensor) -> torch.Tensor:
        logits = self._model.lm_head(self._model.model.norm(states))
        return torch.log_softmax(logits.float(), dim=-1)
