"""The process in which the model under test writes text: `python -m` this, asked by `self_written.py`.

Request: `checkpoint`, `beginnings` (rows of beginnings of token ids), `tokens`, `ends`, `vocabulary`,
`temperature`, `seed`, `device`, `threads`. Answer: `documents` (token ids) and `written` (how many of each
were sampled).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from experiments.engines.garbage import unsearched
from experiments.engines.one_answer import give
from experiments.engines.one_device import seen_as
from experiments.engines.torch_gpu import check_gpu
from experiments.engines.torch_memory import told_of_memory
from experiments.torch_build import install_into


def answer(request: dict[str, Any]) -> dict[str, object]:
    """The text; raises `Infeasible` for a checkpoint that can't be loaded and a device that is not there."""
    with unsearched():
        import torch

        from experiments.corpora.calibration.writing import Sampling, write
        from experiments.engines.reference.checkpoint import load_model
        from experiments.engines.reference.inspection import inspect_checkpoint

    torch.set_num_threads(request["threads"])
    asked, device = request["device"], torch.device(seen_as(request["device"]))
    if device.type == "cuda":
        check_gpu(f"Writing calibration text on {asked} can't be", install_into(Path(sys.executable)))
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    sampling = Sampling(
        tokens=request["tokens"],
        ends=frozenset(request["ends"]),
        vocabulary=request["vocabulary"],
        temperature=request["temperature"],
        seed=request["seed"],
    )
    ways = (
        "take fewer quantization.sample_tokens or another quantization.corpus, which no model has to write; "
        f"or free memory on {asked}"
    )
    with told_of_memory(f"Writing calibration text on {asked} ran out of memory", ways):
        model = load_model(inspect_checkpoint(Path(request["checkpoint"])), dtype, device)
        documents, written = write(model, request["beginnings"], sampling)
    return {"documents": documents, "written": written}


if __name__ == "__main__":
    give(answer)
