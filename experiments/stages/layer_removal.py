"""Takes whole layers out of a checkpoint by rewriting its files; no model class, no tensor library.

Tensors are copied byte by byte, in the order and with the metadata they had; those of removed layers are left
out, and those of later layers get the numbers that follow. What belongs to no layer stays as it is:
embeddings, the last norm, the head, the MTP head (`mtp.*`), a vision tower. `config.json` gets explicit
`layer_types`. Equal inputs give equal bytes.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.engines.reference.inspection import (
    CONFIG_FILE,
    INDEX_FILE,
    CheckpointFiles,
    tensor_headers,
)

_LAYER_TENSOR = re.compile(r"^(model\.(?:language_model\.)?layers\.)(\d+)(\..+)$")

_HEADER_ALIGNMENT_BYTES = 8
"""A safetensors header is padded with spaces to a multiple of this, as the format's own writer does."""

_CHUNK_BYTES = 16 * 2**20

NOT_COPIED_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".md")
"""Other forms of the weights, and cards, which would tell of the checkpoint before."""


def remove_layers(files: CheckpointFiles, removed: Sequence[int], out_dir: Path) -> int:
    """Write the checkpoint without these layers into `out_dir`; give the bytes of its weight files.

    `removed` are numbers of layers from 0. Files beside the weights (tokenizer, generation settings) are
    copied.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    gone = set(removed)
    kept = [index for index in range(len(files.layer_types)) if index not in gone]
    places = {old: new for new, old in enumerate(kept)}
    weight_map: dict[str, str] = {}
    total_bytes = 0
    for path in files.weight_files:
        names = _write_pruned(path, out_dir / path.name, places)
        weight_map |= dict.fromkeys(names, path.name)
        if names:
            total_bytes += (out_dir / path.name).stat().st_size
    _write_config(files, kept, out_dir)
    if (files.folder / INDEX_FILE).is_file():
        index = {"metadata": {"total_size": total_bytes}, "weight_map": dict(sorted(weight_map.items()))}
        _write_json(out_dir / INDEX_FILE, index)
    for path in sorted(files.folder.iterdir()):
        copied = path.name not in (CONFIG_FILE, INDEX_FILE) and not path.name.endswith(NOT_COPIED_SUFFIXES)
        if path.is_file() and copied:
            shutil.copyfile(path, out_dir / path.name)
    return total_bytes


def renamed(name: str, places: dict[int, int]) -> str | None:
    """The name of a tensor after removal, None when its layer is gone; `places` maps old to new numbers."""
    found = _LAYER_TENSOR.match(name)
    if found is None:
        return name
    place = places.get(int(found[2]))
    return None if place is None else f"{found[1]}{place}{found[3]}"


def _write_pruned(source: Path, target: Path, places: dict[int, int]) -> list[str]:
    """Write one weight file without the removed layers; give the names in it. No file when none is left."""
    tensors = tensor_headers(source)
    ordered = sorted(tensors.items(), key=lambda entry: entry[1]["data_offsets"][0])
    header: dict[str, Any] = {}
    ranges: list[tuple[int, int]] = []
    position = 0
    for name, entry in ordered:
        new_name = renamed(name, places)
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


def _write_config(files: CheckpointFiles, kept: Sequence[int], out_dir: Path) -> None:
    config = json.loads((files.folder / CONFIG_FILE).read_bytes())
    text = config.get("text_config", config)
    text["num_hidden_layers"] = len(kept)
    text["layer_types"] = [files.layer_types[index] for index in kept]
    text.pop("full_attention_interval", None)  # no longer true, and layer_types says it all
    _write_json(out_dir / CONFIG_FILE, config)


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
