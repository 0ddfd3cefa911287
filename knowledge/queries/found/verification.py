"""Which supported verdicts of a campaign a fresh run says again: rows only, so that a page and a command
agree, and a verification that was killed goes on where it was.

A verification begins with an event that says after which experiment the fresh runs come. Each ending of the
command writes another, with what could not be run and why; it is *whole* when every verdict has its answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.event_kinds import EventKind
from db.events import of_kind
from db.labels import Noun, format_label, parse_label_of
from db.models import Campaign, Event, Experiment, Hypothesis, Verdict
from db.states import ExperimentKind, VerdictOutcome
from knowledge.figures import listed
from knowledge.latency_only import latency_only
from knowledge.queries.at_work import interrupted_experiments
from knowledge.queries.found.fresh_runs import FreshView, is_said_again, newest_fresh
from knowledge.queries.view import EffectView, View, verdict_effect
from knowledge.replication import RULE
from knowledge.stored import verdict_metric


class Standing(StrEnum):
    """What became of one verdict in a verification."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "open"
    NOT_HERE = "not reproducible here"
    ALTERED = "altered"
    BROKE = "broke"
    RUNS = "runs"
    INTERRUPTED = "interrupted"
    WAITS = "waits"


ANSWERED = frozenset({Standing.AGREES, Standing.DIFFERS, Standing.OPEN})
"""Standings that a fresh run gave."""

SETTLED = ANSWERED | {Standing.ALTERED}
"""Standings that running again does not change."""


class VerifiedRow(View):
    """One supported verdict: what it claims, what a fresh run says, and why where none does. `recommended`:
    the campaign's best rests on it."""

    experiment: str
    hypothesis: str | None
    claim: str
    recommended: bool
    claimed: EffectView | None
    standing: Standing
    why: str
    fresh: FreshView | None
    wall_s: float | None
    """Seconds that the first run took."""


class VerificationView(View):
    """The newest verification of a campaign, in the order in which it runs; `begun_event` is None where there
    was none yet. `whole`: nothing is left to run. `all_agree`: exit code 0; `all_here_agree`: and what did
    not run can't run here."""

    campaign: str
    latency_only: bool
    begun_event: int | None
    begun_at: datetime | None
    after_experiment: int
    verdicts: tuple[VerifiedRow, ...]
    rule: str = RULE

    def count(self, *standings: Standing) -> int:
        """How many verdicts have one of these standings."""
        return sum(row.standing in standings for row in self.verdicts)

    @property
    def whole(self) -> bool:
        """Whether a fresh run answered for every verdict that one can answer for."""
        return all(row.standing in SETTLED for row in self.verdicts)

    @property
    def all_agree(self) -> bool:
        """Whether every verdict was said again."""
        return all(row.standing is Standing.AGREES for row in self.verdicts)

    @property
    def all_here_agree(self) -> bool:
        """Whether every verdict was said again that can be reproduced here."""
        return all(row.standing in (Standing.AGREES, Standing.NOT_HERE) for row in self.verdicts)

    @property
    def sentence(self) -> str:
        """What came of it in a sentence."""
        total = len(self.verdicts)
        one = total == 1
        if not total:
            return f"Nothing is supported in {self.campaign}: there is nothing to verify"
        if self.begun_event is None:
            none = "The supported verdict" if one else f"None of {total} supported verdicts"
            return f"{none} was {'not ' if one else ''}verified yet"
        said = [
            " ".join(filter(None, ("" if one else str(count), _does(standing, count), word)))
            for standing, word in _WORDS.items()
            if (count := self.count(standing)) or (standing is Standing.AGREES and not one)
        ]
        only = "; latency only, quality is not known" if self.latency_only else ""
        of = "The supported verdict" if one else f"Of {total} supported verdicts"
        return f"{of} {listed(said)}{only}"


_WORDS = {
    Standing.AGREES: "agreed in a fresh run",
    Standing.DIFFERS: "differed",
    Standing.OPEN: "stayed open",
    Standing.NOT_HERE: "could not be reproduced here",
    Standing.ALTERED: "had a seal that is broken, which no fresh run can mend",
    Standing.BROKE: "had a fresh run that broke, which says nothing of the claim",
    Standing.RUNS: "running now",
    Standing.INTERRUPTED: "interrupted",
    Standing.WAITS: "not run yet",
}


def _does(standing: Standing, count: int) -> str:
    """The verb before its words, where they are what verdicts are and not what they did."""
    if standing not in (Standing.RUNS, Standing.INTERRUPTED, Standing.WAITS):
        return ""
    return "is" if count == 1 else "are"


