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


@dataclass(frozen=True)
class Asked:
    """A campaign, and the place that it was read from, as errors name it."""

    spec: CampaignSpec
    where: str


def campaign_asked(name: str, options: Mapping[str, object], baseline: Sequence[str] = ()) -> Asked:
    """The campaign of this packaged name or file; `options` by its fields, None for one that was not given;
    `baseline` as `start_asked` takes it.

    On a GPU a packaged campaign, which is written for the CPU, is served by the GPU's engine in the space of
    that engine, unless the options name an engine. Raises `UsageError` as `load_campaign`, and for what is no
    target.
    """
    from configs.campaign import load_campaign
    from configs.catalog import Kind, packaged_names, read_document
    from configs.targets import serving_on

    target, engine = options.get("target"), options.get("engine")
    becomes: Mapping[str, object] = {}
    if isinstance(target, str):
        by_user = engine is not None or name not in packaged_names(Kind.CAMPAIGNS)
        becomes = serving_on(target, engine_named=by_user)
    given = {field: value for field, value in options.items() if value is not None}
    replaced = {**becomes, **given}
    spec = load_campaign(name, replaced)
    if baseline:
        spec = load_campaign(name, {**replaced, "baseline.start": start_asked(baseline, spec.space)})
    return Asked(spec, read_document(Kind.CAMPAIGNS, name).where)


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
