"""The launches of an experiment, each once: an evaluation that is kept stands under every stage that compared
with it, and its samples are the same ones. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import datetime

from db.states import Arm
from experiments.measurement.evidence import Metric
from knowledge.queries.measured.spread import SpreadView
from knowledge.queries.view import View

QUALITY = (
    Metric.NLL_BITS,
    Metric.KL_NATS,
    Metric.TOP1_AGREEMENT,
    Metric.DECODE_AGREEMENT,
    Metric.TASK_CORRECT,
)
"""Metrics whose samples tell the quality of an arm, by document or item."""


class LaunchView(View):
    """A fresh process that served one arm, and the spread of what it gave; `evaluation` is the digest of the
    artifact that keeps its scores, None where they were not kept."""

    arm: Arm
    index: int
    stage: str
    attempt: int
    configuration: str
    load_s: float | None
    started_at: datetime
    environment: str
    evaluation: str | None = None
    spreads: tuple[SpreadView, ...]


@dataclass(frozen=True)
class UsedLaunch:
    """A launch at its `place` among all, and the `stages` that used what it gave, in their order: its own
    first."""

    place: int
    launch: LaunchView
    stages: tuple[str, ...]

    @property
    def used_by(self) -> str:
        """The stages in words: `screen, evaluate`."""
        return ", ".join(self.stages)


def launches_once(launches: Iterable[LaunchView]) -> tuple[UsedLaunch, ...]:
    """Return the launches in their order, once those that took the same samples from one kept evaluation.

    A claim that is reproduced is scored anew though its evaluation is kept, so alike are only launches whose
    samples have the same spread.
    """
    found: dict[Hashable, UsedLaunch] = {}
    for place, launch in enumerate(launches):
        kept = (launch.arm, launch.index, launch.evaluation, launch.spreads)
        key: Hashable = place if launch.evaluation is None else kept
        first = found.get(key, UsedLaunch(place, launch, ()))
        found[key] = UsedLaunch(
            first.place, first.launch, tuple(dict.fromkeys((*first.stages, launch.stage)))
        )
    return tuple(found.values())
