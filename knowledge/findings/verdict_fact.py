"""A verdict as the rules of findings see it, and what it says of the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from db.states import VerdictOutcome
from experiments.space.configuration import Change
from knowledge.findings.pooling import Estimate
from knowledge.scope import Scope

Source = tuple[bool, int]
"""Whether a verdict was imported, and its number among those that were, or were not."""

SAYING = "saying"
"""Where a finding's scope keeps what it says of the change (`Saying`); absent where verdicts disagree."""

VERSIONS_MARK = "@"
"""In a key, between the statement and the versions that it was reached with."""

_KEY_DIGITS = 16
"""Hexadecimal digits of a digest in a key: 64 bits, so that no two scopes ever meet by chance."""


class Saying(StrEnum):
    """What a conclusive verdict says of the change."""

    HELPS = "helps"
    DOES_NOT_HELP = "does not help"
    BREAKS_QUALITY = "breaks quality"
    DOES_NOT_RUN = "does not run"


@dataclass(frozen=True)
class VerdictFact:
    """One verdict as the rules see it.

    Effects and `min_effect` are in the metric's scale: natural logs of candidate over control and 0.03 for
    3 %; for a share, differences and 0.02 for two points. `quality_held` is `None` where quality was not
    measured; `cause` is the verdict's own sentence. `of_an_open_test`: it reruns a test that no verdict
    decided. `not_installed`: nothing there could make the candidate, which says nothing of the change.
    `campaign` names the campaign it was reached in, `imported` says that another database told it;
    `verdict_id` counts the verdicts of this one and the imported ones each for themselves. `measured_at` is
    when the verdict was reached, wherever that was (None: not known).
    """

    verdict_id: int
    outcome: VerdictOutcome
    metric: str
    changes: tuple[Change, ...]
    lever: str
    min_effect: float
    scope: Scope
    effect_log: float | None
    low_log: float | None
    high_log: float | None
    quality_held: bool | None
    cause: str
    of_an_open_test: bool = False
    not_installed: bool = False
    campaign: str = ""
    imported: bool = False
    measured_at: datetime | None = None

    @property
    def source(self) -> Source:
        """Which verdict it is; those of this database sort before the imported."""
        return self.imported, self.verdict_id

    @property
    def key(self) -> str:
        """Name of the statement this verdict bears on; unique for change, metric and scope."""
        return f"{self.lineage_key}{VERSIONS_MARK}{self.scope.versions_digest[:_KEY_DIGITS]}"

    @property
    def lineage_key(self) -> str:
        """`key` without the versions: the same statement on other versions begins with it."""
        return f"{self.metric}: {changes_words(self.changes)} #{self.scope.lineage_digest[:_KEY_DIGITS]}"

    @property
    def saying(self) -> Saying | None:
        """What the verdict says of the change; `None` for an inconclusive or confounded one, for any of a
        rerun of an open test, and where nothing could make the candidate."""
        if self.of_an_open_test or self.not_installed:
            return None
        match self.outcome:
            case VerdictOutcome.SUPPORTED:
                return Saying.HELPS
            case VerdictOutcome.REFUTED:
                return Saying.BREAKS_QUALITY if self.quality_held is False else Saying.DOES_NOT_HELP
            case VerdictOutcome.INFEASIBLE:
                return Saying.DOES_NOT_RUN
        return None

    @property
    def estimate(self) -> Estimate | None:
        """The measured effect; `None` where nothing was measured or no interval could be given."""
        if self.effect_log is None or self.low_log is None or self.high_log is None:
            return None
        return Estimate(self.effect_log, self.low_log, self.high_log)


def changes_words(changes: Sequence[Change]) -> str:
    """Return what was changed knob by knob, as a key has it: `serving.threads 1 → 2 with serving.dtype
    float32 → bfloat16`."""
    return " with ".join(str(change) for change in changes)


def said(fact: VerdictFact) -> Saying:
    """Return what a conclusive verdict says; raises `ValueError` of one that is not."""
    if fact.saying is None:
        raise ValueError(f"verdict {fact.verdict_id} is not conclusive")
    return fact.saying
