"""Enqueue: a form that knows the space, and says what would become of a hypothesis before it is sent."""

from __future__ import annotations

import shlex

from pydantic import Field
from sqlalchemy.orm import Session

from agent.asking.preview import Ground as Previewed
from agent.asking.preview import preview, same_hypotheses
from agent.ground.stored_checkpoint import CheckpointElsewhere
from agent.proposers.user import Enqueued
from configs.errors import UsageError
from dashboard.grounds import ground_of
from dashboard.page import Filters, Ground, Page, Request
from db.labels import Noun, format_label
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob, same_value, written
from knowledge.queries.lookup import campaign_of, newest_campaign
from knowledge.queries.view import ChangeView, EffectView, View, changes_between, prediction_view

MOST_SETS = 64
VOID = ("withdrawn",)
"""States in which an earlier hypothesis is no obstacle to asking again."""

CLAIM = "It is faster."
"""Stands for a claim that is not written yet, so that the change itself can be looked at."""


class EnqueueFilters(Filters):
    """The form as far as it is filled in; `set` holds `KNOB=VALUE`, as `--set` does."""

    campaign: str | None = Field(default=None, max_length=32)
    claim: str | None = Field(default=None, max_length=500)
    set: list[str] = Field(default=[], max_length=MOST_SETS)
    expect: str | None = Field(default=None, max_length=40)
    min_effect: str | None = Field(default=None, max_length=20)
    why: str | None = Field(default=None, max_length=1000)
    pin: bool = False


class OptionView(View):
    """A value of a knob: `assignment` is what the form sends, empty for the value it has now."""

    assignment: str
    text: str
    chosen: bool


class KnobView(View):
    """A knob that is legal now, with its values; `fresh` ones became so by what was chosen."""

    name: str
    lever: str
    help: str
    options: tuple[OptionView, ...]
    also: str
    fresh: bool


class PreviewView(View):
    """What would become of it: `rank` of `queued` in the queue; None before the baseline is measured."""

    change: tuple[ChangeView, ...]
    lever: str
    predicted: EffectView | None
    min_effect: float
    rank: int | None
    queued: int
    reason: str | None
    cost_s: float | None
    duplicate: str | None
    duplicate_state: str | None


class EnqueueShown(View):
    """The form's knobs and, once something is changed, its preview or why it can't be.

    `campaign` None: there is none yet, and so no knob. A refusal without a knob says that this machine can't
    tell which there are. `metric` is what the campaign is about, on which an effect is expected.
    """

    campaign: str | None = None
    metric: str | None = None
    against: str = ""
    knobs: tuple[KnobView, ...] = ()
    preview: PreviewView | None = None
    refusal: str | None = None
    hint: str | None = None


def read(session: Session, request: Request[EnqueueFilters], ground: Ground) -> EnqueueShown:
    """Read the space, and what would become of what is filled in."""
    asked = request.filters
    if asked.campaign is None and newest_campaign(session) is None:
        return EnqueueShown()
    campaign_id = campaign_of(session, asked.campaign)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    try:
        known = ground_of(session, campaign_id)
    except CheckpointElsewhere as error:
        return EnqueueShown(campaign=label, refusal=error.message, hint=error.hint)
    wanted = tuple(each for each in asked.set if each.strip())
    candidate, sets, refusal, hint = _chosen(known, wanted)
    shown = None
    if sets and refusal is None:
        try:
            shown = _preview(session, campaign_id, known, asked, sets)
        except UsageError as error:
            refusal, hint = error.message, error.hint
    best = known.desk.incumbent.hypothesis_id if known.desk is not None else None
    return EnqueueShown(
        campaign=label,
        metric=known.facts.objective.value,
        against="the engine's own default, until the baseline is measured"
        if known.desk is None
        else "the baseline"
        if best is None
        else f"the best so far, {format_label(Noun.HYPOTHESIS, best)}",
        knobs=_knobs(known, candidate, sets),
        preview=shown,
        refusal=refusal,
        hint=hint,
    )


