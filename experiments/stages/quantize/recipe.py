"""What a configuration asks of quantization, as a value: read from the `quantization.*` knobs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration, KnobValue
from experiments.stages.quantize.modules import mlp_width

METHODS = ("none", "awq", "rtn")
"""Values of `quantization.method`: nothing, AWQ (arXiv 2306.00978), plain rounding to the nearest."""

BITS = (4, 8)
SYMMETRIC = (True, False)
OUT_PROJ_BITS = (4, 8)
LM_HEAD = ("high", "quantized")
KEEP = ("none", "attention", "edges")
"""Values of the knobs of their names, the default first."""

DEFAULT_CORPUS = "raw"


@dataclass(frozen=True)
class WholeNumbers:
    """Whole numbers from `least` to `most` in steps of `step`, and the one that a missing knob means."""

    default: int
    least: int
    most: int
    step: int = 1

    def __contains__(self, value: object) -> bool:
        if type(value) is not int:  # True is an int too
            return False
        return self.least <= value <= self.most and (value - self.least) % self.step == 0

    def __str__(self) -> str:
        numbers = "a whole number" if self.step == 1 else f"a multiple of {self.step}"
        return f"{numbers} from {self.least:,} to {self.most:,}"


GROUP_SIZE = WholeNumbers(default=32, least=8, most=65_536, step=8)
"""compressed-tensors takes any size that divides a module's inputs, which `plan` checks. Packing needs rows
of whole 32-bit words, of which eight integers of 4 bits fill one: groups of a multiple of eight inputs give
them. No module is as wide as the largest."""

SAMPLES = WholeNumbers(default=32, least=1, most=4096)
SAMPLE_TOKENS = WholeNumbers(default=256, least=16, most=32_768)
SEED = WholeNumbers(default=0, least=0, most=2**32 - 1)
"""What calibration may ask for. A space of the user's own offers any of it; the packaged one offers a few."""

CPU_GRID_POINTS = 6
"""Scales that AWQ tries for each mapping on a CPU, where most of the time goes into them: the figures are in
`docs/quantization.md`."""

DEVICE_GRID_POINTS = 20
"""Scales that AWQ tries for each mapping where an accelerator works, as its authors do (arXiv 2306.00978)."""


KEPT_SHARE = 4
"""Of a GPU's free memory, AWQ may fill this part, a quarter, with what goes into a layer's modules."""


@dataclass(frozen=True)
class QuantizationRecipe:
    """How the weights are quantized: `bits` an integer, `group_size` inputs a scale.

    `out_proj_bits` are those of `linear_attn.out_proj`; `keep` names further modules that stay as they are:
    the projections of attention, or the first and the last layer (`edges`).
    """

    method: str
    bits: int
    group_size: int
    symmetric: bool
    out_proj_bits: int
    lm_head: bool
    keep: str


@dataclass(frozen=True)
class Calibration:
    """The text that AWQ measures activations on: a corpus, how much of it, and which draw."""

    corpus: str
    samples: int
    sample_tokens: int
    seed: int


def recipe_of(configuration: Configuration) -> QuantizationRecipe | None:
    """The recipe, None when nothing is to be quantized.

    Raises:
        Infeasible: kind `illegal`, for a value that a knob can't have.
    """
    method = str(_one_of(configuration, "method", METHODS))
    if method == "none":
        return None
    bits = int(_one_of(configuration, "bits", BITS))
    out_proj_bits = int(_one_of(configuration, "out_proj_bits", OUT_PROJ_BITS)) if bits == 4 else bits
    return QuantizationRecipe(
        method=method,
        bits=bits,
        group_size=_within(configuration, "group_size", GROUP_SIZE),
        symmetric=bool(_one_of(configuration, "symmetric", SYMMETRIC)),
        out_proj_bits=out_proj_bits,
        lm_head=_one_of(configuration, "lm_head", LM_HEAD) == "quantized",
        keep=str(_one_of(configuration, "keep", KEEP)),
    )


def calibration_of(configuration: Configuration) -> Calibration | None:
    """What AWQ calibrates on, None where the method needs no text. Raises `Infeasible` as `recipe_of`."""
    if configuration.get("quantization.method", "none") != "awq":
        return None
    return Calibration(
        corpus=str(configuration.get("quantization.corpus", DEFAULT_CORPUS)),
        samples=_within(configuration, "samples", SAMPLES),
        sample_tokens=_within(configuration, "sample_tokens", SAMPLE_TOKENS),
        seed=_within(configuration, "seed", SEED),
    )


def kept_bytes(tokens: int, text_config: Mapping[str, Any], value_bytes: int) -> int:
    """What AWQ keeps of a text between the scales that it tries for a layer, in bytes: what goes into its
    mixer, its MLP and its down projections, all those together that a token goes through."""
    return tokens * (2 * int(text_config["hidden_size"]) + mlp_width(text_config)) * value_bytes


def kept_in_host(kept: int, free: int) -> str | None:
    """What the log says where AWQ is to keep so many bytes in the host's memory, for too few of the GPU's
    are free; None where they stay with the layer."""
    if kept <= free // KEPT_SHARE:
        return None
    return (
        f"What AWQ keeps of the text, {kept / 1e9:.2f} GB, lies in the host's memory: "
        f"{free / 1e9:.2f} GB of the GPU are free."
    )


def grid_points(recipe: QuantizationRecipe, device: str) -> int | None:
    """Scales that AWQ tries a mapping on a device (`cpu`, `cuda:0` …); None where nothing is scaled."""
    if recipe.method != "awq":
        return None
    return CPU_GRID_POINTS if device.partition(":")[0] == "cpu" else DEVICE_GRID_POINTS


def _within(configuration: Configuration, name: str, numbers: WholeNumbers) -> int:
    """The value of `quantization.<name>`, the default where it is not given; `Infeasible` out of range."""
    value = configuration.get(f"quantization.{name}", numbers.default)
    if isinstance(value, int) and value in numbers:
        return value
    raise Infeasible("illegal", f"quantization.{name} is {value!r}; it must be {numbers}.")


def _one_of(configuration: Configuration, name: str, values: Sequence[KnobValue]) -> KnobValue:
    """The value of `quantization.<name>`, the first where it is not given; `Infeasible` for any other."""
    value = configuration.get(f"quantization.{name}", values[0])
    if value not in values or type(value) is not type(values[0]):
        shown = ", ".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
        raise Infeasible("illegal", f"quantization.{name} is {value!r}; it is one of {shown}.")
    return value
