"""Reading text that grows, in pieces that are cut between characters."""

from __future__ import annotations

from pathlib import Path

from experiments.executors.port import LogChunk

LOG_CHUNK_BYTES = 64 * 1024
"""Most that `logs` returns at once."""


def chunk_of(path: Path, cursor: int) -> LogChunk:
    """The text from byte `cursor` on, at most `LOG_CHUNK_BYTES`; empty where there is nothing yet."""
    try:
        with path.open("rb") as file:
            file.seek(cursor)
            data = whole_characters(file.read(LOG_CHUNK_BYTES))
    except FileNotFoundError:
        return LogChunk("", cursor)
    return LogChunk(data.decode(errors="replace"), cursor + len(data))


def whole_characters(data: bytes) -> bytes:
    """Cut off a UTF-8 sequence that is not complete yet at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[:-back] if length > back else data
    return data
