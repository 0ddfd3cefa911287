"""What a user may call a model: a packaged name, a folder, or an id of the Hugging Face hub. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from configs.errors import UsageError

REVISION_MARK = "@"
"""Stands between a hub id and the revision that is asked for: `Qwen/Qwen3.5-4B@main`."""

DEFAULT_REVISION = "main"
"""The branch that a hub id without a revision means."""

COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
"""A full commit hash, which names one state of a repository for good."""

_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
_ID = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_LIKE_A_PATH = ("/", "./", "../", "~", ".\\")


_ADDRESS = re.compile(
    rf"(?:hf://|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)({_ID.pattern})"
    r"(?:/(?:tree|blob|resolve)/([^/?#\s]+))?(?:[/?#].*)?",
    re.ASCII,
)


@dataclass(frozen=True)
class HubName:
    """A model of the hub: `repo` is `owner/name`, `revision` the branch, tag or commit that was asked for."""

    repo: str
    revision: str = DEFAULT_REVISION

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a full commit hash."""
        return COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return f"{self.repo}{REVISION_MARK}{self.revision}"


def hub_name(text: str) -> HubName | None:
    """The hub's model that `text` names; None for what can only be a path or a packaged name.

    Whether a folder of that name lies here is the caller's to look at first: `owner/name` may be either.
    Raises `UsageError` for an id whose revision is empty or can be none.
    """
    repo, mark, revision = text.partition(REVISION_MARK)
    if text.startswith(_LIKE_A_PATH) or _ID.fullmatch(repo) is None or ".." in repo or "--" in repo:
        return None
    if not mark:
        return HubName(repo)
    if not revision or revision != revision.strip() or not revision.isprintable() or ".." in revision:
        raise UsageError(
            f"{text!r} names no revision of {repo}.",
            f"Write a branch, a tag or a commit after the {REVISION_MARK}, or leave both out.",
        )
    return HubName(repo, revision)


def at_address(text: str) -> str | None:
    """The id, with the revision where there is one, of the model whose page of the hub `text` is the address
    of, such as `https://huggingface.co/Qwen/Qwen3.5-4B/tree/main`; None for what is no such address."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        return None
    repo, revision = found.groups()
    return repo if revision is None else f"{repo}{REVISION_MARK}{revision}"
