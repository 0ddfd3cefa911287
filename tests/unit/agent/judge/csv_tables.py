"""Tables of times with a known truth, as rows and as CSV text."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

HEADER = ("arm", "launch", "block", "prompt", "metric", "value", "seq")
Fields = tuple[str, ...]


@dataclass(frozen=True)
class Measured:
    """What a table is drawn from: log scale, but for `level`."""

    effect_log: float = 0.0
    launches: int = 4
    blocks: int = 4
    prompts: int = 2
    values: int = 1
    launch_sd: float = 0.005
    request_sd: float = 0.01
    level: float = 20.0
    metric: str = "tpot_ms"
    seed: int = 1

    def rows(self) -> list[Fields]:
        rng = np.random.default_rng(self.seed)
        found = []
        for launch in range(self.launches):
            for arm in ("control", "candidate"):
                own = rng.normal(0, self.launch_sd) + (self.effect_log if arm == "candidate" else 0.0)
                for block in range(self.blocks):
                    for prompt in range(self.prompts):
                        for seq in range(self.values):
                            log = math.log(self.level * (1 + prompt)) + own + rng.normal(0, self.request_sd)
                            value = repr(math.exp(log))
                            found.append(
                                (arm, str(launch), str(block), f"p{prompt}", self.metric, value, str(seq))
                            )
        return found


def as_csv(rows: Iterable[Fields], header: Sequence[str] = HEADER) -> bytes:
    return "".join(",".join(line) + "\n" for line in (header, *rows)).encode()


def stream(text: bytes | str) -> io.BytesIO:
    return io.BytesIO(text if isinstance(text, bytes) else text.encode())


def changed(row: Fields, **fields: str) -> Fields:
    """The row with some of its fields replaced, by column."""
    return tuple(fields.get(name, value) for name, value in zip(HEADER, row, strict=True))
