"""`hf:NAME[@REVISION][:SPLIT]`: a data set of the Hugging Face hub, or a folder, read by `datasets`.

Rows are streamed, so that of a large data set only the beginning is downloaded. Without a revision the
current one is asked for once in a process, and its name becomes part of what the corpus is.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from experiments.corpora.calibration.finite import draw_from
from experiments.corpora.calibration.records import record_text
from experiments.corpora.calibration.source import Ask, CalibrationText, CorpusSource, Drawn, SourceKind
from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json

PREFIX = "hf"

DEFAULT_SPLIT = "train"

ROWS_MAX = 20_000
"""Rows read at most: the texts are drawn from the beginning of the data set."""

POOL_FACTOR = 4
"""Rows are read until there are so many times the characters needed: then the seed has something to
choose."""

CHARS_PER_TOKEN = 8
"""So many characters are counted for a token: more than text has, so that it suffices."""

HUB_TIMEOUT_S = 20.0
"""The hub answers in well under a second; a machine without a network should not wait long."""

OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
"""Environment variables by which a user forbids downloads."""

_FOLDER_BEGINNINGS = ("/", "./", "../", "~")

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)
_REVISION = re.compile(r"[\w./-]+", re.ASCII)
_SPLIT = re.compile(r"[\w.-]+", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")

Row = Mapping[str, object]
Loader = Callable[[str, str | None, str], Iterable[Row]]
"""Gives the rows of a data set by name (or folder), revision and split."""


@dataclass(frozen=True)
class HubDataset:
    """A data set; `load` reads it."""

    name: str
    revision: str | None
    split: str
    load: Loader

    @property
    def canonical(self) -> str:
        """The spec with its split written out."""
        return f"{PREFIX}:{self.name}{f'@{self.revision}' if self.revision else ''}:{self.split}"

    def identity(self, device: str) -> Mapping[str, Json]:
        """Name, split, and the commit or, of a folder, the digest of its files; asks the hub if it must."""
        if self.is_folder:
            return {
                "corpus": PREFIX,
                "folder": folder_digest(Path(self.name).expanduser()),
                "split": self.split,
            }
        return {"corpus": PREFIX, "name": self.name, "revision": self._commit(), "split": self.split}

    def draw(self, ask: Ask) -> Drawn:
        """Texts of the first rows, in an order of the seed."""
        revision = None if self.is_folder else self._commit()
        name = str(Path(self.name).expanduser()) if self.is_folder else self.name
        wanted_chars = POOL_FACTOR * CHARS_PER_TOKEN * ask.samples * ask.sample_tokens
        found = list(self._texts(self.load(name, revision, self.split), wanted_chars))
        rows = [row for row, _ in found]
        drawn = draw_from([text for _, text in found], ask, self.canonical, lambda k: self._row(rows[k]))
        at = f", revision {revision[:12]}" if revision else ""
        return Drawn(drawn.documents, f"{drawn.described}{at}")

    @property
    def is_folder(self) -> bool:
        """Whether the name is a folder of this machine: it begins with /, ./, ../ or ~."""
        return self.name.startswith(_FOLDER_BEGINNINGS)

    def _row(self, number: int) -> str:
        return f"Row {number} of the data set {self.canonical}"

    def _texts(self, rows: Iterable[Row], wanted_chars: int) -> Iterator[tuple[int, CalibrationText]]:
        """Each text with the number of its row."""
        read = iter(rows)
        for number in range(1, ROWS_MAX + 1):
            row = next(read, None) if wanted_chars > 0 else None
            if row is None:
                return
            try:
                text = record_text({name: value for name, value in row.items() if value is not None})
            except ValueError as cause:
                raise Infeasible("illegal", f"{self._row(number)} {cause}.") from None
            if text is not None:
                parts = [text] if isinstance(text, str) else [message["content"] for message in text]
                wanted_chars -= sum(map(len, parts))
                yield number, text

    def _commit(self) -> str:
        if self.revision and _COMMIT.fullmatch(self.revision):
            return self.revision
        return current_commit(self.name, self.revision)


def folder_digest(folder: Path) -> str:
    """SHA-256 of the names and contents of a folder's files, hidden ones left out.

    Raises:
        Infeasible: kind `illegal`, when there is no such folder or it can't be read.
    """
    if not folder.is_dir():
        raise Infeasible(
            "illegal", f"There is no data set at {folder.absolute()}: give a folder that exists."
        )
    digest = hashlib.sha256()
    try:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            relative = path.relative_to(folder)
            if not any(part.startswith(".") for part in relative.parts):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{relative.as_posix()}\0{content}\n".encode())
    except OSError as cause:
        raise Infeasible("illegal", f"The data set at {folder} can't be read: {cause}.") from None
    return digest.hexdigest()


@lru_cache(maxsize=64)
def current_commit(name: str, revision: str | None) -> str:
    """The commit that a branch or tag (the main one if None) of a data set on the hub is at.

    Raises:
        Infeasible: as `load_rows`.
    """
    _refuse_offline(name)
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise _not_installed() from None
    try:
        commit = HfApi().dataset_info(name, revision=revision, timeout=HUB_TIMEOUT_S).sha
    except Exception as cause:  # errors of the hub, of HTTP and of sockets
        raise _refused(name, cause) from None
    if not commit:
        raise Infeasible("illegal", f"The hub tells no revision of the data set {name}.")
    return commit


def load_rows(name: str, revision: str | None, split: str) -> Iterator[Row]:
    """The rows of a data set, streamed.

    Raises:
        Infeasible: kind `unsupported` where `datasets` is missing or the hub can't be reached, `illegal` for
            a data set or split that is not there.
    """
    if not name.startswith(_FOLDER_BEGINNINGS):
        _refuse_offline(name)
    elif not Path(name).is_dir():
        raise Infeasible("illegal", f"There is no data set at {name}: give a folder that exists.")
    try:
        import datasets
    except ImportError:
        raise _not_installed() from None
    try:
        datasets.disable_progress_bars()
        yield from datasets.load_dataset(name, revision=revision, split=split, streaming=True)
    except Exception as cause:  # errors of the hub, of HTTP, of file formats
        raise _refused(name, cause) from None


def _refuse_offline(name: str) -> None:
    for variable in OFFLINE_VARIABLES:
        if os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE"):
            raise Infeasible(
                "unsupported",
                f"The data set {name} would have to be downloaded, and {variable} forbids it: "
                "unset it, or give a file with user:PATH.",
            )


def _not_installed() -> Infeasible:
    return Infeasible(
        "unsupported",
        "A corpus hf:NAME needs the package datasets, which is not installed: pip install 'autoinfer[hub]'.",
    )


def _refused(name: str, cause: Exception) -> Infeasible:
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    reason = lines[0].rstrip(".") if lines else type(cause).__name__
    if _unreachable(cause):
        return Infeasible(
            "unsupported",
            f"The data set {name} can't be downloaded, the hub is not to be reached ({reason}): "
            "connect this machine, or give a file with user:PATH.",
        )
    return Infeasible("illegal", f"The data set {name} can't be read: {reason}.")


def _unreachable(cause: BaseException | None) -> bool:
    """Tell whether the network is the cause, of the libraries that `datasets` may use for it."""
    while cause is not None:
        names = {each.__name__ for each in type(cause).__mro__}
        if isinstance(cause, ConnectionError | TimeoutError) or names & {"TransportError", "ClientError"}:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def parse(argument: str | None) -> CorpusSource:
    """The source of `hf:NAME[@REVISION][:SPLIT]`."""
    name, _, split = (argument or "").partition(":")
    revision = ""
    if not name.startswith(_FOLDER_BEGINNINGS):
        name, at, revision = name.partition("@")
        known = _NAME.fullmatch(name) and (not at or _REVISION.fullmatch(revision))
    else:
        known = True
    split = split or DEFAULT_SPLIT
    if not known or not _SPLIT.fullmatch(split):
        raise Infeasible(
            "illegal",
            f"hf:{argument or ''} names no data set: write hf:owner/name, with :split or @revision after it "
            "if need be.",
        )
    return HubDataset(name, revision or None, split, load_rows)


KIND = SourceKind(
    PREFIX,
    "hf:NAME[:split]",
    "A data set of the Hugging Face hub (or a folder), read by datasets; NAME@REVISION pins it. "
    "Needs the extra hub.",
    parse,
)
