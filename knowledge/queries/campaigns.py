"""Campaigns: the list and one of them, with what became of its hypotheses and what it spent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.clock import now
from db.labels import Noun, format_label
from db.models import Campaign, Directive, Experiment, Hypothesis
from db.models.base import JsonObject
from db.states import CampaignState, DirectiveKind, ExperimentKind, HypothesisState
from knowledge.acts.approvals import approve_above_s, waits_in_queue
from knowledge.latency_only import latency_only
from knowledge.queries.at_work import in_a_word, interrupted_campaigns
from knowledge.queries.claims.discovery import DiscoveryView, Tally, tallied_view, tallies_of
from knowledge.queries.devices import AtRest, devices_of_campaign, shown_away
from knowledge.queries.left_alone import left_alone
from knowledge.queries.spent.built_ahead import BuiltAhead, built_ahead
from knowledge.queries.spent.energy import EnergyView, energy
from knowledge.queries.spent.untimed import UntimedView, untimed
from knowledge.queries.view import Page, View
from knowledge.stored import alpha_of, configuration_of

Found = TypeVar("Found", bound=View)

Counting = Callable[[Session, Sequence[int]], Mapping[int, tuple[Tally, ...]]]
"""Counts the tests of campaigns, as `tallies_of` does."""

NOT_KEPT = "why was not written down"
"""What stands for the reason of an older campaign that has none."""


class SpentView(View):
    """What a campaign spent: `experiment_s` is the time that its experiments took, without the `unfinished`,
    which have not ended, `wall_s` its own age while it ran. `untimed`, of one campaign alone, is what those
    and attempts that broke off took at least, `energy` what its cards took, None where it ran on none.
    `again` of them, for `again_s`, ran a test or a recipe once more on request, as after its end. `ahead`
    says what was built beside its baseline, and the time that took, which is none of an experiment; None
    where nothing was."""

    experiments: int
    experiment_s: float
    wall_s: float | None
    unfinished: int = 0
    again: int = 0
    again_s: float = 0.0
    ahead: str | None = None
    untimed: UntimedView = UntimedView()
    energy: EnergyView | None = None


class DirectiveView(View):
    """A directive that holds."""

    id: str
    kind: DirectiveKind
    lever: str | None
    hypothesis: str | None
    text: str
    event_id: int
    created_at: datetime


class HubView(View):
    """Where a model of the hub came from: `commit` is the full hash that `revision` stood for."""

    repo: str
    revision: str
    commit: str


class GpuView(View):
    """The GPU of a campaign's target, as its driver described it when the campaign began."""

    name: str
    memory_bytes: int
    compute_capability: str | None
    driver: str | None
    cuda_driver: int | None


class StartView(View):
    """What a campaign begins from, where that is not the engine's own default: `words` is what is set of it,
    `why` a clause, `told` the same whole. Of an older campaign, which kept no words, they are all knobs."""

    words: str
    why: str
    told: str


class CampaignView(View):
    """A campaign; `hypotheses` counts them by state, `discovery` is what the online control of false
    discoveries bounds. `hub` and `gpu` are None for a model and a target that are neither. What is expected
    to take more than `approve_above_s` waits for approval, `awaiting` now; None: nothing ever does.
    `latency_only`: the weights are made up, so that quality is not known and nothing is to be deployed.
    `interrupted`: it should go on, and nothing drives it. `devices` are those that it measures on,
    `devices_out` those of them that it has left out, `devices_at_rest` those that others use, or did when
    it was interrupted. `left_alone`, of one campaign alone, counts those hypotheses under test that nothing
    is done about, by the word for it, such as `test failed`."""

    id: str
    name: str
    model: str
    latency_only: bool
    model_fingerprint: str
    hub: HubView | None
    target: str
    gpu: GpuView | None
    begins_from: StartView | None
    devices: tuple[str, ...]
    devices_out: tuple[str, ...]
    devices_at_rest: tuple[AtRest, ...]
    state: CampaignState
    interrupted: bool
    stopped_because: str | None
    objective: JsonObject
    limits: JsonObject
    budget: JsonObject
    seed: int
    hypotheses: dict[str, int]
    spent: SpentView
    best_experiment: str | None
    discovery: DiscoveryView | None
    directives: tuple[DirectiveView, ...]
    approve_above_s: float | None
    awaiting: tuple[str, ...]
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    left_alone: dict[str, int] = Field(default_factory=dict)

    @property
    def standing(self) -> str:
        """Its state in a word, which is another one where it was interrupted."""
        return in_a_word(self.state.value, self.interrupted)

    @property
    def standings(self) -> dict[str, int]:
        """Its hypotheses by the word for where they stand: those of `left_alone` are not counted as under
        test."""
        left = {HypothesisState.TESTING.value: -sum(self.left_alone.values()), **self.left_alone}
        words = sorted({*self.hypotheses, *self.left_alone})
        counts = {word: self.hypotheses.get(word, 0) + left.get(word, 0) for word in words}
        return {word: count for word, count in counts.items() if count > 0}


