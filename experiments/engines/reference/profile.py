"""Where the time of a decode step goes, by part of the model.

Method. Steps are timed in turn without and with hooks, after the same prefill, alternating in short runs. The
hooks read a clock just before and just after each module: embedding, rotary table, every layer's two norms,
mixer and MLP, the last norm, the head. A GatedDeltaNet mixer is timed from its first projection to its last.
Sampling (arg-max and the copy of the token to the host) is what comes after the head. The medians are taken
over steps. A hooked module that does nothing gives what the pair of clock readings itself costs, and that is
taken off each part. Then `rest` = the un-hooked step − the sum of parts: Python and dispatch outside these
modules, masks, the state. Were the sum larger than the un-hooked step (noise), parts are scaled down to it
and `rest` is 0. So parts and rest always sum to the un-hooked step.

A compiled step is one library call and has no parts to hook: it is reported as one part of kind `compiled`,
beside sampling and the rest. With drafting see `drafting/profile.py`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import torch
from torch import nn
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM

from experiments.engines.port import GenerationRequest, PartTime
from experiments.engines.reference.checkpoint import layer_kinds
from experiments.engines.reference.decode import Decoder, Sequence
from experiments.engines.reference.module_bytes import bytes_read

RUNS = 2
"""Alternating runs with and without hooks, each over the request's new tokens."""

CALIBRATION_CALLS = 2000
"""Calls of an empty hooked module from which the cost of the clock readings is taken."""

GDN_ENDS = ("in_proj_qkv", "out_proj")
"""The first and the last projection of a GatedDeltaNet mixer; no other part has modules of these names."""

_SAMPLING = "sampling"
_REST = "rest"
_HEAD = "lm_head"


class _Clock:
    """Collects the times of parts within a step."""

    def __init__(self) -> None:
        self.step: defaultdict[str, float] = defaultdict(float)
        self.ended_s: dict[str, float] = {}
        self._started_s: dict[str, float] = {}

    def attach(self, part: str, first: nn.Module, last: nn.Module) -> list[torch.utils.hooks.RemovableHandle]:
        def before(module: nn.Module, args: object) -> None:
            self._started_s[part] = time.perf_counter()

        def after(module: nn.Module, args: object, output: object) -> None:
            now_s = time.perf_counter()
            self.step[part] += now_s - self._started_s[part]
            self.ended_s[part] = now_s

        return [first.register_forward_pre_hook(before), last.register_forward_hook(after)]


def profile_step(decoder: Decoder, request: GenerationRequest) -> list[PartTime]:
    """Profile decode steps of a request; times in ms a step, weight bytes read a step."""
    decoder.prepare(len(request.prompt_ids) + request.new_tokens)
    parts = {_SAMPLING: "sampling", _REST: "rest"}
    with torch.inference_mode():
        if decoder.mode != "off":
            return _profile_compiled(decoder, request)
        modules = model_parts(decoder.model)
        unhooked_s: list[float] = []
        hooked: list[dict[str, float]] = []
        for _ in range(RUNS):
            sequence, token = begin(decoder, request)
            for _ in range(request.new_tokens - 1):
                start_s = time.perf_counter()
                token = _step(sequence, token)
                unhooked_s.append(time.perf_counter() - start_s)
            clock = _Clock()
            with _hooked(clock, modules):
                sequence, token = begin(decoder, request)
                for _ in range(request.new_tokens - 1):
                    clock.step.clear()
                    reading = sequence.read([token])
                    sampling_s = time.perf_counter() - clock.ended_s[_HEAD]
                    sequence.keep(1)
                    token = reading.best[0]
                    hooked.append({**clock.step, _SAMPLING: sampling_s})
        clock_s = _clock_cost_s()
    times_ms = {
        part: 1e3 * max(0.0, median(step[part] for step in hooked) - clock_s)
        for part in (*modules, _SAMPLING)
    }
    times_ms = fit_to_total(times_ms, 1e3 * median(unhooked_s))
    bytes_read = weight_bytes(decoder.model)
    kinds = {part: kind_of(part) for part in modules} | parts
    return [PartTime(part, kinds[part], times_ms[part], bytes_read.get(part, 0)) for part in kinds]


def fit_to_total(times_ms: dict[str, float], total_ms: float) -> dict[str, float]:
    """Add `rest` so that the parts sum to the total; scale the parts down where they are more than it."""
    together_ms = sum(times_ms.values())
    scale = min(1.0, total_ms / together_ms) if together_ms else 1.0
    scaled = {part: time_ms * scale for part, time_ms in times_ms.items()}
    return scaled | {_REST: max(0.0, total_ms - sum(scaled.values()))}


