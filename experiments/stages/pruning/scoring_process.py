"""The process that scores layers: one request by stdin, one answer on stdout, the log on stderr.

Started as `python -m experiments.stages.pruning.scoring_process` by `scoring.py`. Request: `checkpoints`
(paths by name), `criterion`, `documents` (lists of token ids), `layers_removed`, `restrict`, `threads`.
Answer: by name a ranking as `Ranking.to_json` writes it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from experiments.engines.one_answer import give
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.criteria import criterion_named


def answer(request: dict[str, Any]) -> dict[str, Json]:
    """The rankings by name; raises `Infeasible` for a checkpoint that can't be loaded or can't read the
    documents."""
    return {name: _ranking(Path(path), request) for name, path in request["checkpoints"].items()}


def _ranking(checkpoint: Path, request: dict[str, Any]) -> Json:
    import torch

    from experiments.engines.reference.checkpoint import load_model
    from experiments.engines.reference.inspection import inspect_checkpoint

    workers = min(request["threads"], len(request["documents"]))
    torch.set_num_threads(request["threads"] // workers)
    model = load_model(inspect_checkpoint(checkpoint), torch.float32, torch.device("cpu"))
    largest = max(max(document) for document in request["documents"])
    if largest >= model.config.vocab_size:
        raise Infeasible(
            "checkpoint",
            f"The calibration text has token {largest}, which is outside the vocabulary of "
            f"{model.config.vocab_size} of the checkpoint at {checkpoint}: its tokenizer is another's.",
        )
    rank = criterion_named(request["criterion"]).load()
    choice = Choice(request["layers_removed"], request["restrict"])
    ranking = rank(model, request["documents"], choice, workers)
    if not all(map(math.isfinite, ranking.scores.means)):
        raise Infeasible(
            "checkpoint",
            f"Layers of the checkpoint at {checkpoint} can't be scored: its logits are not finite.",
        )
    return ranking.to_json()


def main() -> None:
    """Answer one request."""
    give(answer)


if __name__ == "__main__":
    main()
