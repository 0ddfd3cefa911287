"""The frozen tables that the planner is proved on, and the one that is held out of them: `h200-4b.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

KERNELS, CORPORA = "kernels", "corpora"


@dataclass(frozen=True)
class Frozen:
    """A table that is replayed: its file under docs/results/tables, the lines of one workload, a name for
    pictures, and by kind the knobs whose labels are turned round besides."""

    file: str
    where: Mapping[str, str]
    name: str
    permute: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def options(self) -> str:
        """As options of `autoinfer replay`."""
        return " ".join(f"--where {column}={value}" for column, value in self.where.items())


REFERENCE = Frozen(
    "reference.csv",
    {},
    "reference",
    {KERNELS: ("serving.compile",), CORPORA: ("quantization.corpus",)},
)
"""The reference engine on two cores, with all its levers; quality decides."""


def _workloads(name: str) -> tuple[Frozen, ...]:
    """A table of a shape on the H200, each workload a table of its own."""
    return tuple(
        Frozen(
            f"{name}.csv",
            {"concurrency": str(concurrency), "prompt_tokens": str(prompt_tokens)},
            f"{name}-c{concurrency}-p{prompt_tokens}",
            {KERNELS: ("serving.linear_backend",)},
        )
        for prompt_tokens in (512, 3840)
        for concurrency in (1, 4, 16, 64)
    )


TABLES: tuple[Frozen, ...] = (REFERENCE, *_workloads("h200-9b"))
"""What the planner may be looked at on while it is made: the reference engine's, and Qwen3.5-9B's shape."""

HELD_OUT: tuple[Frozen, ...] = _workloads("h200-4b")
"""Qwen3.5-4B's shape: replayed once, when nothing is left to be changed."""

ABOUT: Mapping[str, str] = {
    "reference.csv": (
        "**`reference`**: the packaged, trained model in the reference engine on two cores, served for one "
        "request at a time. Quality decides, checkpoints are built and steps compiled once for all rows that "
        "share them, and both cost. Its time is dispatch more than bytes, so it stands for itself alone. "
        "Samples are requests of the same prompts, at the pace of the control beside them "
        "(`tpot_paced_ms`)."
    ),
    "h200-9b.csv": (
        "**`h200-9b-…`**: Qwen3.5-9B's shape on an H200, each workload a table of its own. There are few "
        "configurations: whoever tries them in any order soon has the best, and only the first trials tell "
        "planners apart; they were chosen one by one, most of them several good changes at once, which "
        "favours whoever tries what differs most. Samples are requests within one launch, so the spread "
        "between launches, which is larger, is not in them. The weights are made up: quality never decides, "
        "and configurations that draft have no time a token and are left out. Physics is fed the profile of "
        "trial 0 at one request and 512 tokens, whatever the workload. What is believed of kernels was "
        "changed with these tables seen ([surrogate.md](surrogate.md) says what), so they are no test of it."
    ),
    "h200-4b.csv": (
        "**`h200-4b-…`**: Qwen3.5-4B's shape on the same kind of GPU, each workload a table of its own: "
        "twelve loads, of which those that draft have no time a token and are left out. Its output head is "
        "its embedding, which stays in 16 bits. As of 9B's shape, the weights are made up, and physics is "
        "fed the profile of trial 0 at one request and 512 tokens."
    ),
}
"""What must be known of each file before its figures are read."""
