"""Writes a text checkpoint as vLLM 0.26 wants it: the text model inside a multimodal wrapper.

vLLM 0.26 registers `Qwen3_5ForConditionalGeneration` and its like for a Mixture of Experts only, so
`config.json` gets a `text_config` and a vision tower that is never built, and tensors get the wrapper's
names. No value changes; the text model, its quantization and its MTP head stay what they are. Needs
safetensors and torch.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.scratch import ScratchFolder


@dataclass(frozen=True)
class ModelNames:
    """What a text checkpoint and its wrapper are called: `model_type` and the architecture of each."""

    text_type: str
    text_architecture: str
    wrapper_type: str
    wrapper_architecture: str


DENSE = ModelNames("qwen3_5_text", "Qwen3_5ForCausalLM", "qwen3_5", "Qwen3_5ForConditionalGeneration")
MIXTURE = ModelNames(
    "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", "qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"
)

BY_TEXT_TYPE = {names.text_type: names for names in (DENSE, MIXTURE)}
"""The names of each kind of model, by the `model_type` of its text checkpoints."""

TEXTS_WITHOUT_MTP = (0, 27)
"""The version whose `SpeculativeConfig` knows the MTP head of the wrapper's model type alone."""

TEXT_PREFIX = "model."
WRAPPED_PREFIX = "model.language_model."
"""Where the wrapper has the text model. `mtp.` and `lm_head.` stay at the top."""

STAYS_OUTSIDE = ("architectures", "model_type", "quantization_config", "transformers_version")
"""Keys of the text checkpoint's config.json that belong to the whole and not to `text_config`."""

VISION_SIZE = 64
"""Width of the vision tower in the configuration, which `language_model_only` never builds."""


def served_architectures(architectures: Collection[str], number: tuple[int, int] | None) -> frozenset[str]:
    """Those of a vLLM's `architectures` that it serves with all that a checkpoint has, by its version's
    number: 0.27 loads a text checkpoint, and drafts by the MTP head of a wrapped one alone."""
    texts = {names.text_architecture for names in BY_TEXT_TYPE.values()}
    return frozenset(architectures) - (texts if number == TEXTS_WITHOUT_MTP else set())


def served_folder(checkpoint: Path, architectures: Collection[str], kept: Path) -> Path:
    """The folder to serve: the checkpoint's, or its wrapped twin below `kept` for a vLLM that knows only the
    wrapper. `architectures` are those that vLLM knows.

    A twin is made once for a checkpoint's files as they are; two that are made at a time are the same.
    """
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    known = set(config.get("architectures") or ()) & set(architectures)
    names = BY_TEXT_TYPE.get(config.get("model_type"))
    if known or names is None or names.wrapper_architecture not in architectures:
        return checkpoint
    stats = [(path.name, path.stat()) for path in sorted(checkpoint.iterdir()) if path.is_file()]
    told = [str(checkpoint), *(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in stats)]
    folder = kept / hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
    if not folder.is_dir():
        with ScratchFolder(".wrapping", kept) as scratch:
            made = wrap_checkpoint(checkpoint, scratch / "made")
            try:
                made.rename(folder)
            except OSError:  # another launch was first
                if not folder.is_dir():
                    raise
    return folder


def wrapped_name(name: str) -> str:
    """The wrapper's name of a tensor of a text checkpoint; a name that is wrapped already stays."""
    if name.startswith(TEXT_PREFIX) and not name.startswith(WRAPPED_PREFIX):
        return WRAPPED_PREFIX + name.removeprefix(TEXT_PREFIX)
    return name


def wrapped_config(text: dict[str, Any]) -> dict[str, Any]:
    """The wrapper's config.json for a text checkpoint's."""
    inner = {name: value for name, value in text.items() if name not in STAYS_OUTSIDE}
    names = BY_TEXT_TYPE[text["model_type"]]
    config: dict[str, Any] = {
        "architectures": [names.wrapper_architecture],
        "model_type": names.wrapper_type,
        "dtype": text["dtype"],
        "tie_word_embeddings": text["tie_word_embeddings"],
        "text_config": inner | {"model_type": names.text_type},
        "vision_config": {
            "model_type": names.wrapper_type,
            "depth": 1,
            "hidden_size": VISION_SIZE,
            "intermediate_size": 2 * VISION_SIZE,
            "num_heads": 1,
            "out_hidden_size": text["hidden_size"],
            "deepstack_visual_indexes": [],
        },
    }
    if "quantization_config" in text:
        config["quantization_config"] = text["quantization_config"]
    return config


def wrap_checkpoint(source: Path, target: Path) -> Path:
    """Write the text checkpoint in `source` as a wrapped one into the new folder `target`; returns it.

    Raises:
        ValueError: the checkpoint is no Qwen3.5 text model.
        OSError: a file is missing or `target` exists.
    """
    text = json.loads((source / "config.json").read_text())
    if text.get("model_type") not in BY_TEXT_TYPE:
        told = f"{source} has the model type {text.get('model_type')}"
        raise ValueError(f"{told}, not {' or '.join(BY_TEXT_TYPE)}.")
    from safetensors import safe_open
    from safetensors.torch import save_file

    target.mkdir(parents=True)
    (target / "config.json").write_text(json.dumps(wrapped_config(text), indent=1))
    for path in sorted(source.glob("*.safetensors")):
        with safe_open(path, framework="pt") as tensors:
            named = {wrapped_name(name): tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118
        save_file(named, target / path.name, metadata={"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        if (source / name).exists():
            shutil.copyfile(source / name, target / name)
    return target
