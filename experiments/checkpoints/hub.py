"""A checkpoint of the Hugging Face hub: its revision pinned to a commit, its files in the hub's own cache.

`huggingface_hub` does the work (it comes with transformers): its cache, its layout, its token and its
settings hold (`HF_HOME`, `HF_HUB_CACHE`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`, `hf auth login`). The hub is asked
only for a model that a user names by an id. Where it does not answer, what the cache holds of the revision
is taken, and that is said.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from configs.errors import UsageError
from configs.model_names import COMMIT, HubName
from experiments.checkpoints.hub_words import Silence, gated, in_words, incomplete, no_model, no_revision

DESCRIPTION_FILES = ("*.json", "*.jinja", "merges.txt", "vocab.txt", "tokenizer.model")
"""Files that say what a checkpoint is: its shape, its tokenizer, its index. Megabytes at most."""

WEIGHT_FILES = ("*.safetensors",)
"""Files that hold its weights."""

LEFT_OUT = ("*/*", "consolidated*.safetensors")
"""What lies in folders of a repository, and a second copy of the weights that some have."""

ANSWER_LIMIT_S = 10.0
"""Seconds within which the hub must begin to answer, the library's own default."""

CONFIG_FILE = "config.json"
INDEX_FILE = "model.safetensors.index.json"
SINGLE_WEIGHT_FILE = "model.safetensors"


@dataclass(frozen=True)
class HubPlace:
    """Where the hub and its cache are; None and False leave it to huggingface_hub's own settings."""

    endpoint: str | None = None
    cache_dir: Path | None = None
    offline: bool = False


@dataclass(frozen=True)
class HubCheckpoint:
    """A checkpoint of the hub in the cache: `commit` is the full hash that `name.revision` stood for.

    `weight_bytes` are those of its weight files, as far as the hub or the cache tells (None: not known).
    `note` says, in a sentence, why the cache's word was taken for the hub's.
    """

    name: HubName
    commit: str
    folder: Path
    weight_bytes: int | None = None
    note: str | None = None


def fetch(name: HubName, *, weights: bool = True, place: HubPlace | None = None) -> HubCheckpoint:
    """Pin the revision to a commit and bring its files into the cache; without `weights` only those that
    describe it.

    Raises `UsageError` where there is no such model or revision, `DiskFull` when the cache's disk is full,
    and `AutoinferError` for one that is gated, or neither cached whole nor reachable.
    """
    hub, place = _library(), place or HubPlace()
    endpoint = place.endpoint or hub.constants.ENDPOINT
    told, silence = _listing(hub, name, endpoint, place)
    cached = Path(place.cache_dir or hub.constants.HF_HUB_CACHE).expanduser()
    patterns = [*DESCRIPTION_FILES, *(WEIGHT_FILES if weights else ())]
    try:
        with _bars(hub, shown=weights):
            folder = Path(
                hub.snapshot_download(
                    name.repo,
                    revision=name.revision,
                    cache_dir=cached,
                    endpoint=endpoint,
                    local_files_only=silence is not None,
                    allow_patterns=patterns,
                    ignore_patterns=list(LEFT_OUT),
                )
            )
    except Exception as error:
        raise in_words(hub.errors, error, name, endpoint, cached, silence) from None
    missing = missing_files(folder, weights=weights)
    if missing:
        raise incomplete(name, folder, missing, silence)
    note = None if silence is None else f"The revision is the cache's, because {silence.why}."
    return HubCheckpoint(name, folder.name, folder, _weight_bytes(told, folder), note)


def check_shown(name: HubName, place: HubPlace | None = None) -> None:
    """Raise `UsageError` where the hub answers and shows no such model or revision. Fetches nothing."""
    hub, place = _library(), place or HubPlace()
    endpoint = place.endpoint or hub.constants.ENDPOINT
    _, silence = _listing(hub, name, endpoint, place)
    if silence is not None and silence.shows_nothing and not gated(hub.errors, silence):
        raise no_model(name, endpoint)


