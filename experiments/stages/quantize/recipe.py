"""What a configuration asks of quantization, as a value: read from the `quantization.*` knobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.engines.port import Infeasible
from experiments.space.configuration import Configuration, KnobValue

METHODS = ("none", "awq", "rtn")
"""Values of `quantization.method`: nothing, AWQ (arXiv 2306.00978), plain rounding to the nearest."""

BITS = (4, 8)
GROUP_SIZES = (32, 64, 128)
SYMMETRIC = (True, False)
OUT_PROJ_BITS = (4, 8)
LM_HEAD = ("high", "quantized")
KEEP = ("none", "attention", "edges")
SAMPLES = (32, 64, 128)
SAMPLE_TOKENS = (256, 512)
SEEDS = (0, 1, 2)
"""Values of the knobs of their names, the default first."""

DEFAULT_CORPUS = "raw"


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
        group_size=int(_one_of(configuration, "group_size", GROUP_SIZES)),
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
        samples=int(_one_of(configuration, "samples", SAMPLES)),
        sample_tokens=int(_one_of(configuration, "sample_tokens", SAMPLE_TOKENS)),
        seed=int(_one_of(configuration, "seed", SEEDS)),
    )


def _one_of(configuration: Configuration, name: str, values: Sequence[KnobValue]) -> KnobValue:
    """The value of `quantization.<name>`, the first where it is not given; `Infeasible` for any other."""
    value = configuration.get(f"quantization.{name}", values[0])
    if value not in values or type(value) is not type(values[0]):
        shown = ", ".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
        raise Infeasible("illegal", f"quantization.{name} is {value!r}; it is one of {shown}.")
    return value
