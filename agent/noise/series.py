"""An A/A series in the database: what was asked, which pairs were measured, and the job of the next one.

A series is kept as a campaign without hypotheses, named `db.noise.SERIES_NAME`; each of its pairs is an
experiment of kind `noise` with a job of its own, so that a kill loses at most the pair that was running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from agent.campaign.beginning.create import stored_spec
from agent.campaign.known import store
from agent.ground.legal import gpu_known, legal_here
from agent.ground.stored_spec import AT_ONCE, FOUND
from agent.plan.ground import Ground, found_on, spec_on
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from db import events, queue
from db.campaign_owner import free_from_the_dead
from db.clock import now
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign, Experiment
from db.noise import SERIES_NAME
from db.states import CampaignState, ExperimentKind, ExperimentState
from experiments.job.spec import AaJob, Knobs
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Workload
from experiments.space.configuration import Configuration
from experiments.space.loading import parse_assignments_in

AA = "aa"
"""Where a series's own part stands among what was found on its ground."""


@dataclass(frozen=True)
class AaAsked:
    """What a series is asked for beside its campaign: the configuration, blocks a launch, the condition that
    half of the pairs are measured under, and how many launches."""

    configuration: Configuration
    blocks: int
    launches: int
    beside: tuple[str, ...] = ()
    alone: bool = False

    @property
    def pairs(self) -> int:
        """Pairs of launches."""
        return self.launches // 2

    @property
    def contrasted(self) -> bool:
        """Whether every second pair is measured under another condition."""
        return self.alone or bool(self.beside)

    def differs(self, pair: int) -> bool:
        """Whether a pair is measured under the other condition.

        It follows the Thue-Morse sequence: of two neighbours one is, and a linear drift cancels over four.
        """
        return self.contrasted and pair.bit_count() % 2 == 1

    def prompts(self, pair: int) -> int:
        """Which texts a pair gets: those of its neighbour where the two are compared."""
        return pair // 2 if self.contrasted else pair


@dataclass(frozen=True)
class PairRow:
    """An experiment of a series: the pair that it measures and how it ended."""

    experiment_id: int
    pair: int
    state: ExperimentState
    failure: str | None

    @property
    def measured(self) -> bool:
        """Whether the pair came to its end."""
        return self.state is ExperimentState.DONE and self.failure is None

    @property
    def open(self) -> bool:
        """Whether it waits or runs."""
        return self.state in (ExperimentState.PLANNED, ExperimentState.RUNNING)


def configuration_of(spec: CampaignSpec, ground: Ground, assignments: Sequence[str]) -> Configuration:
    """What a campaign begins from, with `KNOB=VALUE` set; raises `UsageError` for what can't be here."""
    capability = (ground.gpu or {}).get("compute_capability")
    gpu = gpu_known(spec, None if capability is None else str(capability))
    legal = legal_here(spec, ground.checkpoint, ground.cores, gpu)
    default = ground.begins_from(legal.space)
    given = parse_assignments_in(spec.space, assignments)
    never = legal.why_never(given)
    if never is not None:
        raise UsageError(never, "Give --set another value.")
    configuration = legal.space.with_change(default, given) if given else default
    refusal = legal.refused(configuration)
    if refusal is not None:
        raise UsageError(refusal, "Give --set other values.")
    return configuration


def interrupted_series(session: Session, spec: CampaignSpec, ground: Ground, asked: AaAsked) -> int | None:
    """The newest series that asks for the same, on the same ground, that did not come to its end and that
    nobody drives; None when there is none. How many launches it was asked for does not matter."""
    unfinished = (
        Campaign.name == SERIES_NAME,
        Campaign.state != CampaignState.STOPPED,
        Campaign.model_fingerprint == ground.fingerprint,
        Campaign.target == ground.target_key,
    )
    for row in session.scalars(select(Campaign).where(*unfinished)):
        free_from_the_dead(session, row)
    free = or_(Campaign.owner.is_(None), Campaign.owner_lease_expires_at <= now())
    wanted = spec_on(spec, ground)
    for row in session.scalars(select(Campaign).where(*unfinished, free).order_by(Campaign.id.desc())):
        if row.spec[FOUND][AA] == _document(asked) and stored_spec(row) == wanted:
            return row.id
    return None


