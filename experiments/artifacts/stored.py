"""An artifact as it lies in a store: what its manifest and its folder say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from experiments.artifacts.manifest import FILES_FOLDER, MANIFEST_NAME, Manifest
from experiments.measurement.evidence import Json


@dataclass(frozen=True)
class StoredArtifact:
    """An artifact in the store; `path` is the folder with its files, `bytes` their size together.

    `built` is true for the call that built it; `damage` says what is wrong with it (listing only).
    """

    digest: str
    kind: str
    inputs: Mapping[str, Json]
    parents: tuple[str, ...]
    tool_versions: Mapping[str, Json]
    path: Path
    bytes: int
    build_s: float
    created_at: datetime
    last_used_at: datetime
    built: bool = False
    damage: str | None = None


def stored(
    folder: Path, manifest: Manifest, *, built: bool = False, damage: str | None = None
) -> StoredArtifact:
    """Return the artifact in `folder`, of which `manifest` tells; `OSError` where it is gone."""
    return StoredArtifact(
        digest=folder.name,
        kind=manifest.key.kind,
        inputs=manifest.key.inputs,
        parents=manifest.key.parents,
        tool_versions=manifest.key.tool_versions,
        path=folder / FILES_FOLDER,
        bytes=manifest.bytes,
        build_s=manifest.build_s,
        created_at=datetime.fromisoformat(manifest.created_at),
        last_used_at=datetime.fromtimestamp((folder / MANIFEST_NAME).stat().st_mtime, UTC),
        built=built,
        damage=damage,
    )


def without_manifest(folder: Path) -> StoredArtifact:
    """Return what can be told of an artifact whose manifest can't be read: its size and when it changed."""
    changed = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return StoredArtifact(
        digest=folder.name,
        kind="unknown",
        inputs={},
        parents=(),
        tool_versions={},
        path=folder,
        bytes=size,
        build_s=0.0,
        created_at=changed,
        last_used_at=changed,
        damage="it has no readable manifest",
    )
