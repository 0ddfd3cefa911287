"""A store of artifacts that several hosts share: a folder that all of them see, or a bucket that speaks S3.

    <root>/files/<sha256>            one file's content; whoever writes it writes the same
    <root>/artifacts/<digest>.json   the manifest of an artifact, written last and once

A manifest is there only when all its files are, so that a put that broke off is never seen. When two hosts
build the same artifact, the first manifest stays, and the other host takes what it names: all of them use the
same bytes. What is fetched is checked against the manifest, file by file. Nothing is ever deleted here.

`fsspec` speaks to the store; credentials, region and endpoint come from the environment alone, by the names
that every S3 client knows (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …; botocore's documentation).
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from configs.errors import AutoinferError, UsageError
from experiments.artifacts.manifest import (
    FILES_FOLDER,
    MANIFEST_NAME,
    Manifest,
    damage,
    manifest_json,
    parse_manifest,
)

_LOG = logging.getLogger(__name__)

FILE, S3 = "file", "s3"
PROTOCOLS = (FILE, S3)

_NEEDS = {S3: "autoinfer[s3]"}


class SharedUnreachable(AutoinferError):
    """The shared store does not answer, or refuses."""


def check_shared(url: str) -> tuple[str, str]:
    """The protocol of a shared store's address and the place in it; raises `UsageError` for none of ours."""
    protocol, mark, place = url.partition("://")
    if not mark:
        protocol, place = FILE, str(Path(url).expanduser().absolute())
    if protocol not in PROTOCOLS:
        raise UsageError(
            f"There is no shared store of the kind {protocol!r}.",
            "Name a folder that all hosts see, or a bucket: s3://bucket/prefix",
        )
    if protocol != FILE and "@" in urlsplit(url).netloc:
        raise UsageError(
            "The address of the shared store carries credentials, where they would be shown.",
            "Leave them out and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        )
    place = place.rstrip("/")
    if not place:
        raise UsageError(f"{url!r} names no place.", "Name a folder, or a bucket: s3://bucket/prefix")
    return protocol, place


class SharedArtifacts:
    """The shared store at `url`: a folder (a path, or `file:///…`) or a bucket (`s3://bucket/prefix`).

    Raises `UsageError` for another kind of address. Methods raise `SharedUnreachable`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._protocol, self._root = check_shared(url)

    def manifest(self, digest: str) -> Manifest | None:
        """The manifest of an artifact that is there whole, None when there is none."""
        with self._in_words():
            try:
                data: bytes = self._fs.cat_file(self._manifest_path(digest))
            except FileNotFoundError:
                return None
        found = parse_manifest(data)
        return found if found is not None and found.key.digest == digest else None

    def fetch(self, digest: str, folder: Path) -> bool:
        """Write the artifact into the empty `folder` as it lies in a store; false when there is none, or what
        is there is not what its manifest says."""
        manifest = self.manifest(digest)
        if manifest is None:
            return False
        for file in manifest.files:
            path = folder / FILES_FOLDER / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._in_words():
                try:
                    self._fs.get_file(self._file_path(file.sha256), str(path))
                except FileNotFoundError:
                    _LOG.warning("%s lacks %s of the artifact %s.", self.url, file.name, digest[:12])
                    return False
        (folder / FILES_FOLDER).mkdir(exist_ok=True)
        wrong = damage(manifest, folder, thorough=True)
        if wrong is not None:
            _LOG.warning("The artifact %s is damaged in %s: %s.", digest[:12], self.url, wrong)
            return False
        (folder / MANIFEST_NAME).write_bytes(manifest_json(manifest))
        return True

    def put(self, manifest: Manifest, folder: Path, *, replace: bool = False) -> bool:
        """Store the artifact that lies in `folder`; false when another host had stored one before, which
        stays, unless it is to be replaced because it was found damaged."""
        return self.put_files(manifest, folder / FILES_FOLDER, replace=replace)

    def put_files(
        self,
        manifest: Manifest,
        folder: Path,
        *,
        replace: bool = False,
        tell: Callable[[str, int], None] = lambda name, size: None,
    ) -> bool:
        """Store the files of a manifest that lie in `folder` itself, as `put`; `tell` hears of each, with its
        bytes, before it goes."""
        with self._in_words():
            for file in manifest.files:
                tell(file.name, file.bytes)
                self._put_file(folder / file.name, file.sha256, file.bytes, replace)
            path = self._manifest_path(manifest.key.digest)
            return self._put_manifest(path, manifest_json(manifest), replace)

    def _put_file(self, path: Path, sha256: str, size: int, replace: bool) -> None:
        there = self._file_path(sha256)
        if not replace:
            try:
                if self._fs.size(there) == size:
                    return
            except FileNotFoundError:
                pass
        if self._protocol == FILE:
            with _beside(Path(there)) as temporary:
                shutil.copyfile(path, temporary)
                temporary.replace(there)
        else:
            self._fs.put_file(str(path), there)  # an object is seen whole or not at all

    def _put_manifest(self, there: str, data: bytes, replace: bool) -> bool:
        try:
            if self._protocol == FILE:
                with _beside(Path(there)) as temporary:
                    temporary.write_bytes(data)
                    temporary.replace(there) if replace else os.link(temporary, there)
            else:
                self._fs.pipe_file(there, data, mode="overwrite" if replace else "create")
        except FileExistsError:
            return False
        return True

    @cached_property
    def _fs(self) -> Any:
        import fsspec

        try:
            # A listing is never kept: other hosts write too.
            return fsspec.filesystem(self._protocol, use_listings_cache=False, skip_instance_cache=True)
        except ImportError:
            raise UsageError(
                f"The shared store {self.url} needs a package that is not installed.",
                f"Install it with: pip install '{_NEEDS[self._protocol]}'",
            ) from None

    def _file_path(self, sha256: str) -> str:
        return f"{self._root}/files/{sha256}"

    def _manifest_path(self, digest: str) -> str:
        return f"{self._root}/artifacts/{digest}.json"

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """What the store's client reports, whatever it is called, as one sentence."""
        try:
            yield
        except AutoinferError:
            raise
        except Exception as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise SharedUnreachable(
                f"The shared store of artifacts {self.url} can't be used ({said}).",
                "Is the address right, and are the credentials in the environment (AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL)?"
                if self._protocol == S3
                else "May you write there, and is it mounted?",
            ) from error


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A name for a file that is to become `path`, gone at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