def verification(session: Session, campaign_id: int) -> VerificationView:
    """Return how the supported verdicts of a campaign, which must exist, stand in its newest verification."""
    begun = _latest(session, campaign_id, EventKind.CAMPAIGN_VERIFYING)
    ended = _latest(session, campaign_id, EventKind.CAMPAIGN_VERIFIED)
    after = int((begun.data or {}).get("after_experiment", 0)) if begun is not None else 0
    left = _left(ended) if begun is not None and ended is not None and ended.id > begun.id else {}
    campaign = session.get_one(Campaign, campaign_id)
    claims = _claims(session, campaign)
    fresh = (
        newest_fresh(session, [experiment.id for experiment, *_ in claims], after)
        if begun is not None
        else {}
    )
    under_way = {parse_label_of(Noun.EXPERIMENT, running) for _, running in fresh.values() if running}
    alone = interrupted_experiments(session, under_way) if under_way else {}
    rows = []
    for experiment, verdict, claim, recommended in claims:
        label = format_label(Noun.EXPERIMENT, experiment.id)
        again, running = fresh.get(experiment.id, (None, None))
        standing, why = _standing(label, again, running, left)
        if standing is Standing.RUNS and running and parse_label_of(Noun.EXPERIMENT, running) in alone:
            command = f"autoinfer verify {format_label(Noun.CAMPAIGN, campaign_id)}"
            standing, why = Standing.INTERRUPTED, f"{running} was interrupted: {command} goes on with it"
        rows.append(
            VerifiedRow(
                experiment=label,
                hypothesis=None
                if experiment.hypothesis_id is None
                else format_label(Noun.HYPOTHESIS, experiment.hypothesis_id),
                claim=claim,
                recommended=recommended,
                claimed=verdict_effect(verdict),
                standing=standing,
                why=why,
                fresh=again,
                wall_s=experiment.wall_s,
            )
        )
    return VerificationView(
        campaign=format_label(Noun.CAMPAIGN, campaign_id),
        latency_only=latency_only(campaign.spec),
        begun_event=None if begun is None else begun.id,
        begun_at=None if begun is None else begun.at,
        after_experiment=after,
        verdicts=tuple(rows),
    )


def _standing(
    label: str, again: FreshView | None, running: str | None, left: Mapping[str, Mapping[str, Any]]
) -> tuple[Standing, str]:
    if again is not None:
        return Standing(again.agreement.value), again.why
    if running is not None:
        return Standing.RUNS, f"{running} runs it in fresh processes"
    told = left.get(label)
    if told is None:
        return Standing.WAITS, "not run yet"
    return Standing(told["standing"]), str(told["why"])


def _is_check(session: Session, experiment: Experiment) -> bool:
    """Whether it is the check of a recipe on another device, whose claim is the recipe's."""
    first = experiment.reproduces_experiment_id
    if experiment.kind is not ExperimentKind.PROMOTE or first is None:
        return False
    return not is_said_again(session.get_one(Experiment, first), experiment)


def _claims(session: Session, campaign: Campaign) -> list[tuple[Experiment, Verdict, str, bool]]:
    """The supported verdicts, first what the best rests on, then the largest effect; times before others."""
    query = (
        select(Experiment, Verdict, Hypothesis.claim)
        .join(Verdict, Verdict.experiment_id == Experiment.id)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .where(
            Experiment.campaign_id == campaign.id,
            Experiment.kind.in_((ExperimentKind.TEST, ExperimentKind.PROMOTE)),
            Verdict.outcome == VerdictOutcome.SUPPORTED,
        )
        .order_by(Experiment.id)
    )
    found = [row for row in session.execute(query).all() if not _is_check(session, row[0])]
    rests_on = _chain(campaign, [row[0] for row in found])

    def place(row: Any) -> tuple[object, ...]:
        experiment, verdict, _ = row
        metric = verdict_metric(verdict)
        return (
            rests_on.index(experiment.id) if experiment.id in rests_on else len(rests_on),
            not metric.endswith("_ms"),
            metric,
            verdict.effect_log if verdict.effect_log is not None else 0.0,
            experiment.id,
        )

    return [
        (experiment, verdict, claim or experiment.kind.value, experiment.id in rests_on)
        for experiment, verdict, claim in sorted(found, key=place)
    ]


def _chain(campaign: Campaign, supported: Sequence[Experiment]) -> list[int]:
    """The experiment of the best, then those that led to its control, back to the baseline."""
    tests = [each for each in supported if each.kind is ExperimentKind.TEST]
    by_id = {each.id: each for each in tests}
    to = {each.candidate_configuration_id: each for each in reversed(tests)}  # the earliest of several
    found: list[int] = []
    step = by_id.get(campaign.best_experiment_id or 0)
    while step is not None and step.id not in found:
        found.append(step.id)
        if step.control_configuration_id == campaign.baseline_configuration_id:
            break
        step = to.get(step.control_configuration_id)
    return found


def _left(ended: Event) -> Mapping[str, Mapping[str, Any]]:
    told = (ended.data or {}).get("left")
    return told if isinstance(told, dict) else {}


def _latest(session: Session, campaign_id: int, kind: EventKind) -> Event | None:
    newest = select(func.max(Event.id)).where(of_kind(kind, campaign_id))
    return session.scalars(select(Event).where(Event.id == newest.scalar_subquery())).first()