def missing_files(folder: Path, *, weights: bool = True) -> list[str]:
    """The files that a checkpoint's folder lacks of those that it must have: its configuration, and each file
    that its index names."""
    wanted = [CONFIG_FILE]
    if weights:
        index = folder / INDEX_FILE
        try:
            told = json.loads(index.read_text(encoding="utf-8")) if index.is_file() else None
        except (OSError, ValueError):
            told = None
        files = told.get("weight_map") if isinstance(told, dict) else None
        wanted += sorted({str(each) for each in files.values()}) if isinstance(files, dict) else []
        if not isinstance(files, dict) and not any(each.is_file() for each in folder.glob(WEIGHT_FILES[0])):
            wanted.append(SINGLE_WEIGHT_FILE)
    return [each for each in wanted if not (folder / each).is_file()]


def pinned_in(folder: Path) -> HubName | None:
    """The model and commit that a folder of the hub's cache is of, by its path; None for any other folder."""
    repository = folder.parent.parent.name
    if folder.parent.name != "snapshots" or not COMMIT.fullmatch(folder.name):
        return None
    kind, _, rest = repository.partition("--")
    owner, _, name = rest.partition("--")
    return HubName(f"{owner}/{name}", folder.name) if kind == "models" and owner and name else None


def cached_here(name: HubName) -> Path | None:
    """The folder that this machine's cache has of a commit, with what describes the model; None where it has
    none. Asks nobody."""
    try:
        from huggingface_hub import constants
    except ImportError:
        return None
    folder = Path(constants.HF_HUB_CACHE).expanduser() / f"models--{name.repo.replace('/', '--')}"
    folder = folder / "snapshots" / name.revision
    return folder if (folder / CONFIG_FILE).is_file() else None


def _library() -> ModuleType:
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors, utils  # noqa: F401 - loaded as attributes below
    except ImportError:
        raise UsageError(
            "A model of the hub needs huggingface_hub, which is not installed.",
            "Install it with: pip install 'autoinfer[reference]', or name a folder.",
        ) from None
    return huggingface_hub


def _listing(hub: Any, name: HubName, endpoint: str, place: HubPlace) -> tuple[Any, Silence | None]:
    """As `_asked`, of a hub that may not be asked too."""
    if place.offline or hub.constants.HF_HUB_OFFLINE:
        return None, Silence("HF_HUB_OFFLINE is set")
    return _asked(hub, name, endpoint)


def _asked(hub: Any, name: HubName, endpoint: str) -> tuple[Any, Silence | None]:
    """What the hub tells of the revision, or why it told nothing.

    Raises `UsageError` for a revision that the hub does not have.
    """
    try:
        api = hub.HfApi(endpoint=endpoint)
        found = api.model_info(name.repo, revision=name.revision, files_metadata=True, timeout=ANSWER_LIMIT_S)
    except hub.errors.RevisionNotFoundError:
        raise no_revision(name) from None
    except Exception as error:  # the library hands on whatever its HTTP client raises
        status = getattr(getattr(error, "response", None), "status_code", None)
        answer = "does not answer" if status is None else f"answered {status}"
        return None, Silence(f"{endpoint} {answer}", error)
    return found, None


@contextmanager
def _bars(hub: Any, shown: bool) -> Iterator[None]:
    """Within it the library draws no progress bars, unless `shown`."""
    if shown or hub.utils.are_progress_bars_disabled():
        yield
        return
    hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        hub.utils.enable_progress_bars()


def _weight_bytes(told: Any, folder: Path) -> int | None:
    """Bytes of the weight files: as the hub's listing has them, else as they lie here, else by the index."""
    listed = [
        each.size
        for each in getattr(told, "siblings", None) or ()
        if each.rfilename.endswith(".safetensors") and "/" not in each.rfilename and each.size
    ]
    here = [each.stat().st_size for each in folder.glob(WEIGHT_FILES[0])]
    return sum(listed) or sum(here) or None