def _chosen(
    known: Previewed, wanted: tuple[str, ...]
) -> tuple[Configuration, tuple[str, ...], str | None, str | None]:
    """The configuration that the assignments lead to, those that count, and why the rest can't be.

    What a later choice made meaningless is left out, as its field is gone from the form.
    """
    space, control = known.legal.space, known.control
    sets = wanted
    while True:
        try:
            return space.with_change(control, space.parse_assignments(sets)), sets, None, None
        except UsageError as error:
            idle = [
                each for each in sets if not _is_active(known, each, [one for one in sets if one != each])
            ]
            if not idle:
                return control, sets, error.message, error.hint
            sets = tuple(each for each in sets if each not in idle)


def _is_active(known: Previewed, assignment: str, others: list[str]) -> bool:
    """Whether the others leave this assignment's knob a meaning; a faulty one counts, so that it is told."""
    space = known.legal.space
    try:
        name, _ = space.parse_assignment(assignment)
        result = space.with_change(known.control, space.parse_assignments(others))
    except UsageError:
        return True
    return any(knob.name == name for knob in space.active(result))


def _knobs(known: Previewed, candidate: Configuration, sets: tuple[str, ...]) -> tuple[KnobView, ...]:
    space, control = known.legal.space, known.control
    before = {knob.name for knob in space.active(control)}
    chosen = {each.partition("=")[0].strip() for each in sets}
    return tuple(
        KnobView(
            name=knob.name,
            lever=knob.lever,
            help=knob.help,
            options=_options(knob, control.get(knob.name), candidate.get(knob.name), knob.name in chosen),
            also=knob.also_like if knob.also is not None else "",
            fresh=knob.name not in before,
        )
        for knob in space.active(candidate)
    )


def _options(
    knob: Knob, now: KnobValue | None, chosen: KnobValue | None, is_set: bool
) -> tuple[OptionView, ...]:
    held = now if now is not None else knob.default
    values = [*knob.values]
    if chosen is not None and not any(same_value(chosen, each) for each in values):
        values.append(chosen)
    return tuple(
        OptionView(
            assignment=""
            if held is not None and same_value(value, held)
            else f"{knob.name}={written(value)}",
            text=written(value),
            chosen=chosen is not None and same_value(value, chosen if is_set or now is not None else held),
        )
        for value in values
    )


def _preview(
    session: Session, campaign_id: int, known: Previewed, asked: EnqueueFilters, sets: tuple[str, ...]
) -> PreviewView:
    found = preview(
        known, Enqueued(asked.claim or CLAIM, sets, asked.expect, asked.min_effect, asked.why, asked.pin)
    )
    metric = known.facts.objective.value
    earlier = [
        each
        for each in same_hypotheses(session, campaign_id, found.control, found.candidate, metric)
        if each[1] not in VOID
    ]
    place = found.place
    return PreviewView(
        change=changes_between(dict(found.control), dict(found.candidate)),
        lever=found.lever,
        predicted=prediction_view(found.prediction.model_dump(), metric) if found.known else None,
        min_effect=found.min_effect,
        rank=None if place is None else place.place,
        queued=len(known.facts.queue) + 1,
        reason=None if place is None else place.reason,
        cost_s=None if place is None else place.cost_s,
        duplicate=format_label(Noun.HYPOTHESIS, earlier[0][0]) if earlier else None,
        duplicate_state=earlier[0][1] if earlier else None,
    )


def command(request: Request[EnqueueFilters]) -> str:
    """The same act on the command line."""
    asked = request.filters
    words = ["autoinfer enqueue", shlex.quote(asked.claim or "CLAIM")]
    words += [f"--set {shlex.quote(each)}" for each in asked.set if each.strip()] or ["--set KNOB=VALUE"]
    for option in ("expect", "min_effect", "why", "campaign"):
        if (value := getattr(asked, option)) is not None:
            words.append(f"--{option.replace('_', '-')} {shlex.quote(value)}")
    return " ".join([*words, *(["--pin"] if asked.pin else [])])


PAGE = Page(
    name="enqueue",
    title="Enqueue",
    path="/enqueue",
    filters=EnqueueFilters,
    shows=EnqueueShown,
    read=read,
    command=command,
    kinds=(),
)
