"""Writes what the reference engine says to held-out prompts, for a comparison with another engine.

For every checkpoint: the greedy text in float32 and in bfloat16 arithmetic, and in float32 at every position
the token that came second and how far it fell short, in nats. For drafting: tokens a step. Runs on a CPU.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch

from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.port import GenerationRequest
from experiments.engines.reference.checkpoint import load_model
from experiments.engines.reference.decode import Decoder
from experiments.engines.reference.drafting.factory import decoder_for
from experiments.engines.reference.drafting.order import DraftingOrder
from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.measurement.content_prompts import content_prompts
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import load_tokenizer
from experiments.reference_model.load import reference_model_path

NEW_TOKENS = 64
PROMPT_TOKENS = 128
PROMPTS_PER_CLASS = 4
CPU = torch.device("cpu")
ORDERS = {
    "mtp-k1": DraftingOrder("mtp", 1),
    "mtp-k2": DraftingOrder("mtp", 2),
    "dflash-k7": DraftingOrder("dflash", 7, str(packaged_drafter_path())),
}
"""Drafting that the reference engine is asked for, on the packaged model, in float32."""


def write_reference(path: Path, checkpoints: dict[str, Path]) -> None:
    """Write prompts and the reference engine's texts for every checkpoint as JSON."""
    torch.set_num_threads(1)
    requests = _requests(checkpoints["bf16"])
    data: dict[str, Any] = {
        "prompts": {request.item: list(request.prompt_ids) for request in requests},
        "new_tokens": NEW_TOKENS,
        "torch": torch.__version__,
        "recipes": {name: _recipe(folder) for name, folder in checkpoints.items()},
        "texts": {name: _texts(folder, requests) for name, folder in checkpoints.items()},
        "step_tokens": {name: _drafted(order, requests) for name, order in ORDERS.items()},
    }
    path.write_text(json.dumps(data))


def _requests(checkpoint: Path) -> list[GenerationRequest]:
    workload = Workload(
        prompt_tokens=PROMPT_TOKENS, drafting_prompts=PROMPTS_PER_CLASS, drafting_new_tokens=NEW_TOKENS
    )
    return content_prompts(load_tokenizer(checkpoint), workload)


def _recipe(folder: Path) -> str:
    """How a checkpoint was made, in words: from the quantize stage's report and from config.json."""
    config = json.loads((folder / "config.json").read_text())
    return "; ".join([*_pruning(config), _quantization(folder, config)])


def _pruning(config: dict[str, Any]) -> list[str]:
    if "kept_layers" not in config:
        return []
    return ["output of the prune stage, layers kept: " + ", ".join(map(str, config["kept_layers"]))]


def _quantization(folder: Path, config: dict[str, Any]) -> str:
    if "quantization_config" not in config:
        return "not quantized"
    report = folder / "quantize-report.json"
    if report.exists():
        recipe = json.loads(report.read_text())["recipe"]
        return "output of the quantize stage, " + ", ".join(
            f"{name} {value}" for name, value in recipe.items()
        )
    groups = config["quantization_config"]["config_groups"].values()
    kinds = (f"W{g['weights']['num_bits']} g{g['weights']['group_size']}" for g in groups)
    symmetry = ("symmetric" if g["weights"]["symmetric"] else "asymmetric" for g in groups)
    told = ", ".join(" ".join(pair) for pair in zip(kinds, symmetry, strict=True))
    return f"output of the quantize stage, {told}; its report was not kept, so the method is not known here"


def _texts(folder: Path, requests: list[GenerationRequest]) -> dict[str, Any]:
    files = inspect_checkpoint(folder)
    texts: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16):
        with tempfile.TemporaryDirectory() as cache:
            decoder = Decoder(load_model(files, dtype, CPU), "eager", Path(cache))
            name = str(dtype).removeprefix("torch.")
            texts[name] = {request.item: _text(decoder, request) for request in requests}
    return texts


@torch.inference_mode()
def _text(decoder: Decoder, request: GenerationRequest) -> dict[str, list[Any]]:
    """Tokens, and for each the second best and how far it falls short, nats."""
    decoder.prepare(len(request.prompt_ids) + request.new_tokens)
    prefilled = decoder.begin(request.prompt_ids)
    logits = prefilled.logits[-1]
    tokens: list[int] = []
    seconds: list[int] = []
    shortfalls: list[float] = []
    while True:
        values, order = logits.float().topk(2)
        tokens.append(int(order[0]))
        seconds.append(int(order[1]))
        shortfalls.append(round(float(values[0] - values[1]), 5))
        if len(tokens) == request.new_tokens:
            return {"tokens": tokens, "second": seconds, "shortfall": shortfalls}
        logits = prefilled.sequence.read(tokens[-1:]).logits[-1]
        prefilled.sequence.keep(1)


def _drafted(order: DraftingOrder, requests: list[GenerationRequest]) -> dict[str, list[int]]:
    files = inspect_checkpoint(reference_model_path())
    with tempfile.TemporaryDirectory() as cache:
        model = load_model(files, torch.float32, CPU)
        _, speculation = decoder_for(model, files, "eager", Path(cache), order)
        if speculation is None:
            raise ValueError(f"The order {order} drafts nothing.")
        return {request.item: list(speculation.generate(request).step_tokens) for request in requests}
