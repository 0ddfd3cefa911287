"""Checkpoints that are built on the other devices while the baseline is measured on one.

A test can't be begun before the baseline is known, but what its arms load can be built: which checkpoints the
campaign's own questions and the user's hypotheses need is known from the start, and they come first in the
queue. Nothing is proposed, predicted or judged by a build: it leaves an artifact, which the test finds, or
builds itself where it is not there. What the agent proposes is known when the baseline is.

Builds go on only until the baseline has its first launches up. From there on it is timed, on a host where
nothing else is at work, so what is still building is ended then; of a quantization the finished layers are
kept, and its test goes on with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.glance import Seen
from agent.campaign.known import store
from agent.campaign.known.facts import Facts
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.weights import Weights, weights_of
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.held import held_ones
from agent.campaign.queue.questions import arms_of
from agent.campaign.resources.devices import ALIVE
from agent.campaign.resources.waiting import give_up
from agent.ground.legal import Legal
from agent.ground.sweep import swept
from configs.errors import UsageError
from configs.quantities import format_duration
from configs.targets import device_there
from db import events, queue
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Job
from db.session import Database
from db.states import CampaignState, ExperimentKind, ExperimentState, JobState
from experiments.job.spec import BUILD, BuildJob
from experiments.measurement.evidence import Stage
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration
from knowledge.figures import counted
from knowledge.queries.spent.built_ahead import built_ahead

UNTIMED = (None, Stage.STATIC, Stage.PRUNE, Stage.QUANTIZE, Stage.KERNELS)
"""Stages of a baseline in which no launch is timed. Kernels are timed alone, by the GPU that runs them."""

IS_TIMED = (
    "The baseline is timed now, beside which nothing is built: the test that needs this goes on with it."
)
IS_OVER = "The measurement of the baseline is over: the test that needs this goes on with it."
RUNS_NOT = "The campaign was stopped or paused: the test that needs this goes on with it."


@dataclass(frozen=True)
class Wanted:
    """A configuration whose checkpoint is to be built, and for what, such as "the question g32_bits"."""

    configuration: Configuration
    purpose: str


def wanted(
    arms: Iterable[tuple[str, Sequence[Configuration]]], there: Iterable[Configuration]
) -> tuple[Wanted, ...]:
    """Of each checkpoint that these arms load the first configuration with it, in their order; those that
    load the model's own are left out, and those of what is `there`. Pure."""
    known = {weights_of(each) for each in there} | {weights_of(None)}
    found: list[Wanted] = []
    for purpose, configurations in arms:
        for each in configurations:
            if weights_of(each) not in known:
                known.add(weights_of(each))
                found.append(Wanted(each, purpose))
    return tuple(found)


def end_builds(session: Session, campaign_id: int, why: str) -> None:
    """Give up the campaign's builds that wait or run, for a reason in a sentence."""
    mine = (Job.campaign_id == campaign_id, Job.kind == BUILD, Job.state.in_(ALIVE))
    alive = select(Job.id).where(*mine, Job.cancel_requested.is_(False)).order_by(Job.id)
    give_up(session, list(session.scalars(alive)), why)


def tell_built(session: Session, campaign_id: int) -> None:
    """Say what was built while the baseline was measured, and what time of devices it took; nothing where
    nothing was begun."""
    present = session.scalars(select(now())).one()
    found = built_ahead(session, [campaign_id], present).get(campaign_id)
    if found is None:
        return
    rest = found.unfinished
    others = f", {rest} more {'was' if rest == 1 else 'were'} begun and not finished" if rest else ""
    events.append(
        session,
        EventKind.CAMPAIGN_BUILT_AHEAD,
        f"While the baseline was measured, {counted(found.built, 'checkpoint')} that tests need "
        f"{'was' if found.built == 1 else 'were'} built on the other devices{others}: "
        f"{format_duration(found.device_s)} of their time",
        format_label(Noun.CAMPAIGN, campaign_id),
        campaign_id,
        asdict(found),
    )


