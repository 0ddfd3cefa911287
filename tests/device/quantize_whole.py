"""Quantize a whole checkpoint by AWQ, by the stage itself, and tell its time and memory.

    python -m tests.device.quantize_whole FOLDER OUT --device cuda:0 [--samples 128 --tokens 512]

The calibration text is random token ids, for time and memory do not ask what it says. `--leave-mb` fills the
GPU first, so that only so much of it is free, as on a smaller card. Prints the stage's report, and writes it
with `--json`. Needs what quantizes (`AUTOINFER_QUANTIZE_PYTHON`); the log lies beside OUT.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json
from experiments.stages.quantize.recipe import QuantizationRecipe
from experiments.stages.quantize.stage import CalibrationText, quantize

TOKEN_IDS = 4000
"""Below the vocabulary of every model that is here."""


def main() -> None:
    """Quantize, and tell."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--group-size", type=int, default=128)
    arguments.add_argument("--samples", type=int, default=32)
    arguments.add_argument("--tokens", type=int, default=256, help="of each sample")
    arguments.add_argument("--leave-mb", type=int, help="megabytes of the GPU that stay free")
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    drawn = random.Random(0)
    documents = [[drawn.randrange(TOKEN_IDS) for _ in range(given.tokens)] for _ in range(given.samples)]
    if given.leave_mb and not given.device.startswith("cuda"):
        sys.exit("--leave-mb fills a GPU: name it by --device cuda:0.")
    filling = fill(given.device, given.leave_mb * 10**6) if given.leave_mb else None
    began_s = time.monotonic()
    try:
        report = quantized(given, documents)
    except Infeasible as refusal:
        sys.exit(refusal.cause)
    told = {
        "asked": {name: str(value) for name, value in vars(given).items()},
        "seconds": time.monotonic() - began_s,
        "filled_bytes": filling.numel() if filling is not None else 0,
        "report": report,
    }
    print(json.dumps(told, indent=1))
    if given.json:
        given.json.write_text(json.dumps(told, indent=1))


def quantized(given: argparse.Namespace, documents: Sequence[Sequence[int]]) -> Mapping[str, Json]:
    """The stage's report; raises `Infeasible` as it does."""
    return quantize(
        given.folder,
        given.out,
        QuantizationRecipe("awq", 4, given.group_size, True, 4, False, "none"),
        CalibrationText(documents, "random", f"{given.samples} samples of {given.tokens} random tokens"),
        device=given.device,
        log_path=given.out.with_suffix(".log"),
        tell=lambda done, planned, text: print(f"{done} of {planned}: {text}", flush=True),
    )


def fill(device: str, leave_bytes: int) -> torch.Tensor:
    """A tensor that takes the GPU's free memory but for `leave_bytes`."""
    torch.zeros(1, device=device)  # this process's own share, before what is free is asked for
    free, _ = torch.cuda.mem_get_info(device)
    return torch.empty(free - leave_bytes, dtype=torch.uint8, device=device)


if __name__ == "__main__":
    main()
