"""Targets: what a device is called, and what a campaign serves with on each kind of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from configs.errors import UsageError

CPU, CUDA = "cpu", "cuda"

ENGINE_FOR: Mapping[str, str] = {CPU: "reference", CUDA: "vllm"}
"""The engine that a kind of device is served by where none is named."""

SPACE_FOR: Mapping[str, str] = {"vllm": "vllm"}
"""The packaged space of an engine whose knobs are not those of the packaged campaigns' own spaces."""

SWEEP_FOR: Mapping[str, Mapping[str, list[str]]] = {
    "vllm": {"serving.gdn_prefill_backend": ["auto", "triton"]}
}
"""What the sweep before trial 0 crosses with an engine. vLLM's own choice of kernels that read prompts is
compiled when it first runs and is not to be had everywhere; Triton's come with vLLM."""

_RENTED = re.compile(r"(?!cpu:|cuda:)[a-z][a-z0-9-]{0,30}:[A-Za-z0-9][A-Za-z0-9._-]{0,40}!?", re.ASCII)
"""Rented machines: the provider's executor, and what it calls the GPU, such as `modal:H100!`."""

_TARGET = re.compile(r"cpu|cuda:(?:0|[1-9][0-9]{0,2})", re.ASCII)


def is_rented(target: str) -> bool:
    """Whether a target names rented machines, such as `modal:H100!`."""
    return _RENTED.fullmatch(target) is not None


def kind_of(target: str) -> str:
    """`cpu` or `cuda`; raises `UsageError` for what is no target."""
    if "," in target:
        raise UsageError(
            f"{target!r} names several devices, and a campaign measures on one.",
            "Name one, such as --target cuda:0; another campaign may measure on another one meanwhile.",
        )
    if is_rented(target):
        raise UsageError(
            f"A campaign measures on this machine, and {target} is a rented one.",
            f"Jobs that are queued for it are run by: autoinfer worker --target {target}",
        )
    if _TARGET.fullmatch(target) is None:
        hint = "Write cuda:0." if target == CUDA else "Targets are cpu, cuda:0, cuda:1 …"
        raise UsageError(f"There is no target {target!r}.", hint)
    return target.partition(":")[0]


def serving_on(target: str, *, engine_named: bool) -> dict[str, object]:
    """What of a packaged campaign becomes another on a target, by field: its engine, and with that the space
    and the knobs that its sweep crosses.

    Nothing where a user named an engine, who then says the rest, and on the CPU, for which packaged campaigns
    are written. Raises `UsageError` for what is no target.
    """
    kind = kind_of(target)
    if engine_named or kind == CPU:
        return {}
    chosen = ENGINE_FOR[kind]
    return {"engine": chosen, "space": SPACE_FOR[chosen], "baseline.sweep": SWEEP_FOR[chosen]}
