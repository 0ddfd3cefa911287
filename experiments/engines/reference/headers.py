"""torch's C++ headers in the compiler's own form, kept from build to build.

Every C++ step that Inductor builds includes them, and reading them takes the compiler 19 s on two cores, once
with each folder for temporary files, which is the launch's own and goes with it. So the headers of earlier
builds are linked into that folder before a build, and out of it after one that succeeded: what a compiler
left behind that was killed or found the disk full is never kept.

Making them in a second process while this one still traces saved nothing on two cores of one processor core.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def kept_headers(folder: Path) -> Iterator[None]:
    """Use the headers kept in `folder` in what is compiled meanwhile, and keep those that it had to make."""
    from torch._inductor import codecache

    name = getattr(codecache, "_HEADER_DIR", None)  # torch's own name for where it looks
    if name is None:
        yield
        return
    used = Path(name)
    folder.mkdir(parents=True, exist_ok=True)
    _link(folder, used)
    yield
    _link(used, folder)


def _link(source: Path, target: Path) -> None:
    """Give every file of `source` its place in `target` too, where nothing has it."""
    target.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.h*"):
        with suppress(OSError):  # it is there already, or the file system knows no links
            os.link(file, target / file.name)
