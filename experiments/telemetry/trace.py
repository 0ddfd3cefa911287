"""Samples as lines of JSON: what the collector writes, and a recording of it in a file.

A recording begins with a line that says what it is: `origin` is `nvml` for readings of real devices and
`synthetic` for invented ones, which only tests may use. It tells neither the name of the machine nor the
numbers of its processes. A file whose name ends in `.gz` is packed by gzip.

Packaged are recordings of real GPUs by `autoinfer devices --record`, for a look at the page without one:
`h200`, 25 minutes at 1 Hz of one NVIDIA H200 on which vLLM 0.26 was started with eight configurations of the
Qwen3.5-9B shape one after the other, each of which answered 1 to 64 requests at once; and `h200-x2`, the
first eleven minutes of a campaign (`autoinfer run shape --target cuda:1`), with a table measured on the GPU
beside it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from configs.errors import UsageError
from configs.moments import format_utc
from experiments.telemetry.reading import DeviceKind, Sample

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT = "autoinfer device readings, 1"
RECORDED_HOST = "recorded"
"""The host of a recording, in place of the machine's name."""

LARGEST_BYTES = 64 * 2**20
"""Of a recording that is read: an hour of eight GPUs takes less."""

RECORDINGS = Path(__file__).parent / "recordings"
"""The packaged recordings, `NAME.jsonl.gz`."""

HINT = "Make one on a machine with a GPU: autoinfer devices --record FILE; the packaged one is called h200"


@dataclass(frozen=True)
class Trace:
    """A recording: where its readings are from, and the samples in their order, at least one."""

    origin: Literal["nvml", "synthetic"]
    samples: tuple[Sample, ...]

    @property
    def title(self) -> str:
        """What a page calls the readings, so that nobody takes them for those of now."""
        first = self.samples[0]
        gpus = [each.model for each in first.devices if each.kind is DeviceKind.GPU]
        of = ", ".join(dict.fromkeys(gpus)) or "a machine without a GPU"
        kind = "Invented readings of" if self.origin == "synthetic" else "A recording of"
        return f"{kind} {of}, {format_utc(first.at)}"


def document_of(sample: Sample) -> dict[str, Any]:
    """A sample as a JSON document."""
    return {**asdict(sample), "at": sample.at.isoformat()}


def line_of(sample: Sample) -> str:
    """A sample as one line of JSON."""
    return json.dumps(document_of(sample), separators=(",", ":"))


def sample_of(line: str) -> Sample:
    """The sample of a line; raises `ValueError` for any other text."""
    return _adapter().validate_json(line)


@cache
def _adapter() -> TypeAdapter[Sample]:
    from pydantic import TypeAdapter

    return TypeAdapter(Sample)


def write_trace(path: Path, samples: Iterable[Sample], origin: Literal["nvml", "synthetic"]) -> int:
    """Write a recording, each sample as it comes; the number of samples."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"format": FORMAT, "origin": origin}) + "\n")
        for sample in samples:
            file.write(line_of(without_names(sample)) + "\n")
            file.flush()
            count += 1
    return count


def without_names(sample: Sample) -> Sample:
    """The sample without what tells whose machine it is: its name and the numbers of its processes."""
    devices = tuple(
        replace(
            device,
            processes=None
            if device.processes is None
            else tuple(replace(each, pid=number) for number, each in enumerate(device.processes, 1)),
        )
        for device in sample.devices
    )
    return replace(sample, host=RECORDED_HOST, devices=devices)


def named_recording(name: Path) -> Path:
    """The packaged recording of this name where there is no such file, else the file itself."""
    packaged = RECORDINGS / f"{name}.jsonl.gz"
    return packaged if len(name.parts) == 1 and not name.exists() and packaged.is_file() else name


def read_trace(path: Path) -> Trace:
    """Read a recording; raises `UsageError` for a file that is none."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            text = file.read(LARGEST_BYTES + 1)
        if len(text) > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than {LARGEST_BYTES // 2**20} MiB, too much to show.", HINT)
        head, *lines = text.decode("utf-8").splitlines()
        said = json.loads(head)
        origin = said["origin"]
        if said["format"] != FORMAT or origin not in ("nvml", "synthetic"):
            raise ValueError(said)
        samples = tuple(sample_of(line) for line in lines if line)
        if not samples or any(one.at >= two.at for one, two in pairwise(samples)):
            raise ValueError("no samples, or not in their order")
    except gzip.BadGzipFile:
        raise UsageError(f"{path} is no recording of device readings.", HINT) from None
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}.", HINT) from None
    except (ValueError, KeyError, TypeError, EOFError, zlib.error):
        raise UsageError(f"{path} is no recording of device readings.", HINT) from None
    return Trace(origin, samples)


def replayed(trace: Trace, begun: datetime) -> Iterator[Sample]:
    """The samples without end, again and again, at the times they would have if the first were at `begun`.

    Between two rounds lies the gap of the first two samples, or a second.
    """
    first, last = trace.samples[0].at, trace.samples[-1].at
    gap = trace.samples[1].at - first if len(trace.samples) > 1 else timedelta(seconds=1)
    while True:
        for sample in trace.samples:
            yield replace(sample, at=begun + (sample.at - first))
        begun += last - first + gap
