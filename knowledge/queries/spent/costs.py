"""What was spent: the time of experiments by campaign, target, day, outcome and lever; a fixed number of
statements, summed by the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import BigInteger, func, select, text, type_coerce
from sqlalchemy.orm import Session

from db.labels import Noun, format_label
from db.models import Campaign, Experiment, Hypothesis, Verdict
from knowledge.queries.spent.energy import EnergyView, energy
from knowledge.queries.spent.money import EPOCH, MoneyView, money
from knowledge.queries.spent.saved_time import SavedView, saved_sentence, saved_time
from knowledge.queries.spent.untimed import UntimedView, untimed
from knowledge.queries.view import View

DAY_MS = 86_400_000
BASIS = (
    "Machine time: seconds on the clock from the start of an experiment to its end, with loading, building "
    "and scoring, without a campaign's time between its experiments. Of one that has not ended, and of an "
    "attempt that broke off, is known only how long it was heard of, which no sum counts. A quote is what a "
    "test takes if all of its plan is measured, by the baseline's speed; an estimate is what the ranking "
    "expected when it began. Time on your own machines has no price here; dollars of rented ones stand "
    "apart."
)
"""How time is counted."""

MOST_DAYS = 60
"""Days told at most, the newest; sums are over all."""


class CostRow(View):
    """A group of experiments that began: `spent_s` is the time they took, without the `unfinished`, which
    have not ended, and `estimated_s` what the ranking expected of those `estimated` that ended and whose
    hypothesis it had priced, which took `estimated_spent_s`; `quoted_s` is what those `quoted` of them would
    take if all of their plan were measured, which took `quoted_spent_s`."""

    name: str
    experiments: int = 0
    unfinished: int = 0
    spent_s: float = 0.0
    quoted: int = 0
    quoted_s: float = 0.0
    quoted_spent_s: float = 0.0
    estimated: int = 0
    estimated_s: float = 0.0
    estimated_spent_s: float = 0.0


class CostsView(View):
    """Time spent, grouped; days are of UTC, newest first. `saved_s` is what stopping early saved against the
    plans of the `timed` experiments that tell both, of which `timed_again` ran something once more, by the
    clock or, as `saved_by_clock` says and the `older` ones do, by the time of launches (`SavedView`).
    `untimed` is what experiments that have not ended and attempts that broke off took at least, which no sum
    has; `energy` is what cards took, None where nothing ran on one. Everything is time of machines; `basis`
    says how it is counted. `money` is what rented machines cost."""

    total: CostRow
    timed: int
    timed_again: int = 0
    older: int = 0
    saved_by_clock: bool = False
    planned_s: float
    saved_s: float
    campaigns: tuple[CostRow, ...]
    targets: tuple[CostRow, ...]
    days: tuple[CostRow, ...]
    outcomes: tuple[CostRow, ...]
    levers: tuple[CostRow, ...]
    money: MoneyView
    untimed: UntimedView = UntimedView()
    energy: EnergyView | None = None
    basis: str = BASIS

    @property
    def saved(self) -> str | None:
        """What stopping early saved, as a sentence; None where nothing that was timed tells it."""
        return saved_sentence(
            SavedView(
                experiments=self.timed,
                again=self.timed_again,
                older=self.older,
                by_clock=self.saved_by_clock,
                planned_s=self.planned_s,
                saved_s=self.saved_s,
            )
        )


def costs(session: Session, campaign_id: int | None = None) -> CostsView:
    """Return what the experiments of a campaign, or of all, cost."""
    paid = money(session, campaign_id)
    named = {row.id: row.name for row in session.execute(select(Campaign.id, Campaign.name))}
    groups, early = _groups(session, campaign_id), saved_time(session, campaign_id)

    def rows(key: int, name: Callable[[Any], str]) -> tuple[CostRow, ...]:
        found = _summed(groups, key, name)
        return tuple(sorted(found, key=lambda row: (-row.spent_s, row.name)))

    days = _summed(groups, 2, lambda day: (EPOCH + timedelta(days=day)).isoformat())
    return CostsView(
        total=next(iter(_summed(groups, 0, lambda _: "all")), CostRow(name="all")),
        timed=early.experiments,
        timed_again=early.again,
        older=early.older,
        saved_by_clock=early.by_clock,
        planned_s=early.planned_s,
        saved_s=early.saved_s,
        campaigns=rows(0, lambda key: f"{format_label(Noun.CAMPAIGN, key)} {named[key]}"),
        targets=rows(1, str),
        days=tuple(sorted(days, key=lambda row: row.name, reverse=True)[:MOST_DAYS]),
        outcomes=rows(3, lambda key: "no verdict" if key is None else str(key.value)),
        levers=rows(4, lambda key: "no hypothesis" if key is None else str(key)),
        money=paid,
        untimed=untimed(session, campaign_id),
        energy=energy(session, campaign_id, windows=campaign_id is not None),
    )


KEYS = 5
"""What the groups are told apart by: campaign, target, day, outcome, lever."""


SUMMED = (
    "experiments",
    "unfinished",
    "spent_s",
    "quoted",
    "quoted_s",
    "quoted_spent_s",
    "estimated",
    "estimated_s",
    "estimated_spent_s",
)
"""What is summed, as `_groups` has it behind the keys: the fields of `CostRow`."""


def _groups(session: Session, campaign_id: int | None) -> Sequence[Any]:
    """The keys, experiments, seconds, and of those with a quote, then of those with an estimate: how many,
    what was said, what they took."""
    took = Experiment.wall_s
    said = [Hypothesis.score[name].as_float() for name in ("most_s", "cost_s")]
    keys = (
        Experiment.campaign_id,
        Experiment.target,
        (type_coerce(Experiment.started_at, BigInteger) // DAY_MS).label("day"),
        Verdict.outcome,
        Hypothesis.lever,
    )
    query = (
        select(
            *keys,
            func.count(),
            func.count().filter(Experiment.finished_at.is_(None)),
            func.coalesce(func.sum(took), 0.0),
            *(
                figure
                for each in said
                for figure in (
                    func.count(each + took),
                    func.coalesce(func.sum(each + 0 * took), 0.0),
                    func.coalesce(func.sum(took + 0 * each), 0.0),
                )
            ),
        )
        .select_from(Experiment)
        .outerjoin(Hypothesis, Hypothesis.id == Experiment.hypothesis_id)
        .outerjoin(Verdict, Verdict.experiment_id == Experiment.id)
        .where(Experiment.started_at.is_not(None))
        .group_by(Experiment.campaign_id, Experiment.target, text("day"), Verdict.outcome, Hypothesis.lever)
    )
    if campaign_id is not None:
        query = query.where(Experiment.campaign_id == campaign_id)
    return session.execute(query).all()


def _summed(groups: Sequence[Any], key: int, name: Callable[[Any], str]) -> Iterable[CostRow]:
    """The groups summed over all keys but one."""
    found: dict[str, list[float]] = {}
    for group in groups:
        sums = found.setdefault(name(group[key]), [0.0] * len(SUMMED))
        for place, value in enumerate(group[KEYS:]):
            sums[place] += value
    return [_row(each, sums) for each, sums in found.items()]


def _row(name: str, sums: Sequence[float]) -> CostRow:
    return CostRow.model_validate({"name": name, **dict(zip(SUMMED, sums, strict=True))})
