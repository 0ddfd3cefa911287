"""The stages that change a shape: fewer layers, or another `quantization_config`. Nothing is computed.

What they write says that it is made up, like the shape they begin with. Which layers go can't be ranked
without weights: of those that may go, the last goes first, in turn of kinds as the model has them. Kinds
decide the time, and layers of a kind all take the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from configs.models import ModelProfile
from experiments.artifacts.key import ArtifactKey
from experiments.engines.port import Infeasible
from experiments.engines.reference.shape import read_profile
from experiments.measurement.evidence import Json, Stage
from experiments.shapes.folder import LATENCY_ONLY, shape_in, write_shape
from experiments.space.configuration import Configuration
from experiments.stages.pruning.choosing import Choice, choose_in_rounds
from experiments.stages.quantize.recipe import recipe_of

SHAPE_STAGES_VERSION = 2
"""Part of an artifact's key; raised when the same inputs would give another shape."""

Tell = Callable[[int, int, str], None]


def _tell_nobody(done: int, planned: int, text: str) -> None:
    """In place of whoever would be told of progress."""


class ShapePruning:
    """Fewer layers in the config.json. Stands first: nothing is ranked, so the order has no meaning."""

    stage = Stage.PRUNE

    def asked(self, configuration: Configuration) -> bool:
        """Whether layers are to be taken out."""
        return configuration.get("pruning.method", "none") != "none"

    def place(self, configuration: Configuration) -> int:
        """Before quantization."""
        return 0

    def beside(self, configuration: Configuration) -> Configuration | None:
        """None: nothing is ranked."""
        return None

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        """The key of the smaller shape: how many layers go, and of which kinds."""
        choice = _choice(configuration)
        return _key(self.stage, {"choice": asdict(choice)}, parents, model_fingerprint)

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: Tell = _tell_nobody,
    ) -> Mapping[str, Json]:
        """Write the smaller shape; tell which layers went. Raises `Infeasible` as `choosing.removable`."""
        profile = _profile(checkpoint)
        removed = removed_layers(profile.layer_types, _choice(configuration))
        kept = tuple(kind for at, kind in enumerate(profile.layer_types) if at not in removed)
        smaller = profile.model_copy(update={"layers": len(kept), "layer_types": kept})
        write_shape(smaller, Configuration.of({}), folder)
        told: list[Json] = [*removed]
        return {"made_up": LATENCY_ONLY, "removed": told, "criterion": "no ranking", "ranked_on": "made-up"}


class ShapeQuantization:
    """A `quantization_config` as a campaign's quantize stage writes it, over no weights."""

    stage = Stage.QUANTIZE

    def asked(self, configuration: Configuration) -> bool:
        """Whether weights are to be quantized."""
        return configuration.get("quantization.method", "none") != "none"

    def place(self, configuration: Configuration) -> int:
        """After pruning."""
        return 1

    def beside(self, configuration: Configuration) -> Configuration | None:
        """None: nothing is calibrated."""
        return None

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        """The key of the quantized shape: its recipe without the calibration, which changes nothing here."""
        recipe = recipe_of(configuration)
        made_with: dict[str, Json] = {} if recipe is None else {"recipe": asdict(recipe)}
        return _key(self.stage, made_with, parents, model_fingerprint)

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: Tell = _tell_nobody,
    ) -> Mapping[str, Json]:
        """Write the quantized shape; tell the recipe. Raises `Infeasible` as `stored_as.quantization_of`."""
        recipe = recipe_of(configuration)
        knobs = {name: value for name, value in configuration.items() if name.startswith("quantization.")}
        write_shape(_profile(checkpoint), Configuration.of(knobs), folder)
        shape = shape_in(folder)
        return {
            "made_up": LATENCY_ONLY,
            "recipe": {} if recipe is None else asdict(recipe),
            "weight_bytes": None if shape is None else shape.weight_bytes,
        }


def removed_layers(layer_types: Sequence[str], choice: Choice) -> tuple[int, ...]:
    """The layers that go, ascending: the last of the kind of which most are left of what there was.

    Raises `Infeasible`, kind `illegal`, where so many can't go.
    """
    whole = {kind: list(layer_types).count(kind) for kind in set(layer_types)}

    def rescore(gone: tuple[int, ...], candidates: tuple[int, ...]) -> dict[int, float]:
        left = {
            kind: 1 - sum(layer_types[at] == kind for at in gone) / count for kind, count in whole.items()
        }
        return {at: -left[layer_types[at]] * len(layer_types) - at / len(layer_types) for at in candidates}

    return tuple(sorted(each.removed for each in choose_in_rounds(layer_types, choice, rescore)))


def _choice(configuration: Configuration) -> Choice:
    if configuration["pruning.method"] != "depth":
        raise Infeasible(
            "unsupported",
            f"There is no pruning.method {configuration['pruning.method']!r}; it is none or depth.",
        )
    layers_removed = configuration.get("pruning.layers_removed", 1)
    return Choice.of(layers_removed, configuration.get("pruning.restrict", "any"))


def _profile(checkpoint: Path) -> ModelProfile:
    """The profile of a shape, by the model's name."""
    shape = shape_in(checkpoint)
    if shape is None:
        raise Infeasible(
            "checkpoint", f"{checkpoint} is no shape: it has weights, which nothing here changes."
        )
    return read_profile(checkpoint).model_copy(update={"name": shape.model})


def _key(
    stage: Stage, made_with: Mapping[str, Json], parents: Sequence[str], model_fingerprint: str
) -> ArtifactKey:
    return ArtifactKey(
        "checkpoint",
        {
            "stage": stage.value,
            "made_up": LATENCY_ONLY,
            "version": SHAPE_STAGES_VERSION,
            "model": model_fingerprint,
            **made_with,
        },
        tuple(parents),
        {},
    )
