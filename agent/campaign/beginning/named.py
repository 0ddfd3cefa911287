"""What a campaign names, looked up before a row is written: engine, executor, judge, proposers, the sweep."""

from __future__ import annotations

from typing import cast

from agent.ground.sweep import swept
from agent.plan.further import further_of
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.registry import Port, check_registered, registered
from experiments.engines.port import Engine
from experiments.space.space import Space


def check_names(spec: CampaignSpec, space: Space, where: str) -> None:
    """Raise `UsageError` that names `where`, the field and the name for what is not there.

    Executor, judge and proposers are looked up among the entry points and not loaded, because some import
    much. The knobs that the baseline sweeps must be active in
    what it begins from.
    """
    names = [
        ("engine", Port.ENGINE, spec.engine),
        ("executor", Port.EXECUTOR, spec.executor),
        ("judge", Port.JUDGE, spec.judge),
        *((f"proposers.{at}", Port.PROPOSER, name) for at, name in enumerate(spec.proposers)),
    ]
    for field, port, name in names:
        try:
            check_registered(port, name)
        except UsageError as error:
            raise UsageError(f"{where}: {field}: {error.message}", error.hint) from None
    start, field = spec.baseline.start, "start"
    try:
        begun = space.with_change(space.configuration({}), {} if isinstance(start, str) else start)
        field = "sweep"
        swept(space, begun, spec.baseline.sweep)
    except UsageError as error:
        raise UsageError(f"{where}: baseline.{field}: {error.message}", error.hint) from None


def engine_of(spec: CampaignSpec, where: str) -> Engine:
    """The campaign's engine; raises `UsageError` when it can't be loaded or serves fewer requests at once."""
    engine = cast(Engine, registered(Port.ENGINE, spec.engine)())
    asked_at = [("plan.workload", spec.plan.workload.concurrency)]
    asked_at += [(f"further_workloads.{at}", each.concurrency) for at, each in enumerate(further_of(spec))]
    for field, asked in asked_at:
        _check_concurrency(spec, engine, f"{where}: {field}.concurrency", asked)
    return engine


def _check_concurrency(spec: CampaignSpec, engine: Engine, field: str, asked: int) -> None:
    if asked > engine.max_concurrency:
        option = f" (--concurrency {engine.max_concurrency})" if "plan.workload" in field else ""
        raise UsageError(
            f"{field} is {asked}, and the engine {spec.engine} serves at most "
            f"{engine.max_concurrency} at once.",
            f"Set it to {engine.max_concurrency}{option}.",
        )
