"""The text of Python's standard library, split by module into training and held-out documents.

Every machine that runs autoinfer has this text, so nothing is downloaded and nothing is shipped. A module's
side is decided by a hash of its dotted name alone: it is the same on every Python version and every machine,
although the text of a module differs a little between versions. Training documents are whole modules;
held-out documents are slices of modules, of a size that a small model reads at once, so that bits per byte
can be paired document by document.
"""

import hashlib
import os
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from experiments.corpora.passages import passage_hashes, shares_passage

HELD_OUT_ONE_IN = 8
"""One module in eight is held out: some 0.8 MB, enough for a standard error of about 1 % on bits per byte."""

SPLIT_SALT = "autoinfer/standard-library/1"
"""Makes the split this corpus's own; chosen once, before any model was trained."""

SLICE_BYTES = 4096
"""Most bytes of a held-out document: about 1,200 tokens of the reference model."""

SLICE_MIN_BYTES = 512
"""Shorter leftovers say little and are left out."""

LICENCE = "PSF-2.0"
"""SPDX name of the licence of the standard library's text."""

LEFT_OUT = {
    "site-packages": "installed packages are not the standard library",
    "dist-packages": "installed packages are not the standard library",
    "test": "tests repeat the text of what they test, and many distributions leave them out",
    "idlelib": "needs Tk, which many distributions package apart",
    "tkinter": "needs Tk, which many distributions package apart",
    "turtle": "needs Tk, which many distributions package apart",
    "turtledemo": "needs Tk, which many distributions package apart",
    "ensurepip": "carries pip, which is no part of the library",
    "encodings": "tables written by a program: they are numbers, not code",
    "pydoc_data": "written by a program from the language reference, 0.7 MB in one string",
    "lib2to3": "removed in Python 3.13",
    "distutils": "removed in Python 3.12",
    "asynchat": "removed in Python 3.12",
    "asyncore": "removed in Python 3.12",
    "imp": "removed in Python 3.12",
    "smtpd": "removed in Python 3.12",
    "aifc": "removed in Python 3.13 (PEP 594)",
    "cgi": "removed in Python 3.13 (PEP 594)",
    "cgitb": "removed in Python 3.13 (PEP 594)",
    "chunk": "removed in Python 3.13 (PEP 594)",
    "crypt": "removed in Python 3.13 (PEP 594)",
    "imghdr": "removed in Python 3.13 (PEP 594)",
    "mailcap": "removed in Python 3.13 (PEP 594)",
    "msilib": "removed in Python 3.13 (PEP 594)",
    "nntplib": "removed in Python 3.13 (PEP 594)",
    "pipes": "removed in Python 3.13 (PEP 594)",
    "sndhdr": "removed in Python 3.13 (PEP 594)",
    "sunau": "removed in Python 3.13 (PEP 594)",
    "telnetlib": "removed in Python 3.13 (PEP 594)",
    "uu": "removed in Python 3.13 (PEP 594)",
    "xdrlib": "removed in Python 3.13 (PEP 594)",
}
"""Top-level names that belong to neither side, and why. What later versions removed would make the held-out
set depend on the Python that reads it."""

GENERATED_PREFIXES = ("_sysconfigdata", "_sysconfig_vars")
"""Files that a build writes: they hold this machine's paths and flags."""


@dataclass(frozen=True)
class Document:
    """One text with a name that is unique in its corpus (`email.message`; `email.message#2` for a slice)."""

    name: str
    text: str