_Page = Page[CampaignView]  # made once: pydantic forgets what nobody holds


def list_campaigns(
    session: Session, *, limit: int, offset: int = 0, discovery: bool = True
) -> Page[CampaignView]:
    """Return campaigns, newest first; without what bounds false discoveries, which reads every test, if so
    asked."""
    total = session.scalar(select(func.count()).select_from(Campaign)) or 0
    query = select(Campaign).order_by(Campaign.id.desc()).limit(limit).offset(offset)
    found = session.scalars(query).all()
    return _Page(
        items=_views(session, found, tallies_of if discovery else None),
        total=total,
        limit=limit,
        offset=offset,
    )


def campaign_detail(session: Session, campaign_id: int, tallies: Counting = tallies_of) -> CampaignView:
    """Return one campaign, which must exist; its tests are counted by `tallies`."""
    found = _views(session, [session.get_one(Campaign, campaign_id)], tallies)[0]
    beside = {"untimed": untimed(session, campaign_id), "energy": energy(session, campaign_id)}
    spent = found.spent.model_copy(update=beside)
    found = found.model_copy(update={"spent": spent})
    if not found.hypotheses.get(HypothesisState.TESTING.value):
        return found
    testing = session.scalars(
        select(Hypothesis.id).where(
            Hypothesis.campaign_id == campaign_id,
            Hypothesis.state == HypothesisState.TESTING,
            Hypothesis.target == "",
        )
    ).all()
    words = Counter(each.word for each in left_alone(session, testing).values())
    return found.model_copy(update={"left_alone": dict(words)})


def _views(
    session: Session, campaigns: Sequence[Campaign], tallies: Counting | None
) -> tuple[CampaignView, ...]:
    ids = [campaign.id for campaign in campaigns]
    states: dict[int, dict[str, int]] = defaultdict(dict)
    by_state = (
        select(Hypothesis.campaign_id, Hypothesis.state, func.count())
        .where(Hypothesis.target == "")
        .where(Hypothesis.campaign_id.in_(ids))
        .group_by(Hypothesis.campaign_id, Hypothesis.state)
    )
    for campaign_id, state, count in session.execute(by_state):
        states[campaign_id][state.value] = count
    again = Experiment.kind == ExperimentKind.REPRODUCE
    spent_query = (
        select(
            Experiment.campaign_id,
            func.count(),
            func.coalesce(func.sum(Experiment.wall_s), 0.0),
            func.count().filter(Experiment.finished_at.is_(None)),
            func.count().filter(again),
            func.coalesce(func.sum(Experiment.wall_s).filter(again), 0.0),
        )
        .where(Experiment.campaign_id.in_(ids), Experiment.started_at.is_not(None))
        .group_by(Experiment.campaign_id)
    )
    spent = {campaign_id: tuple(sums) for campaign_id, *sums in session.execute(spent_query)}
    directives = _directives(session, ids)
    waiting = _awaiting(session, [each for each in campaigns if approve_above_s(each.budget) is not None])
    tested = {} if tallies is None else tallies(session, ids)
    present = session.scalars(select(now())).one()
    away = shown_away(session, campaigns, present)
    interrupted = interrupted_campaigns(session, campaigns, present)
    several = [each.id for each in campaigns if len(devices_of_campaign(each)) > 1]
    ahead = built_ahead(session, several, present) if several else {}
    return tuple(
        CampaignView(
            id=format_label(Noun.CAMPAIGN, each.id),
            name=each.name,
            model=each.model,
            latency_only=latency_only(each.spec),
            model_fingerprint=each.model_fingerprint,
            hub=_found(HubView, each, "hub"),
            target=each.target,
            gpu=_found(GpuView, each, "gpu"),
            begins_from=_begins_from(each),
            devices=devices_of_campaign(each),
            devices_out=tuple(one for one in devices_of_campaign(each) if one in away[each.id].out),
            devices_at_rest=away[each.id].at_rest,
            state=each.state,
            interrupted=each.id in interrupted,
            stopped_because=each.stopped_because,
            objective=each.objective,
            limits=each.limits,
            budget=each.budget,
            seed=each.seed,
            hypotheses=states[each.id],
            spent=_spent(
                each,
                spent.get(each.id, (0, 0.0, 0, 0, 0.0)),
                present,
                ahead.get(each.id, BuiltAhead()).words,
            ),
            best_experiment=None
            if each.best_experiment_id is None
            else format_label(Noun.EXPERIMENT, each.best_experiment_id),
            discovery=None
            if tallies is None or (alpha := alpha_of(each.spec)) is None
            else tallied_view(tested[each.id], alpha),
            directives=directives[each.id],
            approve_above_s=approve_above_s(each.budget),
            awaiting=waiting[each.id],
            created_at=each.created_at,
            started_at=each.started_at,
            ended_at=each.ended_at,
        )
        for each in campaigns
    )


