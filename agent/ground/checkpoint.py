"""From what a user calls a model to the folder of its checkpoint: packaged, their own, or the hub's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.ground.stored_spec import REFERENCE
from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from configs.model_names import REVISION_MARK, HubName, at_address, hub_name
from experiments.checkpoints.hub import HubCheckpoint, HubPlace, check_shown, fetch, pinned_in
from experiments.reference_model.load import reference_model_path


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was found: its folder, absolute, and where the hub's cache has it from.

    `source` names model and revision as they were asked for, `commit` what that was pinned to, both None for
    a folder that is not the hub's. `note` says what to know of how it was found; `weight_bytes` are those of
    the hub's listing.
    """

    folder: Path
    source: HubName | None = None
    commit: str | None = None
    note: str | None = None
    weight_bytes: int | None = None

    def as_found(self) -> dict[str, str] | None:
        """What a stored campaign keeps of the hub; None for a folder that is not the hub's."""
        if self.source is None or self.commit is None:
            return None
        return {"repo": self.source.repo, "revision": self.source.revision, "commit": self.commit}


def find_checkpoint(model: str, *, weights: bool = True) -> Checkpoint:
    """The checkpoint that `model` names; a folder comes before a model of the hub of the same name.

    A model of the hub is fetched, without `weights` only what describes it; one that lay in its cache when
    a campaign began, and does no more, is fetched again by its commit. Raises `AutoinferError` with what to
    do for what is not there.
    """
    if model == REFERENCE:
        return Checkpoint(reference_model_path())
    named = _named(model)
    if isinstance(named, Path):
        pinned = pinned_in(named)
        return Checkpoint(named, pinned, None if pinned is None else pinned.revision)
    name, place = named
    return _of(fetch(name, weights=weights, place=place))


def check_there(model: str) -> None:
    """Raise `UsageError` for what names no checkpoint: nothing that lies here, and no model that the hub
    shows. Fetches nothing."""
    if model == REFERENCE:
        return
    named = _named(model)
    if not isinstance(named, Path):
        check_shown(*named)


def _named(model: str) -> Path | tuple[HubName, HubPlace]:
    """The folder, absolute, or the model of the hub and its cache that `model` names; raises `UsageError`
    for what can be neither."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if folder.is_file():
        raise UsageError(f"{model} is a file, and a checkpoint is a folder.", _NAME_ONE)
    name, place = hub_name(model), HubPlace()
    if name is None and (name := pinned_in(folder)) is not None:
        place = HubPlace(cache_dir=folder.parents[2])
    if name is not None:
        return name, place
    if model in packaged_names(Kind.MODELS):
        raise UsageError(
            f"{model} is the shape of a model, without weights.",
            "A campaign needs them: name a folder, or a model of the hub (OWNER/NAME). Without them its "
            f"times can be had on a GPU (--weights dummy), or planned: autoinfer plan --model {model}",
        )
    _refuse_a_slip(model)
    raise UsageError(f"There is no checkpoint folder {model}.", _NAME_ONE)


_NAME_ONE = (
    "Name a folder with config.json and *.safetensors, a model of the hub (OWNER/NAME or "
    f"OWNER/NAME@REVISION), or the packaged model: {REFERENCE}"
)


def _refuse_a_slip(model: str) -> None:
    """Raise `UsageError` for a model's address in place of its id, and for a folder with a revision."""
    called = at_address(model)
    if called is not None:
        raise UsageError(f"{model} is an address, not a model's id.", f"Write: --model {called}")
    path, mark, revision = model.rpartition(REVISION_MARK)
    if mark and path and Path(path).expanduser().is_dir():
        raise UsageError(
            f"{path} is a folder, which has no revision {revision!r}: only models of the hub have revisions.",
            f"Write: --model {path}",
        )


def _of(found: HubCheckpoint) -> Checkpoint:
    return Checkpoint(found.folder, found.name, found.commit, found.note, found.weight_bytes)
