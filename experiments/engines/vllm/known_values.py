"""Which values of the knobs the vLLM that is installed knows, asked of its own Python once a version."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from experiments.engines.vllm.environment import VllmEnvironment
from experiments.engines.vllm.on_device import CPU, CUDA, why_not_taken
from experiments.other_python import NoAnswer, answer_of
from experiments.space.configuration import KnobValue
from experiments.space.space import Space

TYPES: Mapping[str, str] = {
    "serving.dtype": "config/model.py:ModelDType",
    "serving.linear_backend": "config/kernel.py:LinearBackend",
    "serving.moe_backend": "config/kernel.py:MoEBackend",
    "serving.weight_dtype": "model_executor/layers/quantization/__init__.py:QuantizationMethods",
    "serving.kv_cache_dtype": "config/cache.py:CacheDType",
    "serving.gdn_state_dtype": "config/cache.py:MambaDType",
    "serving.gdn_prefill_backend": "engine/arg_utils.py:EngineArgs.gdn_prefill_backend",
    "serving.gdn_decode_kernel": "envs.py:VLLM_GDN_DECODE_KERNEL",
    "serving.graph_mode": "config/compilation.py:CUDAGraphMode",
    "drafting.method": "config/speculative.py:SpeculativeMethod",
    "drafting.lm_head": "config/speculative.py:SpeculativeConfig.draft_lm_head_quantization",
}
"""The knobs whose values are vLLM's own names, and vLLM's type of each (in 0.26 to 0.33)."""

LATER: Mapping[str, str] = {
    "drafting.lm_head": TYPES["drafting.method"],
    "serving.gdn_decode_kernel": "envs.py:VLLM_WORKER_MULTIPROC_METHOD",
    "serving.moe_backend": TYPES["serving.linear_backend"],
}
"""Knobs whose setting some of these versions lack (the first before 0.33), and a type that all of them have
in the same file: where that was read and the knob's was not, there is none."""

KERNELS: Mapping[str, str] = {
    kind: (
        "model_executor/kernels/linear/__init__.py:"
        f"_LINEAR_BACKEND_KERNEL_MAP@_POSSIBLE_KERNELS.{kind.upper()}"
    )
    for kind in (CPU, CUDA)
}
"""By kind of device, where vLLM lists its kernels for packed weights there, and the names by which it can be
asked for them (in 0.26 and later)."""

_OURS: Mapping[str, tuple[str, ...]] = {
    "serving.weight_dtype": ("stored",),
    "serving.graph_mode": ("auto", "eager"),
    "drafting.method": ("none",),
}
"""Values that are not asked of vLLM by their name."""

_AUTO = ("auto",)
"""The same of every other knob: it leaves the choice to vLLM."""

_ONE_MODELS_HEAD = "_mtp"
"""Ends vLLM's names for the MTP head of one kind of model, which are all asked for as `mtp`."""

_FORMATS = "serving.weight_dtype"
"""vLLM's names of it are mostly formats in which checkpoints are stored, no values that one would choose."""

_LIMIT_S = 20.0
"""Seconds that vLLM's Python may take to read its sources: a few tenths of one as a rule."""

_ANSWERED: dict[tuple[Path, str], KnownValues] = {}
"""What was answered, by Python and version."""

SCRIPT = Path(__file__).with_name("read_values.py")


@dataclass(frozen=True)
class KnownValues:
    """What a version of vLLM knows, by knob; a knob that is not there could not be read, and one without
    values is a setting that this version lacks. `kernels` has, by kind of device, the names under which it
    has kernels for packed weights there, as far as that could be read. `unread` says why nothing could, in a
    sentence."""

    version: str
    values: Mapping[str, tuple[str, ...]]
    unread: str | None = None
    kernels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def why_not(self, knob: str, value: KnobValue) -> str | None:
        """That this vLLM does not know a value, and what it has, in a sentence; None where it does, and where
        nothing can be said."""
        known = self.values.get(knob)
        if known is None or value in known or value in _OURS.get(knob, _AUTO):
            return None
        has = ", ".join(known) or "no such setting"
        return f"vLLM {self.version} does not know {knob}={value}; it has {has}."

    def why_not_on(
        self, device: str, knob: str, value: KnobValue, layer_types: Collection[str]
    ) -> str | None:
        """The same, and that this vLLM does not take a value on a device for a model with these layers."""
        found = self.why_not(knob, value)
        return found or why_not_taken(knob, value, device, self.version, self.kernels, layer_types)

    def unknown(self, space: Space) -> dict[tuple[str, KnobValue], str]:
        """Why values of a space can't be had, by knob and value."""
        asked = ((knob.name, value) for knob in space.knobs for value in knob.values)
        return {(name, value): why for name, value in asked if (why := self.why_not(name, value)) is not None}

    def beyond(self, space: Space) -> dict[str, tuple[str, ...]]:
        """What vLLM has and a space lacks, by those of its knobs that could be read."""
        offered = {knob.name: knob.values for knob in space.knobs if knob.name != _FORMATS}
        found = {
            knob: tuple(each for each in known if each not in offered[knob] and each not in _AUTO)
            for knob, known in self.values.items()
            if knob in offered
        }
        return {knob: values for knob, values in found.items() if values}


def known_values(found: VllmEnvironment) -> KnownValues:
    """What the vLLM of an environment knows; its Python is asked until it has answered once for a version,
    within a limit."""
    key = (found.python, found.version)
    told = _ANSWERED.get(key) or _asked(*key)
    if told.unread is None:
        _ANSWERED[key] = told
    return told


def _asked(python: Path, version: str) -> KnownValues:
    try:
        asked = (*TYPES.values(), *LATER.values(), *KERNELS.values())
        told = answer_of(python, str(SCRIPT), *asked, limit_s=_LIMIT_S)
    except NoAnswer as reason:
        return KnownValues(
            version,
            {},
            f"Which values vLLM {version} knows could not be read ({reason}); one that it does not know is "
            "refused when it loads.",
        )
    kernels = {kind: tuple(told[place]) for kind, place in KERNELS.items() if told.get(place)}
    return KnownValues(version, named_by_knob(told), kernels=kernels)


def named_by_knob(told: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """What `read_values` told, by knob instead of type; types that were not read are left out, but for those
    of `LATER` that are not there."""
    named = {
        knob: tuple(each for each in told.get(kind, ()) if not each.endswith(_ONE_MODELS_HEAD))
        for knob, kind in TYPES.items()
    }
    return {knob: values for knob, values in named.items() if values or told.get(LATER.get(knob, ""))}
