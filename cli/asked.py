"""The campaign that a command was asked for: a packaged one or a file, with what the options replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configs.campaign import CampaignSpec


@dataclass(frozen=True)
class Asked:
    """A campaign, and the place that it was read from, as errors name it."""

    spec: CampaignSpec
    where: str


def campaign_asked(name: str, options: Mapping[str, object]) -> Asked:
    """The campaign of this packaged name or file; `options` by its fields, None for one that was not given.

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
    return Asked(load_campaign(name, {**becomes, **given}), read_document(Kind.CAMPAIGNS, name).where)
