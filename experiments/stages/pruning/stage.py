"""The stage of a job that prunes where a configuration asks for `pruning.method=depth`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.artifacts.key import ArtifactKey
from experiments.engines.port import Infeasible
from experiments.measurement.environment import package_version
from experiments.measurement.evidence import Json, Stage
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.pruning.calibration import (
    CALIBRATION_DOCUMENTS,
    CALIBRATION_TOKENS,
    calibration_documents,
)
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.kept_scores import KeptScores
from experiments.stages.pruning.number_format import memory_in_all, number_format
from experiments.stages.pruning.prune import RankedOn, prune

PRUNING_VERSION = 3
"""Part of the artifact's key; raised when the same inputs would give other bytes."""

RANKED_ON = ("original", "quantized")
"""Values of `pruning.ranked_on`, the default first."""

ORDERS = ("before_quantization", "after_quantization")
"""Values of `pruning.order`, the default first."""

PLACES: Mapping[str, int] = {"before_quantization": 0, "after_quantization": 2}
"""Where pruning stands among the stages by `pruning.order`; quantization stands at 1."""

CPU = "cpu"

_DEFAULTS: Mapping[str, KnobValue] = {
    "pruning.layers_removed": 1,
    "pruning.criterion": "block_influence",
    "pruning.restrict": "any",
}
"""The knobs that hold for every pruning, with what a missing one means."""


class DepthPruning:
    """Prunes the checkpoint, before or after it is quantized, by a ranking of either form of the model.

    `device` (`cpu`, `cuda:0` …) is where layers are ranked; scores of layers are kept in `kept_scores`, if
    given, for later choices from the same ranking. `total_bytes` tells how much memory a device has in all,
    which decides the number format of the ranking.
    """

    stage = Stage.PRUNE

    def __init__(
        self,
        device: str = CPU,
        kept_scores: Path | None = None,
        total_bytes: Callable[[str], int | None] = memory_in_all,
    ) -> None:
        self._device = device
        self._total_bytes = total_bytes
        self._kept = None if kept_scores is None else KeptScores(kept_scores)

    def asked(self, configuration: Configuration) -> bool:
        """Whether layers are to be taken out."""
        return _prunes(configuration)

    def place(self, configuration: Configuration) -> int:
        """First of the stages, or after quantization where the configuration says so."""
        return PLACES[_one_of(configuration, "pruning.order", ORDERS)] if _quantizes(configuration) else 0

    def beside(self, configuration: Configuration) -> Configuration | None:
        """The model that is ranked beside the one that is pruned, as a configuration without pruning.

        Pruned before quantization and ranked on the quantized model: the quantized model with all its layers.
        Pruned after quantization: the original with all its layers; whichever decides, both are ranked.
        Drafting is left out: it changes no layer of the target.
        """
        if not _prunes(configuration) or not _quantizes(configuration):
            return None
        others = {
            knob: value
            for knob, value in configuration.items()
            if not knob.startswith(("pruning.", "drafting."))
        }
        if _one_of(configuration, "pruning.order", ORDERS) == "after_quantization":
            others = {knob: value for knob, value in others.items() if not knob.startswith("quantization.")}
            return Configuration.of(others | {"pruning.method": "none", "quantization.method": "none"})
        if _one_of(configuration, "pruning.ranked_on", RANKED_ON) == "quantized":
            return Configuration.of(others | {"pruning.method": "none"})
        return None

    def key(
        self, configuration: Configuration, checkpoint: Path, parents: Sequence[str], model_fingerprint: str
    ) -> ArtifactKey:
        """The key of the pruned checkpoint.

        Pruning the original by its own ranking has one key, whether it is quantized afterwards or not. A
        GPU sums otherwise and may rank otherwise, and so does another number format: what is ranked so has
        another key. Raises `Infeasible` as `number_format`.
        """
        knobs: dict[str, Json] = {"pruning.method": configuration["pruning.method"]}
        knobs |= {knob: configuration.get(knob, default) for knob, default in _DEFAULTS.items()}
        if _quantizes(configuration):
            order = _one_of(configuration, "pruning.order", ORDERS)
            ranked_on = _one_of(configuration, "pruning.ranked_on", RANKED_ON)
            if (order, ranked_on) != (ORDERS[0], RANKED_ON[0]):
                knobs |= {"pruning.order": order, "pruning.ranked_on": ranked_on}
        kind = self._device.partition(":")[0]
        return ArtifactKey(
            "checkpoint",
            {
                **({} if kind == CPU else {"device": kind}),
                "stage": "prune",
                "version": PRUNING_VERSION,
                "number_format": self._number_format(checkpoint),
                "model": model_fingerprint,
                "knobs": knobs,
                "calibration_documents": CALIBRATION_DOCUMENTS,
                "calibration_tokens": CALIBRATION_TOKENS,
            },
            tuple(parents),
            {
                "python": platform.python_version(),  # its library is the calibration text
                "torch": package_version("torch"),
                "transformers": package_version("transformers"),
            },
        )

    def build(
        self,
        configuration: Configuration,
        checkpoint: Path,
        folder: Path,
        beside: Path | None = None,
        tell: Callable[[int, int, str], None] = lambda done, planned, text: None,
    ) -> Mapping[str, Json]:
        """Write the pruned checkpoint into `folder`; return the report. Raises `Infeasible` as `prune`."""
        if configuration["pruning.method"] != "depth":
            raise Infeasible(
                "unsupported",
                f"There is no pruning.method {configuration['pruning.method']!r}; it is none or depth.",
            )
        knobs = {**_DEFAULTS, **configuration}
        report = prune(
            checkpoint,
            folder,
            choice=Choice.of(knobs["pruning.layers_removed"], knobs["pruning.restrict"]),
            criterion=str(knobs["pruning.criterion"]),
            documents=calibration_documents(checkpoint),
            ranked_on=_ranked_on(configuration, checkpoint, beside),
            device=self._device,
            kept=self._kept,
            number_format=self._number_format(checkpoint),
            tell=tell,
        )
        return report.to_json()

    def _number_format(self, checkpoint: Path) -> str:
        """What layers are ranked in, by the size of the checkpoint that is pruned."""
        return number_format(checkpoint, self._total_bytes(self._device))


def _prunes(configuration: Configuration) -> bool:
    return configuration.get("pruning.method", "none") != "none"


def _quantizes(configuration: Configuration) -> bool:
    return configuration.get("quantization.method", "none") != "none"


def _ranked_on(configuration: Configuration, checkpoint: Path, beside: Path | None) -> RankedOn:
    """Which checkpoint is the original and which the quantized one."""
    if not _quantizes(configuration):
        return RankedOn(checkpoint)
    decides = _one_of(configuration, "pruning.ranked_on", RANKED_ON)
    if _one_of(configuration, "pruning.order", ORDERS) == "after_quantization":
        return RankedOn(beside, checkpoint, decides)
    return RankedOn(checkpoint, beside, decides)


def _one_of(configuration: Configuration, knob: str, values: tuple[str, ...]) -> str:
    """The value of a knob, the first where it is not given; raises `Infeasible` for any other."""
    value = configuration.get(knob, values[0])
    if value not in values:
        raise Infeasible("illegal", f"There is no {knob} {value!r}; it is one of {', '.join(values)}.")
    return str(value)
