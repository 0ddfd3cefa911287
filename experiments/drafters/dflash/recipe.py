"""The whole recipe of a drafter, from a checkpoint and the text on this machine to a folder with its card.

`autoinfer drafter train` runs it. On a GPU it takes minutes; on a CPU a few steps prove that it works.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.compute_device import compute_device
from experiments.drafters.dflash.card import TRAINING_FILE, measure, write_card
from experiments.drafters.dflash.files import save_drafter
from experiments.drafters.dflash.network import DFlashNetwork, initialise
from experiments.drafters.dflash.self_text import SelfTextPlan, write_self_text
from experiments.drafters.dflash.shape import DFlashShape
from experiments.drafters.dflash.target import load_target
from experiments.drafters.dflash.target_layers import spread_layers
from experiments.drafters.dflash.training import Progress, TrainingPlan, train_network
from experiments.reference_model.load import checkpoint_fingerprint
from experiments.reference_model.recipe import data_facts, hardware_name
from experiments.reference_model.scores import PROMPTS_PER_CLASS
from experiments.reference_model.token_stream import TokenPool, TrainingData, gather
from experiments.reference_model.tokenizer import end_of_text_id

DRAFT_LAYERS = 3
"""Layers of a drafter. Beside the reference model they are 0.97 M weights: 1.94 MB in bfloat16."""

LAYERS_READ = 5
"""Layers of the target whose streams are read, as arXiv 2602.06036 has it."""

BLOCK_TOKENS = 8
"""The last known token and seven drafted: as many as the reference engine may be asked for."""

SHARES = {"library": 0.15, "packages": 0.25, "instructions": 0.10, "self": 0.50}
"""Shares of a batch: the standard library, installed packages, instruction items, the target's own text."""

PROMPT_SHARES = {"library": 0.3, "packages": 0.4, "instructions": 0.3}
"""Shares of the beginnings from which the target writes its own text."""


@dataclass(frozen=True)
class Scale:
    """How much is done: the training plan, the target's own text, instruction items, packages read or not.

    `card_rows` is how many prompts of each content class are measured for the card.
    """

    plan: TrainingPlan
    self_text: SelfTextPlan
    items: int
    with_packages: bool
    card_rows: int


GPU_SCALE = Scale(
    plan=TrainingPlan(rows=64, length=512, anchors=64, steps=6000),
    self_text=SelfTextPlan(rows=32_768, batch=4096, prompt_lengths=(64, 128, 192), tokens=128),
    items=40_000,
    with_packages=True,
    card_rows=PROMPTS_PER_CLASS,
)
"""What the packaged drafter was trained with: 4,096 blocks a step."""

CPU_SCALE = Scale(
    plan=TrainingPlan(rows=2, length=96, anchors=8, steps=20),
    self_text=SelfTextPlan(rows=8, batch=8, prompt_lengths=(32,), tokens=32),
    items=210,
    with_packages=False,
    card_rows=1,
)
"""Enough to see that every part of the recipe works."""


def train(
    checkpoint: Path,
    output_dir: Path,
    *,
    seed: int,
    steps: int | None = None,
    device: str | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    told: Callable[[str], None] = lambda _: None,
    scale: Scale | None = None,
    with_card: bool = True,
) -> Path:
    """Train a drafter for a checkpoint into `output_dir` and return that folder.

    Equal seed, text, versions and device give equal weights on a CPU; on a GPU they differ by rounding.

    Args:
        checkpoint: the target, a Qwen3.5-type checkpoint with its tokenizer.
        output_dir: receives configuration, weights, `training.json` and the card.
        seed: decides weights, the order of texts, anchors and instruction items.
        steps: length of the training; the scale's own if not given.
        device: `cuda` or `cpu`; a GPU is taken if there is one.
        progress: called every 50 steps. told: called with a sentence before each long part.
        scale: how much of everything; by the device if not given.
        with_card: measure acceptance and write the card; it can be written elsewhere, later.

    Raises:
        Infeasible: kind `checkpoint`, when the target can't be loaded.
        UsageError: there is no such device here.
    """
    chosen = compute_device(device)
    scale = scale or (GPU_SCALE if chosen.type == "cuda" else CPU_SCALE)
    plan = scale.plan if steps is None else replace(scale.plan, steps=steps)
    told(f"Loading the target from {checkpoint}.")
    target = load_target(checkpoint, chosen)
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    network = DFlashNetwork(shape_beside(target.model, tokenizer))
    initialise(network, seed)
    network.to(chosen)
    generator = torch.Generator(chosen).manual_seed(seed)

    told("Reading the training text.")
    began = time.monotonic()
    data = gather(tokenizer, seed=seed, items=scale.items, with_packages=scale.with_packages)
    reading_s = time.monotonic() - began
    pools = _pools(data.to(chosen))

    told(f"Letting the target write {scale.self_text.rows:,} texts of its own.")
    began = time.monotonic()
    prompts = [(pool, PROMPT_SHARES[name]) for name, pool in pools.items()]
    pools["self"] = write_self_text(target, prompts, scale.self_text, generator)
    writing_s = time.monotonic() - began

    told(f"Training {sum(each.numel() for each in network.parameters()):,} weights for {plan.steps:,} steps.")
    sources = [(pool, SHARES[name]) for name, pool in pools.items()]
    last = train_network(network, target.model, sources, plan, generator, progress)
    save_drafter(network, output_dir)
    facts = {
        "seed": seed,
        "target_fingerprint": checkpoint_fingerprint(checkpoint),
        "plan": asdict(plan),
        "shares": {name: SHARES[name] for name in pools},
        "self_text": asdict(scale.self_text) | {"written_tokens": len(pools["self"].tokens)},
        "instruction_items": scale.items,
        "data": data_facts(data),
        "last_loss_nats": last.loss,
        "last_first_right": last.first_right,
        "reading_s": round(reading_s, 1),
        "writing_s": round(writing_s, 1),
        "training_s": round(last.elapsed_s, 1),
        "hardware": hardware_name(chosen),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    (output_dir / TRAINING_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    if with_card:
        told("Measuring acceptance.")
        write_card(output_dir, measure(output_dir, checkpoint, chosen, scale.card_rows))
    return output_dir


def shape_beside(target: Qwen3_5ForCausalLM, tokenizer: Tokenizer) -> DFlashShape:
    """Return the shape of a drafter beside a target: the target's width, heads and MLP, fewer layers.

    The mask is the first entry of the vocabulary that the tokenizer doesn't use, or, where it uses all, the
    end of text, which is never drafted from.
    """
    config = target.config
    rope: dict[str, Any] = dict(config.rope_parameters or {})
    used = tokenizer.get_vocab_size()
    return DFlashShape(
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        layers=DRAFT_LAYERS,
        query_heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_size=config.head_dim,
        block_tokens=BLOCK_TOKENS,
        mask_token_id=used if used < config.vocab_size else end_of_text_id(tokenizer),
        target_layer_ids=spread_layers(config.num_hidden_layers, LAYERS_READ),
        target_layers=config.num_hidden_layers,
        rope_theta=float(rope["rope_theta"]),
        max_positions=config.max_position_embeddings,
    )


def _pools(data: TrainingData) -> dict[str, TokenPool]:
    """Return the sources of text by name."""
    pools = {"library": data.library, "instructions": data.instructions}
    return pools if data.packages is None else pools | {"packages": data.packages}
