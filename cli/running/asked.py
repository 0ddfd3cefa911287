"""The campaign that a command was asked for: a packaged one or a file, with what the options replace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configs.campaign import CampaignSpec
    from experiments.space.configuration import KnobValue

STARTS = ("auto", "default")
"""Words in place of knobs: what the memory allows, and the engine's own default in any case."""


UNNAMED = "default"
"""The packaged campaign that runs where none is named."""


@dataclass(frozen=True)
class Asked:
    """A campaign, and the place that it was read from, as errors name it.

    `raises_budget`: nobody said how long it may take, for it is a packaged campaign on another model, engine,
    workload or kind of target than it was written for, so its plan may say so.
    """

    spec: CampaignSpec
    where: str
    raises_budget: bool = False


def campaign_asked(name: str, options: Mapping[str, object], baseline: Sequence[str] = ()) -> Asked:
    """The campaign of this packaged name or file; `options` by its fields, None for one that was not given;
    `baseline` as `start_asked` takes it.

    A packaged campaign is written for the CPU and the reference engine: on a GPU it is served by the GPU's
    engine, or, anywhere, by the one that the options name, in the space of that engine. A file's own word
    holds; what it takes from a packaged one that it is like goes by the options too. `default`, which runs
    where no campaign is named, asks for longer requests on a GPU. Raises `UsageError` as
    `load_campaign`, for what is no target, and for a packaged campaign that is made for a GPU on a CPU.
    """
    from configs.campaign import load_campaign
    from configs.catalog import Kind, packaged_names, read_document
    from configs.targets import serving_on, workload_on

    becomes: dict[str, object] = {}
    packaged = load_campaign(name) if name in packaged_names(Kind.CAMPAIGNS) else None
    if packaged is not None:
        target = options.get("target") or packaged.target
        engine = options.get("engine")
        _check_made_for(packaged, str(target), engine)
        becomes = serving_on(str(target), None if engine is None else str(engine))
        if name == UNNAMED:
            becomes |= workload_on(str(target))
    given = {field: value for field, value in options.items() if value is not None}
    replaced = {**becomes, **given}
    spec = load_campaign(name, replaced)
    if baseline:
        spec = load_campaign(name, {**replaced, "baseline.start": start_asked(baseline, spec.space)})
    elsewhere = packaged is not None and _written_for(spec) != _written_for(packaged)
    raises_budget = elsewhere and options.get("budget") is None and not spec.rented
    return Asked(spec, read_document(Kind.CAMPAIGNS, name).where, raises_budget)


def _check_made_for(packaged: CampaignSpec, target: str, engine: object) -> None:
    """Raise `UsageError` where a packaged campaign that is made for a GPU is asked for on a CPU, and nobody
    names the engine that is to serve it there."""
    from configs.errors import UsageError
    from configs.targets import CPU, kind_of

    if engine is not None or kind_of(target) != CPU or kind_of(packaged.target) == CPU:
        return
    of = "a model by its shape alone" if packaged.latency_only else "a model"
    raise UsageError(
        f"The packaged campaign {packaged.name} is made for a GPU, where it asks what is fastest for {of} "
        f"with the engine {packaged.engine}; {target} is no GPU.",
        f"Run here: autoinfer run --target {target}, with --model for a model of your own; or name a GPU: "
        f"autoinfer run {packaged.name} --target {packaged.target}",
    )


def _written_for(spec: CampaignSpec) -> tuple[object, ...]:
    """By what the time of a campaign goes: its model, its engine, the kind of its target, its requests."""
    from configs.campaign_plan import FurtherWorkloadSpec

    asks = FurtherWorkloadSpec().beside(spec.plan.workload).asks
    return spec.model, spec.latency_only, spec.engine, spec.target.partition(":")[0], asks


def start_asked(words: Sequence[str], space: str) -> str | dict[str, KnobValue]:
    """What a campaign is to begin from: a word of `STARTS`, or assignments `KNOB=VALUE` in a space.

    Raises `UsageError` for a word beside others, and for what the space does not have.
    """
    from configs.errors import UsageError
    from experiments.space.loading import parse_assignments_in

    word = next((each for each in words if each in STARTS), None)
    if word is None:
        return parse_assignments_in(space, words)
    if len(words) > 1:
        raise UsageError(
            f"--baseline {word} stands beside another --baseline.",
            f"Give {word} alone, or the knobs that differ from the default.",
        )
    return word
