"""The format of weights under which vLLM's kernels are timed alone."""

from __future__ import annotations

from typing import Any

from configs.models import ModelProfile
from experiments.engines.port import Infeasible
from experiments.shapes.stored_as import StoredAs, quantization_of
from experiments.space.configuration import Configuration


def timed_format(profile: ModelProfile, configuration: Configuration) -> dict[str, Any]:
    """The `quantization_config` under which kernels are timed: that of a checkpoint of the configuration's
    format with every product packed, the head too where it is no embedding.

    Raises `Infeasible`, kind `illegal`, for a configuration that packs nothing, and for a group size that
    does not divide.
    """
    spared = ("quantization.keep", "quantization.out_proj_bits")
    knobs = {knob: value for knob, value in configuration.items() if knob not in spared}
    knobs["quantization.lm_head"] = "high" if profile.tied_embeddings else "quantized"
    found, _ = quantization_of(profile, Configuration.of(knobs), StoredAs.COMPRESSED_TENSORS)
    if found is None:
        raise Infeasible("illegal", f"{configuration} packs no weights, so no kernel can be timed with it.")
    return found
