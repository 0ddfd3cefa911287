"""Looks at a checkpoint without loading it: its configuration, its weight files, their headers. Imports no
torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.model_types import ONE_MODEL_HINT, QWEN3_5_TYPES, experts_fault
from experiments.engines.port import Infeasible

LAYER_KINDS = ("linear_attention", "full_attention")

OF_ONE_MODEL = "put config.json and the weights of one model there, or fetch both again"
"""What to do where a checkpoint's config.json and its weights do not fit, as a clause."""
"""Entries of `layer_types`: GatedDeltaNet layers and gated-attention layers."""

CONFIG_FILE = "config.json"
INDEX_FILE = "model.safetensors.index.json"
SINGLE_WEIGHT_FILE = "model.safetensors"

MTP_PREFIXES = ("mtp.", "model.mtp.")
"""How checkpoints begin the names of the MTP head's tensors."""

QUANTIZATION_KEYS = ("quantization_config", "compression_config")
"""Keys of config.json that tell of quantized weights; the second is an older name."""

DEFAULT_FULL_ATTENTION_INTERVAL = 4
"""What transformers takes when `layer_types` is not given: every fourth layer is attention."""

_HEADER_LENGTH_BYTES = 8
"""A safetensors file begins with the length of its JSON header, 8 bytes little-endian (format
description)."""

_LFS_POINTER = b"version https://git-lfs"
"""How the text begins that a clone without Git LFS has in place of a file (specification of its pointers)."""

_HEADER_MAX_BYTES = 100_000_000
"""Longer headers are refused by the format's own reader."""


@dataclass(frozen=True)
class CheckpointFiles:
    """A checkpoint's text configuration, its layers' kinds, and its weight files with the tensors in each.

    `quantization` is what config.json tells of quantized weights, None when they are not quantized.
    """

    folder: Path
    text_config: Mapping[str, Any]
    layer_types: tuple[str, ...]
    tensors: Mapping[str, Path]
    quantization: Mapping[str, Any] | None = None

    @property
    def has_experts(self) -> bool:
        """Whether it is of a Mixture of Experts."""
        return bool(self.text_config.get("num_experts"))

    @property
    def weight_files(self) -> tuple[Path, ...]:
        """The files with weights, sorted."""
        return tuple(sorted(set(self.tensors.values())))

    def headers(self) -> dict[str, dict[str, Any]]:
        """The header's entry of each tensor, as `tensor_headers` gives it."""
        by_file = {path: tensor_headers(path) for path in self.weight_files}
        return {name: by_file[path][name] for name, path in self.tensors.items()}


def inspect_checkpoint(folder: Path) -> CheckpointFiles:
    """Read the configuration and the headers of the weight files.

    Raises:
        Infeasible: kind `checkpoint`, with what is missing or broken in a sentence.
    """
    if not folder.is_dir():
        raise Infeasible("checkpoint", f"There is no checkpoint at {folder}: the folder does not exist.")
    config = json_object(folder / CONFIG_FILE)
    model_type = config.get("model_type")
    if model_type not in QWEN3_5_TYPES:
        raise Infeasible(
            "checkpoint",
            f"The checkpoint at {folder} is of type {model_type!r}; "
            f"autoinfer serves {', '.join(QWEN3_5_TYPES)}.",
        )
    if (fault := experts_fault(config)) is not None:
        raise Infeasible("checkpoint", f"{folder / CONFIG_FILE}: {fault}. {ONE_MODEL_HINT}")
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise Infeasible("checkpoint", f"text_config in {folder / CONFIG_FILE} is not an object.")
    if text is not config and "tie_word_embeddings" in config:
        text = {"tie_word_embeddings": config["tie_word_embeddings"]} | text
    return CheckpointFiles(
        folder, text, _layer_types(text, folder), _tensors(folder), _quantization(config, text, folder)
    )