def _found(view: type[Found], campaign: Campaign, name: str) -> Found | None:
    """What a stored campaign keeps of its ground under a name; None where it keeps nothing that this version
    reads: an older row is shown without it, and stands in the way of no list."""
    kept = _kept(campaign, name)
    try:
        return None if kept is None else view.model_validate(kept)
    except ValidationError:
        return None


def _begins_from(campaign: Campaign) -> StartView | None:
    kept = _kept(campaign, "start")
    if kept is None:
        return None
    words = str(kept.get("words") or configuration_of(kept.get("configuration") or {}))
    return StartView(words=words, why=kept.get("why") or NOT_KEPT, told=kept.get("told") or words)


def _kept(campaign: Campaign, name: str) -> JsonObject | None:
    ground = campaign.spec.get("found")
    kept = ground.get(name) if isinstance(ground, dict) else None
    return kept if isinstance(kept, dict) else None


def _spent(campaign: Campaign, sums: tuple[Any, ...], present: datetime, ahead: str | None) -> SpentView:
    wall_s = None
    if campaign.started_at is not None:
        wall_s = ((campaign.ended_at or present) - campaign.started_at).total_seconds()
    experiments, experiment_s, unfinished, again, again_s = sums
    return SpentView(
        experiments=experiments,
        experiment_s=experiment_s,
        wall_s=wall_s,
        unfinished=unfinished,
        again=again,
        again_s=again_s,
        ahead=ahead,
    )


def _directives(session: Session, ids: Sequence[int]) -> Mapping[int, tuple[DirectiveView, ...]]:
    found: dict[int, tuple[DirectiveView, ...]] = defaultdict(tuple)
    query = select(Directive).where(Directive.campaign_id.in_(ids), Directive.active).order_by(Directive.id)
    for each in session.scalars(query):
        found[each.campaign_id] += (directive_view(each),)
    return found


def _awaiting(session: Session, campaigns: Sequence[Campaign]) -> Mapping[int, tuple[str, ...]]:
    """What waits for approval, by campaign, in its order; nothing is asked where nothing ever waits."""
    found: dict[int, tuple[str, ...]] = defaultdict(tuple)
    if not campaigns:
        return found
    query = select(Hypothesis.campaign_id, Hypothesis.id).where(
        Hypothesis.campaign_id.in_([each.id for each in campaigns]), waits_in_queue()
    )
    for campaign_id, number in session.execute(query.order_by(Hypothesis.rank)):
        found[campaign_id] += (format_label(Noun.HYPOTHESIS, number),)
    return found


def directive_view(directive: Directive) -> DirectiveView:
    """Return the view of a stored directive."""
    return DirectiveView(
        id=format_label(Noun.DIRECTIVE, directive.id),
        kind=directive.kind,
        lever=directive.lever,
        hypothesis=None
        if directive.hypothesis_id is None
        else format_label(Noun.HYPOTHESIS, directive.hypothesis_id),
        text=directive.text,
        event_id=directive.event_id,
        created_at=directive.created_at,
    )
