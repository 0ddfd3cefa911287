"""What a campaign on rented machines costs, told before anything is submitted: its baseline and its tests."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from agent.ground.drafter import space_of
from agent.plan.footing import Footing
from agent.plan.further import further_of
from agent.proposers.claims import unpredicted
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.quantities import format_usd
from configs.targets import device_there
from db.money import BudgetStanding, covering, microusd, refusal, usd
from db.states import BudgetScope
from experiments.executors.port import Executor
from experiments.job.longest import BUILT_BY
from experiments.job.spec import AnyJob, BaselineJob, Knobs, NoiseState, TestJob
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import StoppingPlan, Workload
from experiments.remote.quoting import Price
from experiments.space.configuration import KnobValue
from experiments.space.space import Space


@dataclass(frozen=True)
class Whole:
    """What a campaign costs as a whole, in millionths of a dollar: `expected` where one job follows the other
    until its budget of time ends, with so many `tests` after the baseline; `most` where that time is rented
    throughout and its dearest job begins last."""

    expected: int
    most: int
    tests: int


@dataclass(frozen=True)
class Prices:
    """The quotes of a campaign's jobs, before they are submitted: `builds` are of a test that prunes,
    quantizes or drafts, as far as the space has it."""

    target: str
    baseline: Price
    test: Price
    builds: Mapping[str, Price] = field(default_factory=dict)

    @property
    def building(self) -> Price | None:
        """The dearest of `builds`, None in a space that does none of it."""
        return max(self.builds.values(), key=lambda each: each.bound, default=None)

    @property
    def rows(self) -> tuple[tuple[str, Price], ...]:
        """Every kind of job in words, with its price."""
        return (
            ("baseline", self.baseline),
            ("test", self.test),
            *((f"test that builds for {lever}", price) for lever, price in self.builds.items()),
        )

    @property
    def to_first_verdict(self) -> int:
        """What a budget must have for a baseline that costs what is expected, and then a test; a run is
        submitted only where its bound has room. Millionths of a dollar."""
        return max(self.baseline.bound, self.baseline.expected + self.test.bound)

    def whole(self, wall_s: float) -> Whole:
        """What the campaign costs with a budget of so many seconds, one job at a time. Pure."""
        left_s = max(0.0, wall_s - self.baseline.expected_s)
        tests = math.ceil(left_s / self.test.expected_s) if self.test.expected_s > 0 else 0
        dearest = max(price.bound for _, price in self.rows)
        most = microusd(wall_s * max(price.usd_per_s for _, price in self.rows)) + dearest
        return Whole(min(most, self.baseline.expected + tests * self.test.expected), most, tests)

    @property
    def told(self) -> tuple[str, ...]:
        """The prices, and the budget that they need, in sentences."""
        building = "" if self.building is None else f", {_words(self.building)} where weights are built"
        return (
            f"on {self.target} the baseline costs {_words(self.baseline)}; a test {_words(self.test)}"
            f"{building} ({self.test.basis})",
            f"a first verdict needs a budget of {format_usd(usd(self.to_first_verdict))}: a job is submitted "
            "where its most has room, and what it cost less is free again when it ends",
        )


def prices_of(session: Session | None, spec: CampaignSpec, footing: Footing, executor: Executor) -> Prices:
    """Ask the executor what the campaign's jobs cost; submits nothing. Without a session as if nothing had
    run yet.

    Raises `ProviderUnreachable` where it can't tell, and `UsageError` for a GPU that has no price.
    """

    def price(job: AnyJob) -> Price:
        return footing.price(session, executor, job, spec.target)

    space = space_of(spec)
    default = dict(footing.begins_from(space))
    knobs = {knob.name: knob.values for knob in space.knobs if knob.name in BUILT_BY}
    builds = {
        name.partition(".")[0]: price(test_job(spec, footing, default, _changed(space, default, name, value)))
        for name, values in knobs.items()
        for value in [next((each for each in values if each != "none"), None)]
        if value is not None
    }
    return Prices(
        spec.target,
        price(_baseline(spec, footing, default)),
        price(test_job(spec, footing, default, default)),
        builds,
    )


def _changed(space: Space, begun: Knobs, name: str, value: KnobValue) -> Knobs:
    """The configuration with one knob changed, and what that brings along as the space has it; where the
    space has no such change, with the knob alone."""
    try:
        return dict(space.with_change(space.configuration(begun), {name: value}))
    except UsageError:
        return {**begun, name: value}


def check_affordable(
    session: Session,
    spec: CampaignSpec,
    prices: Prices,
    campaign_id: int | None = None,
    more_usd: float = 0.0,
) -> None:
    """Raise `UsageError` where no budget covers the campaign's jobs, or none of them has room for any.

    `campaign_id` is that of one that goes on, with `more_usd` added to its budget.
    """
    standings = standings_with(session, spec, spec.target, campaign_id, more_usd)
    if not standings:
        raise UsageError(
            f"No budget in dollars covers {spec.target}, so nothing may be submitted there. "
            f"{prices.told[0][0].upper()}{prices.told[0][1:]}.",
            f"Give it one: --budget-usd {usd(prices.to_first_verdict):.2f}, or for all campaigns: autoinfer "
            f"budget set --target {spec.target} USD",
        )
    least = min(prices.baseline.bound, prices.test.bound) if campaign_id else prices.baseline.bound
    why, _ = refusal(standings, spec.target, least, least)
    if why is None:
        return
    short = min(standings, key=lambda each: each.left)
    words = "--budget-usd" if short.id == 0 else short.words
    what = "Its next job" if campaign_id else "The baseline"
    raise UsageError(
        f"{what} costs {format_usd(usd(least))} at most on {spec.target}, and {words} has "
        f"{format_usd(usd(max(0, short.left)))}, so nothing could be submitted.",
        f"A first verdict needs {format_usd(usd(prices.to_first_verdict))}: give --budget-usd "
        f"{usd(prices.to_first_verdict):.2f}",
    )


def standings_with(
    session: Session, spec: CampaignSpec, target: str, campaign_id: int | None, more_usd: float
) -> list[BudgetStanding]:
    """The budgets that cover the campaign's jobs on a target, with what it is given now: all of its budget,
    or `more_usd` of one that goes on."""
    standings = covering(session, campaign_id, target)
    extra = microusd(more_usd)
    if campaign_id is not None and extra:
        standings = [_with(each, extra) if each.scope is BudgetScope.CAMPAIGN else each for each in standings]
    if not any(each.scope is BudgetScope.CAMPAIGN for each in standings):
        asked = extra if campaign_id is not None else microusd(spec.budget_usd or 0.0)
        if asked:
            name = str(campaign_id or 0)
            standings.append(BudgetStanding(0, BudgetScope.CAMPAIGN, name, asked, None, 0, 0))
    return standings


def _with(standing: BudgetStanding, more: int) -> BudgetStanding:
    return BudgetStanding(
        standing.id,
        standing.scope,
        standing.name,
        standing.limit + more,
        standing.approve_above,
        standing.spent,
        standing.reserved,
    )


def _words(price: Price) -> str:
    return f"{format_usd(price.bound_usd)} at most, expected {format_usd(price.expected_usd)}"


def _baseline(spec: CampaignSpec, footing: Footing, default: Knobs) -> BaselineJob:
    return BaselineJob(
        **_both(spec, footing),
        sweep=(default,),
        naive=default,
        metric=Metric(spec.plan.metric),
        workload=Workload.model_validate(spec.plan.workload.model_dump()),
    )


def test_job(spec: CampaignSpec, footing: Footing, control: Knobs, candidate: Knobs) -> TestJob:
    """A test such as the campaign's on its target, to be quoted."""
    metric = Metric(spec.plan.metric)
    plan = {
        **spec.plan.model_dump(),
        "prediction": unpredicted(metric, spec.plan.min_effect),
        "latency_only": spec.latency_only,
    }
    return TestJob(
        **_both(spec, footing),
        control=control,
        candidate=candidate,
        plan=StoppingPlan.model_validate(plan),
        preregistration_digest="",
        noise=NoiseState(target_key=footing.target_key),
        further=further_of(spec),
    )


def _both(spec: CampaignSpec, footing: Footing) -> dict[str, object]:
    parts: Mapping[str, object] = {
        "campaign_id": 0,
        "experiment_id": 0,
        "engine": spec.engine,
        "judge": spec.judge,
        "model": spec.model,
        "model_fingerprint": footing.fingerprint,
        "device": device_there(spec.devices[0]),
        "seed": spec.seed,
        "at_once": footing.at_once,
    }
    return dict(parts)