def _profile_compiled(decoder: Decoder, request: GenerationRequest) -> list[PartTime]:
    steps: list[float] = []
    sampling: list[float] = []
    totals: list[float] = []
    for _ in range(RUNS):
        sequence, token = begin(decoder, request)
        for _ in range(request.new_tokens - 1):
            start_s = time.perf_counter()
            outputs = sequence.run([token])
            stepped_s = time.perf_counter()
            token = outputs[0].tolist()[1]
            sampled_s = time.perf_counter()
            sequence.keep(1)
            steps.append(stepped_s - start_s)
            sampling.append(sampled_s - stepped_s)
            totals.append(time.perf_counter() - start_s)
    times_ms = {"decode_step": 1e3 * median(steps), _SAMPLING: 1e3 * median(sampling)}
    times_ms = fit_to_total(times_ms, 1e3 * median(totals))
    read = sum(weight_bytes(decoder.model).values())
    return [
        PartTime("decode_step", "compiled", times_ms["decode_step"], read),
        PartTime(_SAMPLING, "sampling", times_ms[_SAMPLING], 0),
        PartTime(_REST, "rest", times_ms[_REST], 0),
    ]


def begin(decoder: Decoder, request: GenerationRequest) -> tuple[Sequence, int]:
    """Prefill a request; give the sequence and its first token."""
    prefilled = decoder.begin(request.prompt_ids)
    return prefilled.sequence, int(prefilled.logits.argmax())


def _step(sequence: Sequence, token: int) -> int:
    """One step; gives the next token."""
    reading = sequence.read([token])
    sequence.keep(1)
    return reading.best[0]


def _clock_cost_s() -> float:
    """What the two clock readings of a hooked module measure when the module does nothing."""
    clock, empty = _Clock(), nn.Identity()
    argument = torch.zeros(1)
    costs = []
    with _hooked(clock, {"empty": empty}):
        for _ in range(CALIBRATION_CALLS):
            clock.step.clear()
            empty(argument)
            costs.append(clock.step["empty"])
    return median(costs)


@contextmanager
def _hooked(clock: _Clock, modules: dict[str, nn.Module]) -> Iterator[None]:
    handles = [handle for part, module in modules.items() for handle in clock.attach(part, *_ends(module))]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _ends(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The modules that begin and end a part: of a GatedDeltaNet mixer, whose parts the step calls itself,
    its first projection and its last."""
    first, last = (getattr(module, name, module) for name in GDN_ENDS)
    return first, last


def model_parts(model: Qwen3_5ForCausalLM) -> dict[str, nn.Module]:
    """The modules that make up a step, by part name, in the order in which they run."""
    parts: dict[str, nn.Module] = {
        "embed_tokens": model.model.embed_tokens,
        "rotary_emb": model.model.rotary_emb,
    }
    for index, (layer, kind) in enumerate(zip(model.model.layers, layer_kinds(model), strict=True)):
        mixer = "linear_attn" if kind == "linear_attention" else "self_attn"
        for name in ("input_layernorm", mixer, "post_attention_layernorm", "mlp"):
            parts[f"layers.{index}.{name}"] = getattr(layer, name)
    return parts | {"norm": model.model.norm, _HEAD: model.lm_head}


def kind_of(part: str) -> str:
    """The kind of a part: `gdn`, `attention`, `mlp`, `norm`, `embedding`, `rotary`, `lm_head`."""
    return {
        "linear_attn": "gdn",
        "self_attn": "attention",
        "mlp": "mlp",
        "input_layernorm": "norm",
        "post_attention_layernorm": "norm",
        "norm": "norm",
        "embed_tokens": "embedding",
        "rotary_emb": "rotary",
        _HEAD: "lm_head",
    }[part.rsplit(".", 1)[-1]]


def weight_bytes(model: Qwen3_5ForCausalLM, rows: int = 1) -> dict[str, int]:
    """Bytes of weights that each part reads in a decode step of so many rows; of the embedding that is one
    row, and of experts those that the rows are sent to (`bytes_read`)."""
    read = {part: bytes_read(module, rows) for part, module in model_parts(model).items()}
    embedding = model.model.embed_tokens.weight
    return read | {"embed_tokens": embedding.shape[-1] * embedding.element_size()}
