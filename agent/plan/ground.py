"""What a campaign stands on, as a value and as it is stored: checkpoint, target, what it begins from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.ground.stored_spec import AT_ONCE, GPU, HUB, START, THEN, is_packaged
from agent.plan.start import Start
from agent.plan.tools_there import MissingTool
from configs.campaign import CampaignSpec
from experiments.space.configuration import Configuration
from experiments.space.space import Space


@dataclass(frozen=True)
class Ground:
    """What a campaign stands on: the checkpoint's folder and content, the target, the cores, the layers, and
    the folder of its own drafter, absolute, where it was given one.

    `warning` is what the user should know before it begins, in sentences: a baseline above the budget, what
    can't be quantized or ranked on the target's GPU, whose tools are `missing`. `hub` tells of a model of the
    hub (`repo`, `revision`, `commit`), `gpu` what the device is; `note` is what to say of how the checkpoint
    was found. `at_once` is the most launches that may be up at once, 1 where they run in turn, None for as
    many as a step asks for. `devices` are those that the target was found to name, the baseline's first;
    empty for what it says itself.
    """

    checkpoint: Path
    fingerprint: str
    target_key: str
    cores: int
    model_layers: tuple[str, ...]
    drafter: str | None = None
    warning: str | None = None
    missing: tuple[MissingTool, ...] = ()
    hub: Mapping[str, str] | None = None
    gpu: Mapping[str, object] | None = None
    note: str | None = None
    at_once: int | None = None
    devices: tuple[str, ...] = ()
    start: Start | None = None
    """What it begins from; None: the engine's own default."""

    def begins_from(self, space: Space) -> Configuration:
        """The configuration that the campaign's sweep starts at."""
        return space.configuration({}) if self.start is None else self.start.configuration

    @property
    def start_told(self) -> str | None:
        """What to say of what it begins from; None of the engine's own default."""
        return None if self.start is None else self.start.told


def found_on(ground: Ground) -> dict[str, object]:
    """What a stored campaign keeps of its ground, beside what was asked for."""
    return {
        "target_key": ground.target_key,
        "cores": ground.cores,
        "model_layers": list(ground.model_layers),
        "checkpoint": str(ground.checkpoint),
        **({} if ground.hub is None else {HUB: dict(ground.hub)}),
        **({} if ground.gpu is None else {GPU: dict(ground.gpu)}),
        **({} if ground.at_once is None else {AT_ONCE: ground.at_once}),
        **({} if ground.start is None or ground.start.is_default else {START: _as_found(ground.start)}),
    }


def _as_found(start: Start) -> dict[str, object]:
    return {
        "configuration": dict(start.configuration),
        "words": start.words,
        "why": start.refused,
        "told": start.told,
        **({} if start.then is None else {THEN: _as_found(start.then)}),
    }


def spec_on(spec: CampaignSpec, ground: Ground) -> CampaignSpec:
    """What was asked for with the folders and devices that were found in place of what was typed, as
    `stored_spec` has it."""
    model = spec.model if is_packaged(spec.model, spec.weights) else str(ground.checkpoint)
    found = {"model": model, "drafter": ground.drafter, "target": target_on(spec, ground)}
    return spec.model_copy(update=found)


def target_on(spec: CampaignSpec, ground: Ground) -> str:
    """The target with every device by its own name."""
    return ",".join(ground.devices) or spec.target
