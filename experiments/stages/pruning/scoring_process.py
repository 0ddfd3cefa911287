"""The process that scores layers: one request by stdin, one answer on stdout, the log on stderr.

Started as `python -m experiments.stages.pruning.scoring_process` by `scoring.py`. Request: `checkpoints`
(paths by name), `rows` (by name a folder in which scores of documents outlive the process; none where they
need not), `criterion`, `documents` (lists of token ids), `layers_removed`, `restrict`, `threads`, `device`,
`number_format`. Answer: by name a ranking as `Ranking.to_json` writes it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.memory import available_memory_bytes
from experiments.engines.garbage import unsearched
from experiments.engines.one_answer import give
from experiments.engines.one_device import seen_as
from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
from experiments.engines.torch_gpu import check_gpu
from experiments.engines.torch_memory import told_of_memory
from experiments.measurement.evidence import Json
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.criteria import criterion_named
from experiments.stages.pruning.kept_rows import NOTHING_KEPT, KeptRows
from experiments.stages.pruning.number_format import profile_of
from experiments.stages.pruning.room import Room, fits_whole
from experiments.torch_build import install_into

if TYPE_CHECKING:
    import torch


def answer(request: dict[str, Any]) -> dict[str, Json]:
    """The rankings by name, all in the number format that was asked for.

    Raises:
        Infeasible: for a checkpoint that can't be loaded, can't read the documents or does not fit, and for a
            device that is not there.
    """
    with unsearched():
        import torch

    files = {name: inspect_checkpoint(Path(path)) for name, path in request["checkpoints"].items()}
    device = torch.device(seen_as(request["device"]))
    if device.type == "cuda":
        check_gpu(f"Ranking layers on {request['device']} can't be", install_into(Path(sys.executable)))
    # on a GPU one document after the other keeps it busy
    workers = 1 if device.type == "cuda" else min(request["threads"], len(request["documents"]))
    torch.set_num_threads(request["threads"] // workers)
    tokens = [len(document) for document in request["documents"]]
    rooms = [Room(profile_of(each), tokens, workers) for each in files.values()]
    largest = max(rooms, key=lambda room: room.profile.text_parameters)
    dtype = request["number_format"]
    whole = fits_whole(largest, dtype, available_bytes(device), request["device"])
    if not whole:  # a layer is called by one document at a time
        workers = 1
        torch.set_num_threads(request["threads"])
    ways = f"free memory on {request['device']}, or take a target with more memory or a smaller model"
    with told_of_memory(f"Ranking layers on {request['device']} ran out of memory", ways):
        return {
            name: _ranking(each, request, device, workers, whole, _rows(request, name, device))
            for name, each in files.items()
        }


def available_bytes(device: torch.device) -> int:
    """Bytes of memory that are free on a device now."""
    import torch

    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return available_memory_bytes()


def _rows(request: dict[str, Any], name: str, device: torch.device) -> KeptRows:
    """Where scores of documents are kept; a sum by other threads or on another GPU may have other bits."""
    import torch

    folder = request.get("rows", {}).get(name)
    if folder is None:
        return NOTHING_KEPT
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return KeptRows(Path(folder), {"threads": torch.get_num_threads(), "gpu": gpu})


def _ranking(
    files: CheckpointFiles,
    request: dict[str, Any],
    device: torch.device,
    workers: int,
    whole: bool,
    rows: KeptRows,
) -> Json:
    with unsearched():
        from experiments.engines.reference.checkpoint import DTYPES, load_model
        from experiments.stages.pruning.streamed_model import streamed_model

    load, dtype = load_model if whole else streamed_model, request["number_format"]
    model = load(files, DTYPES[dtype], device)
    largest = max(max(document) for document in request["documents"])
    if largest >= model.config.vocab_size:
        raise Infeasible(
            "checkpoint",
            f"The calibration text has token {largest}, which is outside the vocabulary of "
            f"{model.config.vocab_size} of the checkpoint at {files.folder}: its tokenizer is another's.",
        )
    rank = criterion_named(request["criterion"]).load()
    choice = Choice(request["layers_removed"], request["restrict"])
    ranking = rank(model, request["documents"], choice, workers, rows)
    if not all(map(math.isfinite, ranking.scores.means)):
        raise Infeasible(
            "checkpoint",
            f"Layers of the checkpoint at {files.folder} can't be scored: its logits are not finite.",
        )
    return replace(ranking, computed_in=f"{dtype} on {device.type}").to_json()


def main() -> None:
    """Answer one request."""
    give(answer)


if __name__ == "__main__":
    main()