class BuildsAhead:
    """Begins and ends the builds of one campaign.

    `writing` opens a transaction that holds the campaign's lease. Unless it `begins` any, it ends those that
    another loop left.
    """

    def __init__(
        self,
        database: Database,
        campaign_id: int,
        writing: Callable[[], AbstractContextManager[Session]],
        *,
        begins: bool,
    ) -> None:
        self._database = database
        self._campaign_id = campaign_id
        self._writing = writing
        self._begins = begins
        self._wanted: tuple[int, tuple[Wanted, ...]] | None = None
        """What is wanted, with the newest event that may have changed it."""

    def look(self, seen: Seen) -> None:
        """Give each device that has nothing to do a checkpoint to build while none of the baseline's launches
        is timed, and end the builds as soon as one is."""
        if not seen.builds and (seen.has_baseline or not self._begins):
            return
        with self._database.read() as session:
            runs = seen.state is CampaignState.RUNNING
            untimed = runs and is_untimed(session, self._campaign_id)
        if seen.builds and not untimed:
            why = IS_TIMED if seen.measures else IS_OVER
            with self._writing() as session:
                end_builds(session, self._campaign_id, why if runs else RUNS_NOT)
        free = [each for each in seen.devices.free if each not in seen.devices.others] if untimed else []
        if free and seen.measures and self._begins:
            self._begin(free, seen.newest_cause)

    def _begin(self, free: Sequence[str], newest_cause: int) -> None:
        with self._database.read() as session:
            tried = _tried(session, self._campaign_id)
            if self._wanted is None or self._wanted[0] != newest_cause:
                facts = read_facts(session, self._campaign_id)
                self._wanted = newest_cause, _wanted_of(session, facts, legal_of(facts))
        left = [each for each in self._wanted[1] if weights_of(each.configuration) not in tried.weights]
        on = [each for each in free if each not in tried.failed_on]
        if not (left and on):
            return
        with self._writing() as session:
            facts = read_facts(session, self._campaign_id)
            for device, each in zip(on, left, strict=False):
                _dispatch(session, facts, each, device)


def is_untimed(session: Session, campaign_id: int) -> bool:
    """Whether a baseline waits or is measured, and has not come to its first timed block."""
    baseline = session.execute(
        select(Experiment.stage, Experiment.progress).where(
            Experiment.campaign_id == campaign_id,
            Experiment.kind == ExperimentKind.BASELINE,
            Experiment.state.in_((ExperimentState.PLANNED, ExperimentState.RUNNING)),
        )
    ).first()
    if baseline is None:
        return False
    stage, progress = baseline
    return stage in UNTIMED or (stage == Stage.SWEEP and not (progress or {}).get("timing"))


@dataclass(frozen=True)
class _Tried:
    weights: frozenset[Weights]
    failed_on: frozenset[str]


def _tried(session: Session, campaign_id: int) -> _Tried:
    """What was built, builds or could not be, and the devices on which something could not; what was ended
    before it was done may be begun again."""
    mine = (Job.campaign_id == campaign_id, Job.kind == BUILD, Job.state != JobState.CANCELLED)
    jobs = session.scalars(select(Job).where(*mine)).all()
    return _Tried(
        frozenset(weights_of(Configuration.of(each.spec["configuration"])) for each in jobs),
        frozenset(each.device_class for each in jobs if each.state is JobState.FAILED),
    )


def _wanted_of(session: Session, facts: Facts, legal: Legal) -> tuple[Wanted, ...]:
    """First what the user's own hypotheses load, then what the campaign's questions do."""
    held = [
        (each.id, (each.control_configuration_id, each.candidate_configuration_id))
        for each in held_ones(session, facts.id)
    ]
    known = store.configurations(session, [number for _, pair in held for number in pair])
    arms: list[tuple[str, Sequence[Configuration]]] = [
        (format_label(Noun.HYPOTHESIS, number), [known[each] for each in pair]) for number, pair in held
    ]
    begins_from = facts.begins_from(legal.space)
    for question in facts.unasked:
        try:
            arms.append((f"the question {question.id}", arms_of(question, legal, begins_from)))
        except UsageError:
            continue  # it is told as infeasible when it is posed
    return wanted(arms, (begins_from, *swept(legal.space, facts.start, facts.spec.baseline.sweep)))


def _dispatch(session: Session, facts: Facts, each: Wanted, device: str) -> None:
    job = BuildJob(
        campaign_id=facts.id,
        engine=facts.spec.engine,
        judge=facts.spec.judge,
        model=facts.spec.model,
        model_fingerprint=facts.model_fingerprint,
        device=device_there(device),
        seed=facts.spec.seed,
        configuration=dict(each.configuration),
        purpose=each.purpose,
        workload=Workload.model_validate(facts.spec.plan.workload.model_dump()),
    )
    number = queue.enqueue(
        session, job.kind, job.model_dump(mode="json"), campaign_id=facts.id, device_class=device
    )
    label = format_label(Noun.JOB, number)
    events.append(
        session,
        EventKind.ARTIFACT_AHEAD,
        f"{label} builds a checkpoint for {each.purpose} on {device} while the baseline is measured",
        label,
        facts.id,
        {"device": device, "configuration": dict(each.configuration)},
    )