def json_object(path: Path, of: str = "checkpoint") -> dict[str, Any]:
    """A JSON file of a checkpoint, or of what else `of` calls it.

    Raises:
        Infeasible: kind `checkpoint`, when it is missing, can't be read or holds no object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Infeasible("checkpoint", f"The {of} at {path.parent} has no {path.name}.") from None
    except (OSError, ValueError) as cause:
        raise Infeasible("checkpoint", f"{path} can't be read: {cause}.") from None
    if not isinstance(data, dict):
        raise Infeasible("checkpoint", f"{path} does not hold a JSON object.")
    return data


def _quantization(
    config: Mapping[str, Any], text: Mapping[str, Any], folder: Path
) -> Mapping[str, Any] | None:
    for key in QUANTIZATION_KEYS:
        told = config.get(key) or text.get(key)
        if told is not None and not isinstance(told, dict):
            raise Infeasible("checkpoint", f"{key} in {folder / CONFIG_FILE} is not an object.")
        if told:
            return told
    return None


def told_quantization(folder: Path) -> dict[str, Any] | None:
    """What config.json tells of quantized weights."""
    config = json.loads((folder / CONFIG_FILE).read_bytes())
    text = config.get("text_config", config)
    told = (config.get(key) or text.get(key) for key in QUANTIZATION_KEYS)
    return next((each for each in told if isinstance(each, dict)), None)


def _layer_types(text: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    layers, kinds = text.get("num_hidden_layers"), text.get("layer_types")
    if not isinstance(layers, int) or layers < 1:
        raise Infeasible(
            "checkpoint",
            f"{folder / CONFIG_FILE} does not say how many layers there are: put num_hidden_layers there, or "
            "fetch the file again.",
        )
    if kinds is None:
        interval = text.get("full_attention_interval", DEFAULT_FULL_ATTENTION_INTERVAL)
        kinds = [LAYER_KINDS[(index + 1) % interval == 0] for index in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or not set(kinds) <= set(LAYER_KINDS):
        raise Infeasible(
            "checkpoint",
            f"layer_types in {folder / CONFIG_FILE} does not name the kind of each of {layers} layers: make "
            f"it a list of {layers}, each {' or '.join(LAYER_KINDS)}, or fetch the file again.",
        )
    return tuple(kinds)


def _tensors(folder: Path) -> dict[str, Path]:
    if (folder / INDEX_FILE).is_file():
        weight_map = json_object(folder / INDEX_FILE).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise Infeasible("checkpoint", f"{folder / INDEX_FILE} has no weight_map.")
        files = sorted({folder / str(name) for name in weight_map.values()})
    else:
        files = [folder / SINGLE_WEIGHT_FILE]
    return {name: file for file in files for name in tensor_headers(file)}


def tensor_headers(path: Path) -> dict[str, dict[str, Any]]:
    """The header of a safetensors file: by tensor name its `dtype`, `shape` and `data_offsets` in bytes.

    Raises:
        Infeasible: kind `checkpoint`, when the file is missing, cut short or no safetensors file, or a
            tensor's entry lacks one of these.
    """
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
                raise Infeasible(
                    "checkpoint",
                    f"{path} is a pointer of Git LFS, not the file itself; fetch that: git lfs pull in its "
                    "folder.",
                )
            file.seek(0)
            (length,) = struct.unpack("<Q", file.read(_HEADER_LENGTH_BYTES))
            if length > min(size_bytes, _HEADER_MAX_BYTES):
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        for name, entry in tensors.items():
            _check_entry(entry, name, path)
        data_bytes = max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
    except FileNotFoundError:
        if path.is_symlink():
            told = f"{path} is a link to {path.readlink()}, where there is no file; copy that too."
            raise Infeasible("checkpoint", told) from None
        raise Infeasible("checkpoint", f"The checkpoint at {path.parent} has no {path.name}.") from None
    except (OSError, ValueError, struct.error, AttributeError, KeyError, TypeError) as cause:
        raise Infeasible("checkpoint", f"{path} is no readable safetensors file: {cause}.") from None
    if size_bytes != _HEADER_LENGTH_BYTES + length + data_bytes:
        raise Infeasible(
            "checkpoint",
            f"{path} is cut short or damaged: it has {size_bytes} bytes where its header tells of "
            f"{_HEADER_LENGTH_BYTES + length + data_bytes}.",
        )
    return tensors


def _check_entry(entry: object, name: str, path: Path) -> None:
    told = entry if isinstance(entry, dict) else {}
    lacking = next((key for key, is_one in _ENTRY.items() if not is_one(told.get(key))), None)
    if lacking is not None:
        raise Infeasible(
            "checkpoint",
            f"{name} in {path} has no {lacking} of a tensor in the file's header, which was damaged or "
            "written so: fetch it again, or save it anew from whole weights.",
        )


def _is_shape(told: object) -> bool:
    return isinstance(told, list) and all(isinstance(each, int) and each >= 0 for each in told)


def _are_offsets(told: object) -> bool:
    return isinstance(told, list) and _is_shape(told) and len(told) == 2 and told[0] <= told[1]


_ENTRY: Mapping[str, Callable[[object], bool]] = {
    "dtype": lambda told: isinstance(told, str),
    "shape": _is_shape,
    "data_offsets": _are_offsets,
}
"""What the header's entry of a tensor tells (format description), and what is such a thing."""
