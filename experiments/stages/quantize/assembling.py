"""Puts a quantized checkpoint's weight files together from the original's and the finished layers'.

Bytes are copied in pieces, so that no file has to fit into memory: whatever no layer changed (the embedding,
the MTP head, a vision tower, the last norm) is what it was. Files keep their names. Imports no torch.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.engines.reference.inspection import INDEX_FILE, CheckpointFiles, tensor_headers
from experiments.stages.quantize.plan import PlannedModule

_CHUNK_BYTES = 16 * 2**20
_ALIGNMENT_BYTES = 8
_WIDTHS = {"64": 8, "32": 4, "16": 2}
"""Bytes of an item by the digits in its type's name; one for all others."""


@dataclass(frozen=True)
class _Piece:
    """A tensor to write: its header's entry, and where its bytes are."""

    name: str
    entry: Mapping[str, Any]
    source: Path

    @property
    def size(self) -> int:
        start, end = self.entry["data_offsets"]
        return int(end) - int(start)

    @property
    def width(self) -> int:
        dtype = str(self.entry["dtype"])
        return next((width for digits, width in _WIDTHS.items() if digits in dtype), 1)


def assemble_weights(
    files: CheckpointFiles, planned: Sequence[PlannedModule], layers: Iterable[Path], out_dir: Path
) -> None:
    """Write the weight files, and their index where there is one, into `out_dir`.

    `layers` are the files of finished layers: what they hold takes the place of the tensor of its name, or,
    of a packed module, of the one that its weight was read from; of a head that was tied, it stands beside
    the embedding.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    new: dict[str, list[_Piece]] = {}
    owner = {module.stored: module.source for module in planned}
    gone = {module.replaced for module in planned}
    for path in layers:
        for name, entry in tensor_headers(path).items():
            place = owner.get(name.rpartition(".")[0], name)
            new.setdefault(place, []).append(_Piece(name, entry, path))
    weight_map: dict[str, str] = {}
    total_bytes = 0
    for source in files.weight_files:
        pieces: list[_Piece] = []
        for name, entry in tensor_headers(source).items():
            replaced = {each.name for each in new.get(name, ())}
            if name not in gone and name not in replaced:
                pieces.append(_Piece(name, entry, source))
            pieces += new.get(name, ())
        _write(pieces, _metadata(source), out_dir / source.name)
        weight_map |= dict.fromkeys((piece.name for piece in pieces), source.name)
        total_bytes += sum(piece.size for piece in pieces)
    if (files.folder / INDEX_FILE).is_file():
        index = {"metadata": {"total_size": total_bytes}, "weight_map": dict(sorted(weight_map.items()))}
        (out_dir / INDEX_FILE).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _write(pieces: Sequence[_Piece], metadata: Mapping[str, str] | None, target: Path) -> None:
    """Wide items first and then by name, as the format's own writer does, so that each is aligned."""
    ordered = sorted(pieces, key=lambda piece: (-piece.width, piece.name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position = 0
    for piece in ordered:
        header[piece.name] = {**piece.entry, "data_offsets": [position, position + piece.size]}
        position += piece.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT_BYTES)
    with target.open("wb") as write:
        write.write(struct.pack("<Q", len(text)) + text)
        for piece in ordered:
            with piece.source.open("rb") as read:
                read.seek(_data_start(read.read(8)) + piece.entry["data_offsets"][0])
                for offset in range(0, piece.size, _CHUNK_BYTES):
                    write.write(read.read(min(_CHUNK_BYTES, piece.size - offset)))


def _metadata(path: Path) -> Mapping[str, str] | None:
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        found: Mapping[str, str] | None = json.loads(file.read(length)).get("__metadata__")
    return found


def _data_start(length: bytes) -> int:
    return 8 + int.from_bytes(length, "little")
