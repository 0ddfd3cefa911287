"""A campaign without weights: the shape that stands for its checkpoint, and what is not proposed on it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from agent.ground.checkpoint import Checkpoint, find_checkpoint
from configs.campaign import CampaignSpec
from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from configs.models import ModelProfile, load_model_profile
from configs.questions import is_latency
from experiments.engines.port import Engine
from experiments.engines.reference.shape import read_profile
from experiments.engines.stored_bytes import QUANTIZED_METHODS
from experiments.shapes.config import shape_config
from experiments.shapes.folder import write_shape
from experiments.shapes.marker import drafter_of_shape, is_shape
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Same, same_value, written
from experiments.space.legality import QUANTIZATION
from experiments.space.space import Space

PROFILE_FILES = (".yaml", ".yml")

SHAPES = "shapes"
"""Folder of the data that holds the shapes of campaigns."""

DIGEST_DIGITS = 12

NOT_PROPOSED = {
    "drafting.method": (
        "Which drafts are accepted is set where the weights are made up, so no drafting can be supported; "
        "its step time and the acceptance at which it breaks even are told where you ask: autoinfer enqueue"
    ),
    "pruning.method": (
        "Fewer layers take less time, and whether the model bears it only weights can tell; "
        "where you want the time, ask for it: autoinfer enqueue"
    ),
}
"""Why the agent itself changes neither drafting nor layers of a shape, by the knob that does."""


NOTHING_CALIBRATED = "Nothing is calibrated where the weights are made up: every value gives the same shape."
NOTHING_RANKED = "No layers are ranked where the weights are made up: every value gives the same shape."
NOTHING_REPEATS = "What repeats in a text that made-up weights say means nothing."
HEAD_IS_EMBEDDING = "This model's head is its embedding, which a shape keeps in 16 bits."

WITHOUT_MEANING = {
    "quantization.corpus": NOTHING_CALIBRATED,
    "quantization.samples": NOTHING_CALIBRATED,
    "quantization.sample_tokens": NOTHING_CALIBRATED,
    "quantization.seed": NOTHING_CALIBRATED,
    "pruning.criterion": NOTHING_RANKED,
    "pruning.ranked_on": NOTHING_RANKED,
    "pruning.order": NOTHING_RANKED,
}
"""Knobs whose values are all one on a shape, and why: a test of two of them would take loads for nothing."""


def find_shape(model: str, folder: Path) -> Checkpoint:
    """The shape of a model, below `folder`: of a packaged profile, a profile's YAML file, or what the
    config.json of a checkpoint folder or of a model of the hub tells, of which no weights are fetched.

    A folder that is a shape stands for itself, as it does for a campaign that goes on. Raises
    `AutoinferError` with what to do for what is not there or is no Qwen3.5.
    """
    given = Path(model).expanduser()
    if is_shape(given):
        return Checkpoint(given.resolve())
    profile = _profile(model)
    config = json.dumps(shape_config(profile, None), sort_keys=True).encode()
    digest = hashlib.sha256(config).hexdigest()[:DIGEST_DIGITS]
    place = folder / f"{profile.name.rstrip('/').rpartition('/')[2]}-{digest}"
    if drafter_of_shape(place) is None:  # not there, or written before shapes brought one
        write_shape(profile, Configuration.of({}), place)
    return Checkpoint(place.resolve())


def _profile(model: str) -> ModelProfile:
    if model in packaged_names(Kind.MODELS) or model.endswith(PROFILE_FILES):
        return load_model_profile(model)
    found = find_checkpoint(model, weights=False)
    return read_profile(found.folder).model_copy(update={"name": model})


def without_meaning(space: Space, profile: ModelProfile) -> dict[tuple[str, KnobValue], str]:
    """Why values of this space are not offered on a shape of this profile, by knob and value."""
    found = {
        (knob.name, value): WITHOUT_MEANING[knob.name]
        for knob in space.knobs
        if knob.name in WITHOUT_MEANING
        for value in knob.values
        if not same_value(value, knob.default)
    }
    found["drafting.method", "ngram"] = NOTHING_REPEATS
    if profile.tied_embeddings:
        found["quantization.lm_head", "quantized"] = HEAD_IS_EMBEDDING
    return found


def same_shape(space: Space) -> dict[tuple[str, KnobValue], Same]:
    """Which methods of quantization give the shape that another one gives, by knob and value: all but the
    first that the space has."""
    found = [
        value
        for knob in space.knobs
        if knob.name == QUANTIZATION
        for value in knob.values
        if value in QUANTIZED_METHODS
    ]
    return {
        (QUANTIZATION, each): Same(
            each, found[0], f"{NOTHING_CALIBRATED} Take {QUANTIZATION}={written(found[0])}.", when_given=False
        )
        for each in found[1:]
    }


def check_serves_shapes(engine: Engine) -> None:
    """Raise `UsageError` for an engine that can't make weights up."""
    if not getattr(engine, "serves_shapes", False):
        raise UsageError(
            f"The engine {engine.name} can't serve a model without weights.",
            "Measure a shape with --engine vllm, or leave --weights dummy out.",
        )


def judged_here(spec: CampaignSpec, metric: str) -> bool:
    """Whether a claim on this metric can be judged: on made-up weights those on time alone."""
    return not spec.latency_only or is_latency(metric)


def check_judged_here(spec: CampaignSpec, metric: str) -> None:
    """Raise `UsageError` for a claim of the user's that made-up weights can't answer."""
    if not judged_here(spec, metric):
        raise UsageError(
            f"No claim can be on {metric} here: the weights are made up, so times alone are known.",
            f"Claim something of {spec.plan.metric}, or run a campaign on a checkpoint with weights.",
        )


def refused_on_a_shape(
    spec: CampaignSpec, refused: Callable[[Configuration], str | None]
) -> Callable[[Configuration], str | None]:
    """Why the agent does not propose a configuration: as `refused`, and on a shape what would only seem to
    be a gain. A parameter budget asks for pruning itself."""
    if not spec.latency_only:
        return refused
    knobs = [each for each in NOT_PROPOSED if each != "pruning.method" or spec.parameter_budget is None]

    def why(configuration: Configuration) -> str | None:
        changed = next((each for each in knobs if configuration.get(each, "none") != "none"), None)
        return refused(configuration) if changed is None else NOT_PROPOSED[changed]

    return why
