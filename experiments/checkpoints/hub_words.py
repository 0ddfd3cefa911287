"""What went wrong at the hub, in a sentence with what to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from configs.errors import AutoinferError, DiskFull, UsageError
from configs.model_names import HubName
from experiments.disk import is_full

SHOWS_NOTHING = (401, 403, 404)
"""Status codes with which the hub answers for what is not there, and for what an account may not see."""

MOST_CAUSES = 8
"""How far back a chain of errors is followed."""


@dataclass(frozen=True)
class Silence:
    """Why the hub told nothing, as a clause, and the error that it was."""

    why: str
    error: Exception | None = None

    @property
    def shows_nothing(self) -> bool:
        """Whether the hub did answer, and shows no such model to this account."""
        return getattr(getattr(self.error, "response", None), "status_code", None) in SHOWS_NOTHING


def in_words(
    errors: ModuleType, error: Exception, name: HubName, endpoint: str, cached: Path, silence: Silence | None
) -> AutoinferError:
    """The sentence for what fetching raised; `errors` are the library's own, `cached` is its cache.

    `silence` is why only the cache was looked at.
    """
    causes = [*_chain(error), *(_chain(silence.error) if silence and silence.error else [])]
    if any(isinstance(each, errors.GatedRepoError) for each in causes):
        return AutoinferError(
            f"{name.repo} is gated: its owners give it only to accounts that asked for it.",
            f"Ask for it at {endpoint}/{name.repo}, then log in here: hf auth login",
        )
    if any(isinstance(each, errors.RevisionNotFoundError) for each in causes):
        return no_revision(name)
    if any(is_full(each) for each in causes):
        return DiskFull(
            f"The disk of the hub's cache {cached} is full: {name.repo} does not fit.",
            "Free some space, or set HF_HUB_CACHE to a folder on another disk.",
        )
    if silence is None:
        return AutoinferError(
            f"{name} could not be fetched from {endpoint}: {_first_words(error)}.",
            "Give the same command again: it goes on where it ended. Or name a folder.",
        )
    if silence.shows_nothing:
        return no_model(name, endpoint)
    # a newer library tells an incomplete cache apart, an older one leaves that to `missing_files`
    if type(error).__name__ == "IncompleteSnapshotError":
        return AutoinferError(
            f"The hub's cache ({cached}) holds only a part of {name}, and {silence.why}.", _GO_ON
        )
    return AutoinferError(
        f"{name} is not in the hub's cache ({cached}), and {silence.why}.",
        "Connect, or fetch it elsewhere and name its folder: --model DIR",
    )


def gated(errors: ModuleType, silence: Silence) -> bool:
    """Whether the hub told nothing because the model is given only to accounts that asked for it."""
    causes = [] if silence.error is None else _chain(silence.error)
    return any(isinstance(each, errors.GatedRepoError) for each in causes)


def no_model(name: HubName, endpoint: str) -> UsageError:
    """The hub answered, and shows no such model."""
    return UsageError(
        f"The hub at {endpoint} shows no model {name.repo}: there is none, or it is private.",
        "Check its name; for a private one log in: hf auth login. Or name a folder.",
    )


def no_revision(name: HubName) -> UsageError:
    """The hub has the model, and not the revision."""
    return UsageError(
        f"{name.repo} has no revision {name.revision!r}.",
        f"Name a branch, a tag or a commit of it, or leave it out for the newest: {name.repo}",
    )


def incomplete(name: HubName, folder: Path, missing: list[str], silence: Silence | None) -> AutoinferError:
    """A snapshot that lacks files: of a cache that is not whole, or of a model that never had them."""
    more = "" if len(missing) == 1 else f" and {len(missing) - 1} more"
    if silence is not None:
        return AutoinferError(
            f"The hub's cache holds only a part of {name}: {missing[0]}{more} is missing in {folder}, and "
            f"{silence.why}.",
            _GO_ON,
        )
    return UsageError(
        f"{name} is no checkpoint that can be served: it has no {missing[0]}{more}.",
        "Name a model whose weights are *.safetensors.",
    )


_GO_ON = "Connect and give the same command again: it fetches the rest."


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what caused it, one behind the other."""
    found: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and len(found) < MOST_CAUSES:
        found.append(at)
        at = at.__cause__ or at.__context__
    return found


def _first_words(error: Exception) -> str:
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
