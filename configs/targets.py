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
compiled when it first runs and is not to be had everywhere; Triton's come with vLLM. Its build for a CPU has
neither, so nothing is swept there."""

FIRST_TOKEN_SWEEP_FOR: Mapping[str, Mapping[str, list[object]]] = {
    "vllm": {"serving.max_graph_tokens": ["auto", 512]}
}
"""What it crosses besides where the first token counts. A space has room for fewer requests at once than a
plain server, which captures steps of up to 512 tokens for its own, prompts among them; without these a
campaign would begin from less than that."""

OF_FIRST_TOKENS = ("ttft_ms", "e2el_ms")
"""Objectives in which the first token counts."""

WORKLOAD_ON: Mapping[str, Mapping[str, int]] = {
    CUDA: {"plan.workload.prompt_tokens": 512, "plan.workload.new_tokens": 128}
}
"""Lengths of a campaign that nobody wrote, on a kind of device: the packaged `default` is as short as the
reference model on a processor needs it; on a GPU it asks for what the packaged `shape` does."""

ALL_GPUS = "cuda:all"
"""The target that stands for every GPU of a machine of the kind of its first."""

_RENTED = re.compile(r"(?!cpu:|cuda:)[a-z][a-z0-9-]{0,30}:[A-Za-z0-9][A-Za-z0-9._-]{0,40}!?", re.ASCII)
"""Rented machines: the provider's executor, and what it calls the GPU, such as `modal:H100!`."""

LOCAL = "local"
"""The executor of this machine."""

_TARGET = re.compile(r"cpu|cuda:(?:0|[1-9][0-9]{0,2})", re.ASCII)


def is_rented(target: str) -> bool:
    """Whether a target names rented machines, such as `modal:H100!`."""
    return _RENTED.fullmatch(target) is not None


def executor_of(target: str, executor: str) -> str:
    """The executor of a campaign's jobs: the one that is named, or, where that is this machine's and the
    target is rented, the provider's own."""
    return target.partition(":")[0] if executor == LOCAL and is_rented(target) else executor


def device_there(device: str) -> str:
    """What a job for a device of a campaign calls it where it runs: a rented machine has one GPU, `cuda:0`,
    or is named as `provider:cpu`."""
    if not is_rented(device):
        return device
    return CPU if device.partition(":")[2] == CPU else "cuda:0"


def devices_of(target: str) -> tuple[str, ...]:
    """The devices that a target names, in its order: `cpu`, `cuda:0`, or GPUs with commas between, such as
    `cuda:0,cuda:1`. `cuda:all` names itself, until somebody looks what there is, and so does a rented target.

    Raises `UsageError` for what is no target, a device that stands twice, and several that are not all GPUs
    of this machine.
    """
    if target == ALL_GPUS or is_rented(target):
        return (target,)
    named = tuple(target.split(","))
    for each in named:
        if _TARGET.fullmatch(each) is None:
            known = (
                f"cpu, cuda:0, cuda:1 …, several GPUs as cuda:0,cuda:1, {ALL_GPUS}, or rented: modal:H100!"
            )
            hint = f"Write cuda:0, or {ALL_GPUS}." if each == CUDA else f"Targets are {known}"
            raise UsageError(f"There is no target {each!r}.", hint)
    if len(set(named)) < len(named):
        twice = next(each for each in named if named.count(each) > 1)
        raise UsageError(f"The target {target!r} names {twice} twice.", "Name each device once.")
    if len(named) > 1 and CPU in named:
        raise UsageError(
            f"The target {target!r} puts the processor beside GPUs, and what is measured on them can't be "
            "compared.",
            "Name GPUs of one kind, such as cuda:0,cuda:1, or cpu alone.",
        )
    return named


def kind_of(target: str) -> str:
    """`cpu` or `cuda`; raises `UsageError` as `devices_of`."""
    return device_there(devices_of(target)[0]).partition(":")[0]


def check_one_device(target: str, what: str) -> None:
    """Raise `UsageError` where a target names several devices or a rented one, and `what`, such as `A
    series`, has one of this machine."""
    if is_rented(target):
        raise UsageError(
            f"{what} measures on this machine, and {target} is a rented one.",
            "Name a device of this machine, such as cpu or cuda:0.",
        )
    if target == ALL_GPUS or len(devices_of(target)) > 1:
        raise UsageError(
            f"{what} measures on one device, and {target!r} names several.", "Name one, such as cuda:0."
        )


def serving_on(target: str, engine: str | None = None, metric: str | None = None) -> dict[str, object]:
    """What of a packaged campaign becomes another on a target, by field: its engine, `engine` where a user
    named one, and with that the space and the knobs that its sweep crosses, which go by what it is about too,
    its `metric`.

    Nothing on the CPU where none was named, for that is what packaged campaigns are written for, and of an
    engine that is served in their own spaces. Raises `UsageError` for what is no target.
    """
    kind = kind_of(target)
    chosen = engine or ENGINE_FOR[kind]
    if chosen not in SPACE_FOR:
        return {}
    swept: dict[str, object] = {**SWEEP_FOR[chosen]}
    if metric in OF_FIRST_TOKENS:
        swept |= FIRST_TOKEN_SWEEP_FOR[chosen]
    return {
        "engine": chosen,
        "space": SPACE_FOR[chosen],
        "baseline.sweep": [] if kind == CPU else swept,
    }


def workload_on(target: str) -> dict[str, object]:
    """What a campaign that nobody wrote asks for on a target, by field, where that is not what the packaged
    `default` does. Raises `UsageError` for what is no target."""
    return dict(WORKLOAD_ON.get(kind_of(target), {}))
