"""Whether the launches of a test fit into memory side by side, from headers alone. Imports no torch."""

from __future__ import annotations

from math import prod
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder, drafter_folder
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint, tensor_headers
from experiments.engines.reference.packed_layout import packed_modules
from experiments.engines.reference.stored_weights import part_of
from experiments.shapes.drafter import made_up_parameters
from experiments.stages.pruning.room import ITEM_BYTES, PROCESS_BYTES

LAUNCHES_AT_ONCE = 2
"""Launches of a test that are up at once: control and candidate."""

HEADROOM = 1.1
"""Weights are counted with a tenth more, for states, activations and what is read while it is converted."""


def served_parameters(files: CheckpointFiles, *, head: bool = False) -> int:
    """Parameters that a launch holds: those of the text model, dequantized, and of the MTP head if `head`.

    Raises `Infeasible` as `packed_modules` and `CheckpointFiles.headers` do.
    """
    modules = packed_modules(files).values()
    packed = {part for module in modules for part in module.parts}
    left_out = {"vision"} if head else {"vision", "mtp"}
    dense: int = sum(
        prod(entry["shape"])
        for name, entry in files.headers().items()
        if name not in packed and part_of(name) not in left_out
    )
    return dense + sum(module.outputs * module.inputs for module in modules)


def drafter_parameters(order: DraftingOrder, target: Path | None = None) -> int:
    """Parameters of a drafter in a folder of its own for the checkpoint `target`; 0 where there is none.

    Raises `Infeasible` as `served_parameters`, and as `drafter_folder`.
    """
    if order.method == "draft_model":
        return served_parameters(inspect_checkpoint(drafter_folder(order, target)))
    if order.method != "dflash":
        return 0
    folder = drafter_folder(order, target)
    if (made_up := made_up_parameters(folder)) is not None:
        return made_up
    files = sorted(folder.glob("*.safetensors"))
    return sum(prod(entry["shape"]) for path in files for entry in tensor_headers(path).values())


def check_fits(
    parameters: int, dtype: str, available_bytes: int, *, drafter_parameters: int = 0, launches: int = 1
) -> None:
    """Whether so many launches of a model of `parameters`, each with its drafter, fit into what is available.

    Raises:
        Infeasible: kind `out_of_memory`, with the figures.
    """
    weights = (parameters + drafter_parameters) * ITEM_BYTES[dtype]
    needed = launches * (round(HEADROOM * weights) + PROCESS_BYTES)
    if needed <= available_bytes:
        return
    drafter = f" and {drafter_parameters / 1e6:,.0f} million of its drafter" if drafter_parameters else ""
    what = "A launch takes" if launches == 1 else f"{launches} launches side by side take"
    raise Infeasible(
        "out_of_memory",
        f"{what} {needed / 1e9:.1f} GB ({parameters / 1e6:,.0f} million "
        f"parameters{drafter} in {dtype}, with room for the processes), and {available_bytes / 1e9:.1f} GB "
        "are available: free some, take a smaller model or serving.dtype=bfloat16, or another target.",
    )
