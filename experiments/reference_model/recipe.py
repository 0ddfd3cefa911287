"""The whole recipe of the reference model, from the text on this machine to a checkpoint with its card.

`autoinfer reference train` runs it. On a GPU it takes minutes; on a CPU a few steps prove that it works.
"""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from experiments.compute_device import compute_device
from experiments.corpora.standard_library import LICENCE, fingerprint, training_documents
from experiments.reference_model.architecture import REFERENCE_SHAPE, Shape
from experiments.reference_model.card import TRAINING_FILE, write_card
from experiments.reference_model.checkpoint import fresh_network, write_checkpoint
from experiments.reference_model.token_stream import TrainingData, gather
from experiments.reference_model.tokenizer import train_tokenizer
from experiments.reference_model.training import (
    EARLY_MIX,
    LATE_MIX,
    LATE_SHARE,
    Progress,
    TrainingPlan,
    train_network,
)

DEFAULT_MINUTES = 7.6
"""What the packaged weights were trained for, on one H200."""


@dataclass(frozen=True)
class Scale:
    """How much is done at once: rows and length of a batch, rows for the MTP head, instruction items,
    compilation."""

    rows: int
    length: int
    mtp_rows: int
    items: int
    with_packages: bool
    compiled: bool


GPU_SCALE = Scale(rows=128, length=1152, mtp_rows=64, items=100_000, with_packages=True, compiled=True)
"""147,456 tokens a step: 32 GB of memory. 1,152 tokens hold a held-out document of 4,096 bytes, mostly."""

CPU_SCALE = Scale(rows=4, length=128, mtp_rows=2, items=700, with_packages=False, compiled=False)
"""Enough to see that every part of the recipe works."""


def train(
    output_dir: Path,
    *,
    seed: int,
    minutes: float | None = None,
    steps: int | None = None,
    device: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    shape: Shape = REFERENCE_SHAPE,
    with_card: bool = True,
) -> Path:
    """Train a reference model into `output_dir` and return that folder.

    Args:
        output_dir: receives config, weights (bf16, MTP head included), tokenizer, `training.json` and the
        card. seed: decides weights, data order and instruction items. minutes: length of the training itself,
        without reading data; `DEFAULT_MINUTES` if neither is given. steps: length in steps instead; the run
        is then the same however fast the machine is. device: `cuda` or `cpu`; a GPU is taken if there is one.
        progress: called every 50 steps. shape: sizes of the network. with_card: score the result and write
        its card; without it the card can be written elsewhere, later.

    Raises:
        ValueError: both `minutes` and `steps` are given.
        UsageError: there is no such device here.
    """
    if minutes is None and steps is None:
        minutes = DEFAULT_MINUTES
    chosen = compute_device(device)
    scale = GPU_SCALE if chosen.type == "cuda" else CPU_SCALE
    plan = TrainingPlan(
        rows=scale.rows,
        length=scale.length,
        mtp_rows=scale.mtp_rows,
        steps=steps,
        minutes=minutes,
        compiled=scale.compiled,
    )
    began = time.monotonic()
    tokenizer = train_tokenizer(document.text for document in training_documents())
    data = gather(tokenizer, seed=seed, items=scale.items, with_packages=scale.with_packages)
    reading_s = time.monotonic() - began
    network = fresh_network(shape, seed).to(chosen)
    last = train_network(network, data, plan, seed=seed, report=progress)
    write_checkpoint(network, shape, tokenizer, output_dir)
    facts = {
        "seed": seed,
        "shape": asdict(shape),
        "plan": asdict(plan),
        "instruction_items": scale.items,
        "mix": {"early": asdict(EARLY_MIX), "late": asdict(LATE_MIX), "late_from_share": LATE_SHARE},
        "data": data_facts(data),
        "steps_done": last.step,
        "tokens_seen": last.tokens,
        "last_loss_nats": last.loss,
        "last_mtp_loss_nats": last.mtp_loss,
        "reading_s": round(reading_s, 1),
        "training_s": round(last.elapsed_s, 1),
        "hardware": hardware_name(chosen),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    (output_dir / TRAINING_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    if with_card:
        write_card(output_dir)
    return output_dir


def data_facts(data: TrainingData) -> dict[str, Any]:
    """Return what a card says of the training text."""
    library = training_documents()
    packages = [
        {
            "name": text.package,
            "version": text.version,
            "licence": text.licence,
            "documents": len(text.documents),
            "bytes": text.text_bytes,
            "fingerprint": text.fingerprint,
        }
        for text in data.package_texts
    ]
    return {
        "standard_library": {
            "licence": LICENCE,
            "modules": len(library),
            "bytes": sum(len(document.text.encode()) for document in library),
            "fingerprint": fingerprint(library),
            "tokens": len(data.library.tokens),
        },
        "packages": packages,
        "package_tokens": 0 if data.packages is None else len(data.packages.tokens),
        "instruction_tokens": len(data.instructions.tokens),
    }


def hardware_name(device: torch.device) -> str:
    """Return the name of what trained: the GPU's, or the processor's architecture."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})"
