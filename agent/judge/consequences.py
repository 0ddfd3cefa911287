"""What a claimed change explains of a difference between two resolved configurations. Pure.

A resolved key is split into words (`kernels.linear_kernel` → kernels, linear, kernel). A change explains a
key

- that its own knob pins, as the space declares (`Knob.pins`), or
- whose words hold all words of the knob's own name (`serving.linear_kernel` explains `linear_kernel`), or
- that has a word which `ALWAYS` gives to the knob or its group, or
- that names a kernel which the change cannot leave alone: turning quantization on or off changes the kernel
  of linear layers, because no kernel serves both formats; drafting changes the kernels that verify.

What is not among these is no consequence, however plausible: another group size may well run on another
kernel, and that kernel is then a cause of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from experiments.space.configuration import Change

ALWAYS: Mapping[str, frozenset[str]] = {
    "serving.dtype": frozenset({"dtype", "precision", "kernel", "kernels", "bytes", "served"}),
    "serving.threads": frozenset({"threads", "affinity", "cpus", "cores"}),
    "serving.compile": frozenset(
        {
            "compile",
            "compiled",
            "backend",
            "inductor",
            "graph",
            "graphs",
            "recompilations",
            "mode",
            "kernel",
            "kernels",
        }
    ),
    "pruning": frozenset(
        {"pruning", "pruned", "removed", "layers", "layer", "parameters", "bytes", "checkpoint", "weights"}
    ),
    "quantization": frozenset(
        {
            "quantization",
            "quantized",
            "bits",
            "group",
            "bytes",
            "checkpoint",
            "weights",
            "dtype",
            "representative",
            "reason",
        }
    ),
    "drafting": frozenset(
        {
            "drafting",
            "draft",
            "drafter",
            "speculative",
            "mtp",
            "layers",
            "parameters",
            "bytes",
            "capacity",
            "graphs",
            "recompilations",
        }
    ),
}
"""For a knob or a group of knobs, words of resolved keys that its change explains."""

KERNEL_WORDS = frozenset({"kernel", "kernels"})

LINEAR_WORDS = frozenset({"linear", "gemm", "matmul"})
"""Words of keys that name what multiplies weights."""

OTHER_KERNELS = frozenset({"attention", "gdn", "conv", "conv1d", "sampler", "sampling", "norm", "prefill"})
"""Words of keys that name kernels which never touch quantized weights."""

OFF = (None, "none", "off")
"""Values of a group's `method` at which it does nothing."""


def words(key: str) -> frozenset[str]:
    """The words of a dotted key or knob name."""
    return frozenset(key.lower().replace(".", "_").replace("-", "_").split("_"))


def explained(key: str, changes: Iterable[Change], pinned: Collection[str] = ()) -> bool:
    """Whether the claimed changes explain that the arms differ at `key`.

    `pinned` are the keys that the changed knobs pin: such a key, and everything below it, is explained.
    """
    if any(key == each or key.startswith(f"{each}.") for each in pinned):
        return True
    found = words(key)
    return any(_explains(change, found) for change in changes)


def _explains(change: Change, found: frozenset[str]) -> bool:
    group, _, name = change.knob.rpartition(".")
    if words(name) <= found:
        return True
    for owner, consequences in ALWAYS.items():
        if found & consequences and (change.knob == owner or change.knob.startswith(f"{owner}.")):
            return True
    if group == "quantization":
        return name == "method" and _switches(change) and _is_linear_kernel(found)
    if group == "drafting":
        return bool(found & KERNEL_WORDS) and not found & LINEAR_WORDS
    return False


def _switches(change: Change) -> bool:
    return (change.before in OFF) != (change.after in OFF)


def _is_linear_kernel(found: frozenset[str]) -> bool:
    return bool(found & LINEAR_WORDS) or bool(found & KERNEL_WORDS and not found & OTHER_KERNELS)
