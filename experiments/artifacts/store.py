"""The artifact store: content-addressed, written atomically, safe under several processes.

    <root>/<digest>/manifest.json     key, files, sizes, SHA-256
    <root>/<digest>/files/…           what the builder wrote
    <root>/.building/<digest>.…/      being built; renamed into place when complete and on the disk
    <root>/.locks/<digest>            flock: exclusive while building or deleting, shared while used

With a store that several hosts share (`shared`), an artifact that is not here is fetched from there before
it is built, and one that was built is put there; this one then is the host's cache of it. A shared store that
does not answer when something was built is told in the log, and the artifact is put there when it is asked
for again.

A crash leaves at most a folder in `.building`, whose lock died with its process; `sweep` deletes it. The
lock of an artifact in use is kept until the store is closed, so that pruning never takes files from under a
running job.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from experiments.artifacts.key import ArtifactKey
from experiments.artifacts.manifest import (
    FILES_FOLDER,
    MANIFEST_NAME,
    damage,
    describe,
    read_manifest,
    sync,
    write_manifest,
)
from experiments.artifacts.shared import SharedArtifacts, SharedUnreachable
from experiments.artifacts.stored import StoredArtifact, stored, without_manifest
from experiments.disk import disk_in_words
from experiments.kill_points import KillPoint, reached
from experiments.locks import Locks

_LOG = logging.getLogger(__name__)

_BUILDING = ".building"
_LOCKS = ".locks"

AGAIN_S, MOST_AGAIN_S = 0.2, 10.0
"""Seconds after which an artifact that is held and damaged is looked at again, which reads all of it; twice
as many each time, up to the most."""

Builder = Callable[[Path], None]
"""Writes the files of an artifact into the empty folder it is given."""


@dataclass(frozen=True)
class Pruned:
    """What pruning deleted, the bytes it set free, and what it left because a process uses it."""

    digests: tuple[str, ...]
    bytes: int
    in_use: tuple[str, ...]


class ArtifactStore:
    """A folder of artifacts. One object a process; close it to let go of what it uses."""

    def __init__(self, root: Path, shared: SharedArtifacts | None = None) -> None:
        self.root = root
        self._shared = shared
        self._damaged_there: set[str] = set()
        self._locks = Locks(root / _LOCKS)

    def __enter__(self) -> ArtifactStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of every artifact this object uses."""
        self._locks.release_all()

    def get(self, key: ArtifactKey) -> StoredArtifact | None:
        """Return the artifact of `key`, verified by content and held; None when it is missing or damaged.

        What only the shared store has is fetched. Raises `SharedUnreachable` when that does not answer.
        """
        return self._here(key) or self._fetched(key)

    def _here(self, key: ArtifactKey) -> StoredArtifact | None:
        with self._in_words():
            if not (self.root / key.digest).is_dir():
                return None
            self._locks.share(key.digest)
            found = self._verified(key)
            if found is None:
                self._locks.release(key.digest)
            return found

    def _fetched(self, key: ArtifactKey) -> StoredArtifact | None:
        """The artifact from the shared store, in its place here and held; None when that has none either."""
        if self._shared is None or self._shared.manifest(key.digest) is None:
            return None
        if (found := self._made_meanwhile(key)) is not None:
            return found
        try:
            found = self._fetch(key)
        except BaseException:
            self._locks.release(key.digest)
            raise
        if found is None:
            self._locks.release(key.digest)
        else:
            self._locks.share(key.digest)
        return found

    def _fetch(self, key: ArtifactKey) -> StoredArtifact | None:
        """With the exclusive lock held."""
        assert self._shared is not None
        temporary = self._new_folder(key)
        try:
            with self._in_words():
                temporary.mkdir(parents=True)
                if not self._shared.fetch(key.digest, temporary):
                    self._damaged_there.add(key.digest)
                    return None
                self._put_in_place(key, temporary)
        finally:
            if temporary.exists():
                _delete(temporary)
        return self._verified(key)

    def build(self, key: ArtifactKey, builder: Builder) -> StoredArtifact:
        """Return the artifact of `key`, built by `builder` unless it is there and whole; it is held.

        When another process builds it, waits and uses that. Whatever `builder` raises goes on and leaves
        nothing behind. Raises `DiskFull`, `PermissionRefused` or `AutoinferError` when the store can't be
        written.
        """
        if (found := self.get(key)) is not None:
            self._share(key, built=False)
            return found
        if (found := self._made_meanwhile(key)) is not None:
            return found
        try:
            found = self._build(key, builder)
            if not self._share(key, built=True):  # another host was first: all use what it built
                found = self._fetch(key) or found
            self._locks.share(key.digest)
        except BaseException:
            self._locks.release(key.digest)
            raise
        return found

    def _made_meanwhile(self, key: ArtifactKey) -> StoredArtifact | None:
        """Wait while another process makes the artifact, and return it, held beside others; or None, and hold
        its lock alone.

        Whoever made it keeps it for as long as its job runs, so its lock is never waited for alone: only
        where what is held is damaged is it asked for again and again.
        """
        pause_s = AGAIN_S
        try:
            with self._in_words():
                while not self._locks.try_exclude(key.digest):
                    self._locks.share(key.digest)  # once it is made, or whoever made it has failed
                    if (found := self._verified(key)) is not None:
                        return found
                    self._locks.release(key.digest)
                    time.sleep(pause_s)
                    pause_s = min(2 * pause_s, MOST_AGAIN_S)
                if (found := self._verified(key)) is not None:
                    self._locks.share(key.digest)
                return found
        except BaseException:
            self._locks.release(key.digest)
            raise

    def list(self) -> list[StoredArtifact]:
        """Return all artifacts, least recently used first; damaged ones (by sizes) say what is wrong."""
        found = []
        with self._in_words():
            for folder in self._folders():
                manifest = read_manifest(folder)
                if manifest is None:
                    found.append(without_manifest(folder))
                else:
                    found.append(stored(folder, manifest, damage=damage(manifest, folder, thorough=False)))
        return sorted(found, key=lambda each: (each.last_used_at, each.digest))

    def size(self) -> int:
        """Return the bytes of all artifacts together."""
        return sum(each.bytes for each in self.list())

    def prune(self, unused_since: datetime, keep: Collection[str] = ()) -> Pruned:
        """Delete artifacts last used before `unused_since`, save `keep` (digests) and those in use."""
        deleted, in_use, freed = [], [], 0
        for each in self.list():
            if each.last_used_at >= unused_since or each.digest in keep:
                continue
            with self._in_words(), self._locks.alone(each.digest) as alone:
                if not alone:
                    in_use.append(each.digest)
                    continue
                self._discard(each.digest)
            deleted.append(each.digest)
            freed += each.bytes
        return Pruned(tuple(deleted), freed, tuple(in_use))

    def sweep(self) -> int:
        """Delete what crashed builds left behind and return how many; a build that runs is left alone."""
        swept = 0
        with self._in_words():
            if not (self.root / _BUILDING).is_dir():
                return 0
            for folder in list((self.root / _BUILDING).iterdir()):
                with self._locks.alone(folder.name.partition(".")[0]) as alone:
                    if alone:
                        _delete(folder)
                        swept += 1
        return swept

    def _build(self, key: ArtifactKey, builder: Builder) -> StoredArtifact:
        temporary = self._new_folder(key)
        try:
            with self._in_words():
                (temporary / FILES_FOLDER).mkdir(parents=True)
                started = time.monotonic()
                builder(temporary / FILES_FOLDER)
                reached(KillPoint.WHILE_BUILDING)
                build_s = time.monotonic() - started
                manifest = describe(key, temporary / FILES_FOLDER, build_s, datetime.now(UTC).isoformat())
                write_manifest(manifest, temporary)
                reached(KillPoint.BEFORE_RENAME)
                self._put_in_place(key, temporary)
        finally:
            if temporary.exists():
                _delete(temporary)
        return stored(self.root / key.digest, manifest, built=True)

    def _new_folder(self, key: ArtifactKey) -> Path:
        return self.root / _BUILDING / f"{key.digest}.{uuid.uuid4().hex[:8]}"

    def _put_in_place(self, key: ArtifactKey, temporary: Path) -> None:
        self._discard(key.digest)  # a damaged one may be in the way
        temporary.rename(self.root / key.digest)
        sync(self.root)

    def _share(self, key: ArtifactKey, *, built: bool) -> bool:
        """Put what is here into the shared store; false when another host had put its own there before.

        What was built is kept when that store does not answer: the next call for it tries again.
        """
        if self._shared is None:
            return True
        folder = self.root / key.digest
        try:
            there = self._shared.manifest(key.digest)
            if there is not None and not built:
                return True
            manifest = read_manifest(folder)
            replace = key.digest in self._damaged_there
            return manifest is None or self._shared.put(manifest, folder, replace=replace)
        except SharedUnreachable as gone:
            _LOG.warning("%s The artifact %s is kept on this host alone.", gone, key.digest[:12])
            return True

    def _verified(self, key: ArtifactKey) -> StoredArtifact | None:
        folder = self.root / key.digest
        manifest = read_manifest(folder)
        if manifest is None or manifest.key.digest != key.digest or damage(manifest, folder, thorough=True):
            return None
        os.utime(folder / MANIFEST_NAME)  # the time of last use
        return stored(folder, manifest)

    def _discard(self, digest: str) -> None:
        """Move an artifact out of the way before deleting it, so that half of it is never seen."""
        folder = self.root / digest
        if folder.exists():
            (self.root / _BUILDING).mkdir(parents=True, exist_ok=True)
            doomed = self.root / _BUILDING / f"{digest}.{uuid.uuid4().hex[:8]}"
            folder.rename(doomed)
            _delete(doomed)

    def _folders(self) -> Iterator[Path]:
        if not self.root.is_dir():
            return iter(())
        return (each for each in self.root.iterdir() if not each.name.startswith("."))

    def _in_words(self) -> AbstractContextManager[None]:
        return disk_in_words(self.root, "artifacts")


def _delete(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
