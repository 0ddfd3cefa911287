"""The launches of an experiment, each once: an evaluation that is kept stands under every stage that compared
with it, and its samples are the same ones. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from experiments.measurement.evidence import Metric
from knowledge.queries.measured.experiment_detail import LaunchView

QUALITY = (
    Metric.NLL_BITS,
    Metric.KL_NATS,
    Metric.TOP1_AGREEMENT,
    Metric.DECODE_AGREEMENT,
    Metric.TASK_CORRECT,
)
"""Metrics whose samples tell the quality of an arm, by document or item."""


@dataclass(frozen=True)
class UsedLaunch:
    """A launch, and the `stages` that used what it gave, in their order: its own first."""

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
    for number, launch in enumerate(launches):
        kept = (launch.arm, launch.index, launch.evaluation, launch.spreads)
        key: Hashable = number if launch.evaluation is None else kept
        first = found.get(key, UsedLaunch(launch, ()))
        found[key] = UsedLaunch(first.launch, tuple(dict.fromkeys((*first.stages, launch.stage))))
    return tuple(found.values())
