"""The drafter that a campaign was given, which decides how it drafts: a folder, or a model of the hub."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from configs.campaign import CampaignSpec
from configs.errors import AutoinferError, UsageError
from configs.model_names import HubName, hub_name
from configs.model_types import QWEN3_5_TYPES
from experiments.checkpoints.hub import HubPlace, fetch, pinned_in
from experiments.drafters.dflash.config import ARCHITECTURE, read_shape
from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import DraftingOrder, check_drafter
from experiments.engines.reference.inspection import CONFIG_FILE, inspect_checkpoint, json_object
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.job.drafter_identity import drafter_identity
from experiments.space.configuration import Configuration
from experiments.space.legality import DRAFTER, PACKAGED, OwnDrafter
from experiments.space.loading import load_space
from experiments.space.space import Space

HINT = (
    "Name a folder, or a model of the hub, with a DFlash drafter, or a smaller Qwen3.5 checkpoint, of the "
    "model's vocabulary: --drafter DIR, or --drafter OWNER/NAME"
)


def drafter_of(spec: CampaignSpec) -> OwnDrafter | None:
    """The campaign's own drafter, by what its config.json says; None where it was given none.

    Of one of the hub nothing but what describes it is fetched. Raises `UsageError` for a folder that is not
    there or holds no drafter, and as `fetch` for one of the hub.
    """
    if spec.drafter is None:
        return None
    folder = _folder(spec.drafter)
    if not folder.is_dir():
        raise UsageError(f"There is no drafter at {folder}: the folder does not exist.", HINT)
    try:
        config = json_object(folder / CONFIG_FILE, "drafter")
        if ARCHITECTURE in (config.get("architectures") or []):
            return OwnDrafter("dflash", str(folder), read_shape(folder, built_here=False).block_tokens - 1)
    except Infeasible as reason:
        raise UsageError(reason.cause, HINT) from None
    if config.get("model_type") in QWEN3_5_TYPES:
        return OwnDrafter("draft_model", str(folder))
    raise UsageError(
        f"The folder {folder} holds no drafter: its {CONFIG_FILE} names neither the architecture "
        f"{ARCHITECTURE} nor the type {' or '.join(QWEN3_5_TYPES)}.",
        HINT,
    )


def fetch_weights(spec: CampaignSpec) -> str | None:
    """Bring the weights of a drafter of the hub into its cache; what it was pinned to, in a sentence. Nothing
    for a folder. Raises as `fetch`."""
    name = None if spec.drafter is None else _named_on_the_hub(spec.drafter)
    if name is None:
        return None
    pinned = pinned_in(_described(name))
    found = fetch(name if pinned is None else pinned)
    return f"The drafter is {name.repo}, commit {found.commit}."


def _folder(named: str) -> Path:
    """The folder that a user calls a drafter, absolute; one here comes before a model of the hub."""
    name = _named_on_the_hub(named)
    return Path(named).expanduser().resolve() if name is None else _described(name)


def _named_on_the_hub(named: str) -> HubName | None:
    return None if Path(named).expanduser().is_dir() else hub_name(named)


@cache
def _described(name: HubName) -> Path:
    """The folder with what describes a model of the hub; asked once: a process keeps to one commit."""
    return fetch(name, weights=False).folder


def with_whole_path(assignment: str) -> str:
    """The assignment, with a drafter's folder as it is from the root: whoever tests it stands elsewhere.

    A model of the hub is taken out of its cache, for nothing is fetched while a hypothesis is asked. Raises
    `UsageError` for one that is not there.
    """
    knob, equals, value = (part.strip() for part in assignment.partition("="))
    if knob != DRAFTER or not equals or not value or value == PACKAGED:
        return assignment
    name = _named_on_the_hub(value)
    if name is None:
        return f"{knob}={Path(value).expanduser().absolute()}"
    try:
        return f"{knob}={fetch(name, place=HubPlace(offline=True)).folder}"
    except AutoinferError:
        raise UsageError(
            f"There is no folder {value}, and no model of that name in the hub's cache.",
            f"Name a folder with a slash before it, ./{value}, or fetch the model: hf download {name.repo}",
        ) from None


def drafter_content(control: Configuration, candidate: Configuration) -> str:
    """What is in the external drafters of two arms now, as a digest: a folder may be trained again in place,
    and is another drafter then. Empty where none drafts, or what drafts is not on this machine."""
    found = [drafter_identity(arm).get("drafter") for arm in (control, candidate)]
    if not any(found):
        return ""
    return hashlib.sha256("\n".join(str(each or "") for each in found).encode()).hexdigest()


def check_fits(drafter: OwnDrafter, checkpoint: Path, *, built_here: bool = True) -> None:
    """Raise `UsageError` when this drafter has no weights, or another vocabulary or hidden size than this
    checkpoint, or, where it is `built_here` and not run by an engine's own code, what is not built.

    Reads configurations, headers and tokenizers, loads no weights.
    """
    try:
        order = DraftingOrder(drafter.method, 1, drafter.folder)
        check_drafter(order, inspect_checkpoint(checkpoint), built_here=built_here)
    except Infeasible as reason:
        raise UsageError(reason.cause, HINT) from None
    if stored_parameters(Path(drafter.folder)) is None:
        raise UsageError(f"The drafter at {drafter.folder} has no *.safetensors that can be read.", HINT)


def space_of(spec: CampaignSpec) -> Space:
    """The campaign's space, with its own drafter as one more value and the default of `drafting.drafter`.

    Raises `UsageError` as `drafter_of`, and for a space in which no drafter can be chosen.
    """
    space, drafter = load_space(spec.space), drafter_of(spec)
    if drafter is None:
        return space
    if not any(knob.name == DRAFTER for knob in space.knobs):
        raise UsageError(
            f"The space {spec.space} has no knob {DRAFTER}, so the drafter at {drafter.folder} could never "
            "be used.",
            "Run a campaign over the space levers, such as `autoinfer run levers`, or leave the drafter out.",
        )
    return space.taking(DRAFTER, drafter.folder)
