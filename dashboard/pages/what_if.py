"""What if: where the queue would go if one hypothesis were decided one way or the other."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field
from sqlalchemy.orm import Session

from agent.asking.assumed import EACH, Assumed, parse_assumed
from agent.asking.preview import read_without_shape
from agent.asking.what_if import Consequence, what_if_unranked
from agent.campaign.known.facts import Queued
from agent.ground.stored_checkpoint import CheckpointElsewhere
from configs.errors import UsageError
from dashboard.grounds import consequences, ground_of
from dashboard.page import ALWAYS_S, Filters, Ground, Page, Request
from db.labels import Noun, format_label, parse_label_of
from experiments.measurement.judging import Outcome
from knowledge.queries.lookup import campaign_of, newest_campaign
from knowledge.queries.view import View

MOST_CHOICES = 12
"""Hypotheses that are offered, the first in order."""


class WhatIfFilters(Filters):
    """Which hypothesis is decided, of which campaign."""

    campaign: str | None = Field(default=None, max_length=32)
    hypothesis: str | None = Field(
        default=None, max_length=32, description="The first in order if not given."
    )
    outcome: str | None = Field(
        default=None, max_length=16, description="supported, refuted or infeasible; each if not given."
    )
    saves: float | None = Field(
        default=None,
        gt=0,
        lt=100,
        description="What a supported one saves, in per cent; what is predicted if not given.",
    )

    @property
    def verdicts(self) -> tuple[Assumed, ...]:
        """What is assumed; raises `UsageError` for what can't be."""
        assumed = EACH if self.outcome is None else (parse_assumed(self.outcome),)
        return tuple(self._saving(each) for each in assumed)

    def _saving(self, assumed: Assumed) -> Assumed:
        if self.saves is None or assumed.outcome is not Outcome.SUPPORTED:
            return assumed
        return replace(assumed, change=-self.saves / 100)


class ChoiceView(View):
    """A hypothesis that may be taken."""

    id: str
    claim: str


class ShiftView(View):
    """A hypothesis that would move, from the place it has now, and why."""

    hypothesis: str
    claim: str
    from_rank: int | None
    to_rank: int | None
    why: str


class ConsequenceView(View):
    """What an outcome would do; `moved` counts all that move against the others, `leave` what goes, `next` is
    what would be tested next, and `is_best` whether the decided one would be the best so far."""

    outcome: str
    words: str
    shifts: tuple[ShiftView, ...]
    moved: int | None
    leave: tuple[str, ...]
    change: float | None
    next: ChoiceView | None
    is_best: bool


class WhatIfShown(View):
    """What each outcome would do; nothing is ranked yet without consequences, or there is no campaign.

    `unranked` says why nobody's place after it is known on this machine, and what to do: then a consequence
    has neither shifts (`moved` is None) nor what is next, and is as large as was predicted when proposed.
    `latency_only`: the weights of the campaign are made up.
    """

    campaign: str | None
    taken: ChoiceView | None
    choices: tuple[ChoiceView, ...]
    consequences: tuple[ConsequenceView, ...]
    unranked: str | None = None
    latency_only: bool = False


def read(session: Session, request: Request[WhatIfFilters], ground: Ground) -> WhatIfShown:
    """Rank the queue with each outcome assumed."""
    asked = request.filters
    verdicts = asked.verdicts
    number = None if asked.hypothesis is None else parse_label_of(Noun.HYPOTHESIS, asked.hypothesis)
    if asked.campaign is None and newest_campaign(session) is None:
        return WhatIfShown(campaign=None, taken=None, choices=(), consequences=())
    campaign_id = campaign_of(session, asked.campaign)
    label = format_label(Noun.CAMPAIGN, campaign_id)
    unranked = None
    try:
        desk = ground_of(session, campaign_id).desk
    except CheckpointElsewhere as error:
        unranked, desk = f"{error.message} {error.hint}", read_without_shape(session, campaign_id)
    if desk is None or not desk.facts.queue:
        return WhatIfShown(campaign=label, taken=None, choices=(), consequences=())
    claims = {each.id: each.claim for each in desk.facts.queue}
    order = stored_order(desk.facts.queue) if unranked else desk.ranking.order
    taken = order[0] if number is None else number
    if taken not in claims:
        raise UsageError(
            f"{format_label(Noun.HYPOTHESIS, taken)} does not wait in {label}.", "See: autoinfer queue"
        )
    if unranked:
        found = what_if_unranked(desk, taken, verdicts)
    else:
        found = consequences(session, campaign_id, taken, verdicts)
    return WhatIfShown(
        campaign=label,
        taken=_choice(taken, claims),
        choices=tuple(_choice(each, claims) for each in dict.fromkeys((*order[:MOST_CHOICES], taken))),
        consequences=tuple(_shown(each, claims) for each in found),
        unranked=unranked,
        latency_only=desk.facts.spec.latency_only,
    )


def stored_order(queue: Sequence[Queued]) -> tuple[int, ...]:
    """Hypotheses as they were ranked last, by id; those that never were stand at the end."""
    known = sorted(queue, key=lambda each: (each.rank is None, each.rank or 0, each.id))
    return tuple(each.id for each in known)


def _choice(number: int, claims: dict[int, str]) -> ChoiceView:
    return ChoiceView(id=format_label(Noun.HYPOTHESIS, number), claim=claims[number])


def _shown(found: Consequence, claims: dict[int, str]) -> ConsequenceView:
    return ConsequenceView(
        outcome=found.outcome.value,
        words=found.assumed.words,
        shifts=tuple(
            ShiftView(
                hypothesis=format_label(Noun.HYPOTHESIS, each.hypothesis_id),
                claim=claims[each.hypothesis_id],
                from_rank=each.from_place,
                to_rank=each.to_place,
                why=each.why,
            )
            for each in found.shifts
        ),
        moved=found.moved if found.ranked else None,
        leave=tuple(format_label(Noun.HYPOTHESIS, each) for each in found.leave),
        change=found.assumed.change,
        next=None if found.next_up is None else _choice(found.next_up, claims),
        is_best=found.is_best,
    )


def command(request: Request[WhatIfFilters]) -> str:
    """The same on the command line; of the first in order, which only the page takes by itself, the order."""
    asked = request.filters
    if asked.hypothesis is None:
        return "autoinfer queue" + (f" --campaign {shlex.quote(asked.campaign)}" if asked.campaign else "")
    verdict = "" if asked.outcome is None else f"={asked.outcome}"
    if asked.outcome == Outcome.SUPPORTED.value and asked.saves is not None:
        verdict += f":-{asked.saves:g}%"
    return f"autoinfer queue --what-if {shlex.quote(f'{asked.hypothesis}{verdict}')}"


PAGE = Page(
    name="what_if",
    title="What if",
    path="/queue/what-if",
    filters=WhatIfFilters,
    shows=WhatIfShown,
    read=read,
    command=command,
    kinds=(),
    lasts_s=ALWAYS_S,
)