def create_series(session: Session, spec: CampaignSpec, ground: Ground, asked: AaAsked) -> int:
    """Write a series down and return its id."""
    series = Campaign(
        name=SERIES_NAME,
        model=spec.model,
        model_fingerprint=ground.fingerprint,
        target=ground.target_key,
        objective={"metric": spec.plan.metric, "concurrency": spec.plan.workload.concurrency},
        limits={"min_effect": spec.plan.min_effect, "alpha": spec.plan.alpha},
        budget={"wall_s": spec.budget.wall_s, "spent_s": 0.0, "launches": asked.launches},
        seed=spec.seed,
        spec={
            **spec.model_dump(mode="json"),
            "drafter": ground.drafter,
            FOUND: {**found_on(ground), AA: _document(asked)},
        },
    )
    session.add(series)
    session.flush()
    series.started_at = now()
    events.append(
        session,
        EventKind.CAMPAIGN_STARTED,
        f"An A/A series of {asked.launches} launches of {spec.model} on {ground.target_key}: "
        f"{asked.configuration}",
        subject=format_label(Noun.CAMPAIGN, series.id),
        campaign_id=series.id,
    )
    return series.id


def resize(session: Session, series_id: int, launches: int) -> None:
    """Ask a series for another number of launches; those that were measured stay."""
    series = session.get_one(Campaign, series_id)
    series.budget = {**series.budget, "launches": launches}


def read_series(session: Session, series_id: int) -> tuple[CampaignSpec, AaAsked]:
    """What a stored series was asked for; raises `UsageError` for a campaign that is none."""
    row = session.get_one(Campaign, series_id)
    spec = stored_spec(row)
    if row.name != SERIES_NAME or spec is None:
        label = format_label(Noun.CAMPAIGN, series_id)
        raise UsageError(f"{label} is no A/A series.", "See which are with: autoinfer campaign list")
    told: Mapping[str, object] = row.spec[FOUND][AA]
    knobs, beside = told["configuration"], told["beside"]
    assert isinstance(knobs, dict)
    assert isinstance(beside, list)
    return spec, AaAsked(
        configuration=Configuration.of(knobs),
        blocks=int(str(told["blocks"])),
        launches=int(row.budget["launches"]),
        beside=tuple(map(str, beside)),
        alone=bool(told["alone"]),
    )


def pairs_of(session: Session, series_id: int) -> list[PairRow]:
    """The experiments of a series, oldest first; a pair that failed and was measured again has several."""
    rows = session.execute(
        select(Experiment.id, Experiment.plan, Experiment.state, Experiment.failure)
        .where(Experiment.campaign_id == series_id, Experiment.kind == ExperimentKind.NOISE)
        .order_by(Experiment.id)
    )
    return [PairRow(each.id, int(each.plan["pair"]), each.state, each.failure) for each in rows]


def next_pair(rows: Sequence[PairRow], asked: AaAsked) -> int | None:
    """The first pair that is neither measured nor under way; None when all are."""
    taken = {row.pair for row in rows if row.measured or row.open}
    return next((pair for pair in range(asked.pairs) if pair not in taken), None)


def dispatch_pair(session: Session, series_id: int, spec: CampaignSpec, asked: AaAsked, pair: int) -> int:
    """Write the experiment of a pair and its job; returns the experiment's id."""
    series = session.get_one(Campaign, series_id)
    differs = asked.differs(pair)
    knobs: Knobs = dict(asked.configuration)
    beside = asked.beside if differs else ()
    alone = asked.alone and differs
    experiment = Experiment(
        campaign_id=series_id,
        kind=ExperimentKind.NOISE,
        target=series.target,
        control_configuration_id=store.configuration_id(session, asked.configuration),
        plan={
            "pair": pair,
            "blocks": asked.blocks,
            "metric": spec.plan.metric,
            "workload": spec.plan.workload.model_dump(),
            "beside": list(beside),
            "alone": alone,
        },
    )
    session.add(experiment)
    session.flush()
    job = AaJob(
        campaign_id=series_id,
        experiment_id=experiment.id,
        engine=spec.engine,
        judge=spec.judge,
        model=spec.model,
        model_fingerprint=series.model_fingerprint,
        device=spec.target,
        seed=spec.seed + series_id,
        configuration=knobs,
        metric=Metric(spec.plan.metric),
        workload=Workload.model_validate(spec.plan.workload.model_dump()),
        blocks=asked.blocks,
        pair=pair,
        prompts=asked.prompts(pair),
        alone=alone,
        beside=beside,
        at_once=series.spec[FOUND].get(AT_ONCE),
    )
    queue.enqueue(
        session,
        job.kind,
        job.model_dump(mode="json"),
        campaign_id=series_id,
        experiment_id=experiment.id,
        device_class=spec.target,
    )
    return experiment.id


def _document(asked: AaAsked) -> dict[str, object]:
    return {
        "configuration": dict(asked.configuration),
        "blocks": asked.blocks,
        "beside": list(asked.beside),
        "alone": asked.alone,
    }
