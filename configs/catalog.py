"""The packaged YAML: which files there are of each kind, and reading one by name or by path."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files
from pathlib import Path

from configs.errors import PermissionRefused, UsageError
from configs.validation import nearest, parse_yaml

_SUFFIXES = (".yaml", ".yml")


class Kind(Enum):
    """What is packaged: the value is the folder."""

    MODELS = "models"
    HARDWARE = "hardware"
    SPACES = "spaces"
    CAMPAIGNS = "campaigns"
    GRIDS = "grids"
    PRICES = "prices"

    @property
    def word(self) -> str:
        """One of the kind, as it stands in a sentence."""
        words = {Kind.MODELS: "model profile", Kind.HARDWARE: "hardware profile",
                 Kind.SPACES: "space", Kind.CAMPAIGNS: "campaign", Kind.GRIDS: "grid",
                 Kind.PRICES: "price list"}  # fmt: skip
        return words[self]


@dataclass(frozen=True)
class Document:
    """A YAML file's data and the place it came from, as errors name it."""

    data: object
    where: str


@cache
def packaged_names(kind: Kind) -> tuple[str, ...]:
    """The names of the packaged files of a kind, without suffix, sorted."""
    folder = files("configs") / "packaged" / kind.value
    return tuple(sorted(e.name.removesuffix(".yaml") for e in folder.iterdir() if e.name.endswith(".yaml")))


def read_document(kind: Kind, name_or_path: str | Path) -> Document:
    """The file of this name among the packaged ones, or at this path (one that ends in .yaml or .yml).

    Raises `UsageError` for an unknown name (with the nearest), a missing file and text that is no YAML;
    `PermissionRefused` when the file may not be read.
    """
    name = str(name_or_path)
    if name in packaged_names(kind):
        text = (files("configs") / "packaged" / kind.value / f"{name}.yaml").read_text(encoding="utf-8")
        where = f"The packaged {kind.word} {name}"
    elif name.endswith(_SUFFIXES):
        text, where = _read(Path(name).expanduser()), f"The file {name}"
    else:
        raise UsageError(
            f"There is no {kind.word} {name!r}.",
            nearest(name, packaged_names(kind), otherwise="Name a .yaml file, or one of those packaged:"),
        )
    return Document(parse_yaml(text, where), where)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"There is no file {path}.", "Check the path.") from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder, not a file.", "Name the file in it.") from None
    except PermissionError:
        raise PermissionRefused(f"The file {path} may not be read.", "Ask its owner.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The file {path} is not UTF-8 text.", "Save it as UTF-8.") from None