def is_held_out(module: str) -> bool:
    """Tell whether the module with this dotted name belongs to the held-out side, on every Python version."""
    digest = hashlib.sha256(f"{SPLIT_SALT}:{module}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0


def standard_library_root() -> Path:
    """Return the folder of the running interpreter's standard library."""
    return Path(sysconfig.get_path("stdlib"))


@lru_cache(maxsize=1)
def all_modules() -> tuple[Document, ...]:
    """Return every module in use here, both sides, as whole files in order of their dotted names.

    Files that are empty or no UTF-8 are left out.
    """
    return tuple(_read(_module_files()))


@lru_cache(maxsize=1)
def held_out_modules() -> tuple[Document, ...]:
    """Return the held-out modules as whole files, in the same order; the others are not read for it."""
    return tuple(_read((name, path) for name, path in _module_files() if is_held_out(name)))


def _module_files() -> list[tuple[str, Path]]:
    """The dotted names of all modules in use here and their files, in order of the names."""
    root = standard_library_root()
    found = []
    for folder, inner, files in os.walk(root):
        packages = Path(folder).relative_to(root).parts
        # a folder that is left out is not looked into: site-packages is larger than the library
        inner[:] = [name for name in inner if not _is_left_out((*packages, name))]
        for file in files:
            name, dot, suffix = file.rpartition(".")
            parts = (*packages, name)
            if dot and suffix == "py" and not _is_left_out(parts):
                names = packages if name == "__init__" else parts
                found.append((".".join(names), Path(folder, file)))
    return sorted(found)


def _is_left_out(parts: tuple[str, ...]) -> bool:
    return (
        parts[0] in LEFT_OUT
        or parts[0].startswith(GENERATED_PREFIXES)
        or not {"test", "tests"}.isdisjoint(parts)
    )


def _read(files: Iterable[tuple[str, Path]]) -> Iterator[Document]:
    for name, path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        if text.strip():
            yield Document(name, text)


@lru_cache(maxsize=1)
def held_out_passages() -> frozenset[int]:
    """Return the hashes of the held-out modules' passages: text that has one is not trained on."""
    return frozenset(value for document in held_out_modules() for value in passage_hashes(document.text))


@lru_cache(maxsize=1)
def training_documents() -> tuple[Document, ...]:
    """Return the training modules as whole files, less those that share a passage with a held-out one."""
    return tuple(each_training_document())


def each_training_document() -> Iterator[Document]:
    """The training documents one by one, in their order: who needs a few need not wait for all of them."""
    held_out = held_out_passages()
    for document in all_modules():
        if not is_held_out(document.name) and not shares_passage(document.text, held_out):
            yield document


def held_out_documents(max_bytes: int | None = None) -> tuple[Document, ...]:
    """Return held-out slices of at most `SLICE_BYTES` bytes each, in an order that mixes the modules.

    With `max_bytes`, return the longest run from the start of that order which fits: a smaller set is always
    a prefix of a larger one. Each text should be scored on its own, after the tokenizer's end-of-text token.

    Raises:
        ValueError: `max_bytes` is less than one slice.
    """
    if max_bytes is not None and max_bytes < SLICE_BYTES:
        raise ValueError(f"max_bytes is {max_bytes}, less than one document; give at least {SLICE_BYTES}")
    slices = [piece for document in held_out_modules() for piece in slice_module(document)]
    slices.sort(key=lambda piece: hashlib.sha256(f"{SPLIT_SALT}:order:{piece.name}".encode()).digest())
    if max_bytes is None:
        return tuple(slices)
    chosen, total_bytes = [], 0
    for piece in slices:
        total_bytes += len(piece.text.encode())
        if total_bytes > max_bytes:
            break
        chosen.append(piece)
    return tuple(chosen)


def slice_module(document: Document) -> list[Document]:
    """Cut a module into pieces of at most `SLICE_BYTES` bytes, before a top-level line where there is one.

    Single lines longer than a slice are left out; pieces under `SLICE_MIN_BYTES` bytes too.
    """
    pieces: list[str] = []
    lines: list[str] = []
    size_bytes = 0
    for line in document.text.splitlines(keepends=True):
        line_bytes = len(line.encode())
        if line_bytes > SLICE_BYTES:
            continue
        if size_bytes + line_bytes > SLICE_BYTES:
            cut = _last_top_level_line(lines)
            pieces.append("".join(lines[:cut]))
            lines = lines[cut:]
            size_bytes = sum(len(kept.encode()) for kept in lines)
        lines.append(line)
        size_bytes += line_bytes
    pieces.append("".join(lines))
    return [
        Document(f"{document.name}#{number}", text)
        for number, text in enumerate(pieces)
        if len(text.encode()) >= SLICE_MIN_BYTES
    ]


def _last_top_level_line(lines: list[str]) -> int:
    """Return the index of the last unindented line in the second half of `lines`, else their number."""
    for index in range(len(lines) - 1, len(lines) // 2, -1):
        if lines[index][:1].strip() and not lines[index].startswith((")", "]", "}", '"""', "'''")):
            return index
    return len(lines)


def fingerprint(documents: Iterable[Document]) -> str:
    """Return the SHA-256 of the documents' names and texts, in their order, as hexadecimal."""
    digest = hashlib.sha256()
    for document in documents:
        for part in (document.name, document.text):
            encoded = part.encode()
            digest.update(len(encoded).to_bytes(8, "big"))
            digest.update(encoded)
    return digest.hexdigest()
