"""The manifest of an artifact: its key, every file with size and SHA-256; and writing it so that it lasts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from experiments.artifacts.key import ArtifactKey

MANIFEST_NAME = "manifest.json"
FILES_FOLDER = "files"
MANIFEST_VERSION = 1


@dataclass(frozen=True)
class StoredFile:
    """One file of an artifact: its path below `files/`, bytes, and SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an artifact is made of and of what; `created_at` is ISO 8601, UTC; `build_s` in seconds."""

    key: ArtifactKey
    files: tuple[StoredFile, ...]
    build_s: float
    created_at: str

    @property
    def bytes(self) -> int:
        """The size of all files together."""
        return sum(file.bytes for file in self.files)


def describe(key: ArtifactKey, folder: Path, build_s: float, created_at: str) -> Manifest:
    """Return the manifest of the files below `folder`, after writing each through to the disk."""
    files = []
    for path in _files_below(folder):
        sync(path)
        files.append(StoredFile(str(path.relative_to(folder)), path.stat().st_size, _sha256(path)))
    for path in (folder, *(each for each in folder.rglob("*") if each.is_dir())):
        sync(path)
    return Manifest(key, tuple(files), build_s, created_at)


def files_of(key: ArtifactKey, folder: Path, names: Sequence[str], created_at: str) -> Manifest:
    """Return the manifest of these files of a folder that somebody else wrote."""
    files = [StoredFile(name, (folder / name).stat().st_size, _sha256(folder / name)) for name in names]
    return Manifest(key, tuple(files), 0.0, created_at)


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write `manifest.json` into `folder`, through to the disk."""
    path = folder / MANIFEST_NAME
    path.write_bytes(manifest_json(manifest))
    sync(path)
    sync(folder)


def manifest_json(manifest: Manifest) -> bytes:
    """The manifest as it is stored."""
    data = {"version": MANIFEST_VERSION, **asdict(manifest), "digest": manifest.key.digest}
    return json.dumps(data, indent=1, sort_keys=True).encode()


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest in `folder`; None when there is none, or it is no manifest of this version."""
    try:
        return parse_manifest((folder / MANIFEST_NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def parse_manifest(text: bytes) -> Manifest | None:
    """Return the manifest that `text` is; None when it is none of this version, or names a file elsewhere."""
    try:
        data = json.loads(text)
        if data["version"] != MANIFEST_VERSION:
            return None
        key = data["key"]
        files = tuple(StoredFile(**file) for file in data["files"])
        if not all(_stays_below(file.name) for file in files):
            return None
        return Manifest(
            ArtifactKey(key["kind"], key["inputs"], tuple(key["parents"]), key["tool_versions"]),
            files,
            float(data["build_s"]),
            str(data["created_at"]),
        )
    except (ValueError, KeyError, TypeError):
        return None


def damage(manifest: Manifest, folder: Path, *, thorough: bool) -> str | None:
    """Say in a phrase what is wrong with the artifact in `folder`, None when it is whole.

    Sizes are always compared; `thorough` also reads every file and compares its hash, about a second a
    gigabyte.
    """
    for file in manifest.files:
        path = folder / FILES_FOLDER / file.name
        try:
            if path.stat().st_size != file.bytes:
                return f"{file.name} has {path.stat().st_size} bytes instead of {file.bytes}"
            if thorough and _sha256(path) != file.sha256:
                return f"the content of {file.name} has changed"
        except (FileNotFoundError, NotADirectoryError):
            return f"{file.name} is missing"
    return None


def sync(path: Path) -> None:
    """Write a file or a folder's list of names through to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stays_below(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def _files_below(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
