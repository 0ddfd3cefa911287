"""Takes whole layers out of a checkpoint by rewriting its files; no model class, no tensor library.

Tensors are copied byte by byte, in the order and with the metadata they had; those of removed layers are left
out, and those of later layers get the numbers that follow; packed tensors of quantized layers are like any
other. What belongs to no layer stays as it is: embeddings, the last norm, the head, the MTP head (`mtp.*`), a
vision tower. `config.json` gets explicit `layer_types`, the modules that its quantization names get the new
numbers, and `kept_layers` says which layer of the model before each one was. Equal inputs give equal bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.engines.port import Infeasible
from experiments.engines.reference.inspection import (
    CONFIG_FILE,
    INDEX_FILE,
    MTP_PREFIXES,
    QUANTIZATION_KEYS,
    CheckpointFiles,
    tensor_headers,
)
from experiments.stages.copied_files import copy_beside
from experiments.stages.pruning.quantization_names import NamesAfterRemoval, renumbered

KEPT_LAYERS = "kept_layers"
"""Key of the text configuration: for each layer its number in the model that was first pruned. What was made
for that model's layers, such as a drafter that reads some of them, finds them by it."""

_HEADER_ALIGNMENT_BYTES = 8
"""A safetensors header is padded with spaces to a multiple of this, as the format's own writer does."""

_CHUNK_BYTES = 16 * 2**20


def remove_layers(files: CheckpointFiles, removed: Sequence[int], out_dir: Path) -> int:
    """Write the checkpoint without these layers into `out_dir`; give the bytes of its weight files.

    `removed` are numbers of layers from 0. Files beside the weights (tokenizer, generation settings) are
    copied.

    Raises:
        Infeasible: kind `illegal` when a number is no layer's, or no layer would be left; `unsupported` when
            a quantization names layers in a form that can't be numbered anew. Nothing is written then.
    """
    check_removed(files, removed)
    config = config_without(files, removed)
    out_dir.mkdir(parents=True, exist_ok=True)
    kept = [index for index in range(len(files.layer_types)) if index not in removed]
    places = {old: new for new, old in enumerate(kept)}
    weight_map: dict[str, str] = {}
    total_bytes = 0
    for path in files.weight_files:
        names = _write_pruned(path, out_dir / path.name, places)
        weight_map |= dict.fromkeys(names, path.name)
        if names:
            total_bytes += (out_dir / path.name).stat().st_size
    _write_json(out_dir / CONFIG_FILE, config)
    if (files.folder / INDEX_FILE).is_file():
        index = {"metadata": {"total_size": total_bytes}, "weight_map": dict(sorted(weight_map.items()))}
        _write_json(out_dir / INDEX_FILE, index)
    copy_beside(files.folder, out_dir)
    return total_bytes


def _write_pruned(source: Path, target: Path, places: dict[int, int]) -> list[str]:
    """Write one weight file without the removed layers; give the names in it. No file when none is left."""
    tensors = tensor_headers(source)
    ordered = sorted(tensors.items(), key=lambda entry: entry[1]["data_offsets"][0])
    header: dict[str, Any] = {}
    ranges: list[tuple[int, int]] = []
    position = 0
    for name, entry in ordered:
        new_name = renumbered(name, places)
        if new_name is None:
            continue
        start, end = entry["data_offsets"]
        header[new_name] = entry | {"data_offsets": [position, position + end - start]}
        ranges.append((start, end))
        position += end - start
    if not header:
        return []
    with source.open("rb") as read, target.open("wb") as write:
        (length,) = struct.unpack("<Q", read.read(8))
        metadata = json.loads(read.read(length)).get("__metadata__")
        text = json.dumps(
            ({"__metadata__": metadata} if metadata else {}) | header, separators=(",", ":")
        ).encode()
        text += b" " * (-len(text) % _HEADER_ALIGNMENT_BYTES)
        write.write(struct.pack("<Q", len(text)) + text)
        for start, end in ranges:
            read.seek(8 + length + start)
            for offset in range(start, end, _CHUNK_BYTES):
                write.write(read.read(min(_CHUNK_BYTES, end - offset)))
    return list(header)


def check_removed(files: CheckpointFiles, removed: Sequence[int]) -> None:
    """Raise `Infeasible` unless `removed` names layers of the trunk, each once, and leaves one.

    What a criterion chooses always does; this guards callers that choose themselves.
    """
    layers = len(files.layer_types)
    for number in removed:
        if not 0 <= number < layers:
            head = " What follows them is the MTP head, which stays whole." if _has_mtp(files) else ""
            raise Infeasible(
                "illegal",
                f"Layer {number} can't be taken out: this model's layers are 0 to {layers - 1}.{head}",
            )
    if len(set(removed)) < len(removed):
        raise Infeasible("illegal", f"A layer is named twice among those to take out: {list(removed)}.")
    if len(removed) == layers:
        raise Infeasible("illegal", f"All {layers} layers can't be taken out; at least one must stay.")


def _has_mtp(files: CheckpointFiles) -> bool:
    return any(name.startswith(MTP_PREFIXES) for name in files.tensors)


def config_without(files: CheckpointFiles, removed: Sequence[int]) -> dict[str, Any]:
    """What `config.json` says without these layers; raises `Infeasible` as `remove_layers`."""
    kept = [index for index in range(len(files.layer_types)) if index not in removed]
    config: dict[str, Any] = json.loads((files.folder / CONFIG_FILE).read_bytes())
    text = config.get("text_config", config)
    before = text.get(KEPT_LAYERS) or range(len(files.layer_types))
    text["num_hidden_layers"] = len(kept)
    text["layer_types"] = [files.layer_types[index] for index in kept]
    text[KEPT_LAYERS] = [before[index] for index in kept]
    text.pop("full_attention_interval", None)  # no longer true, and layer_types says it all
    names = NamesAfterRemoval(files.tensors.keys(), {old: new for new, old in enumerate(kept)})
    for part in (config, text) if text is not config else (config,):
        for key in QUANTIZATION_KEYS:
            if isinstance(part.get(key), dict):
                part[key] = names.config(part[key])
    return config


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
