"""Kernels timed alone as they are shown: what each took for a step's products with each format, or why not.

The timing is of the baseline's experiment (docs/kernel-timings.md): nothing was loaded then, and no verdict
rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from experiments.engines.kernel_timings import KERNEL, KernelTiming, KernelTimings, packed_words
from experiments.job.kernel_timing import TIMINGS
from experiments.measurement.evidence import Stage
from knowledge.figures import counted
from knowledge.queries.measured.stages import StageView
from knowledge.queries.view import View

US_PER_MS = 1e3

SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest."""

NO_KERNEL = "—"
"""In place of the value of the kernel's knob, where the weights are not packed."""

TITLE = "Kernels for packed weights, timed alone"

FIRST_CALLS = (
    "First calls: seconds that a kernel's timed products took together when each ran first. A kernel that is "
    "compiled then is compiled for every shape. Later: what a process after that would take, by one product "
    "that another one called too. A test of the kernel is expected to take as much longer at each launch, or "
    "as the first calls where that was not asked."
)
"""Why seconds of first calls are shown."""


class KernelTimingRow(View):
    """One kernel with one format: milliseconds of a step's products of the layers and of the output head,
    None where that was not timed, and why in `note` of the layers, or in `head_note` where they were timed
    and the head was not. `share_of_plain`: products over those of 16 bits.
    `first_calls_s`: seconds that the first calls of all its timed products took together; `later_calls_s`:
    what they are expected to take in a later process, None where that was not asked."""

    stored: str
    value: str
    kernel: str
    products_ms: float | None
    head_ms: float | None
    share_of_plain: float | None
    first_calls_s: float | None
    later_calls_s: float | None
    refused: bool
    note: str | None
    head_note: str | None

    @property
    def first_calls(self) -> str:
        """Seconds of the first calls, and of later ones where they are known."""
        if self.first_calls_s is None:
            return ""
        later = "" if self.later_calls_s is None else f", later {self.later_calls_s:.1f}"
        return f"{self.first_calls_s:.1f}{later}"

    @property
    def no_time(self) -> str:
        """What is said in place of the time of its products, where that has a note."""
        return "refused" if self.refused else "not timed"


class FormatTimings(NamedTuple):
    """What was timed with one format of weights, and what was not."""

    stored: str
    timed: tuple[KernelTimingRow, ...]
    untimed: tuple[KernelTimingRow, ...]

    @property
    def is_plain(self) -> bool:
        """Whether it is that of 16 bits, which has no kernel to choose."""
        return all(row.value == NO_KERNEL for row in (*self.timed, *self.untimed))


class KernelTimingsView(View):
    """All that was timed: formats in the order in which they were, of each the fastest kernel first.

    `failed` says why nothing was, in a sentence; then there are no rows. `artifact` is the digest under which
    raw times are kept, None where they are not. `first_calls` says in a sentence what seconds of first calls
    are and why they matter.
    """

    rows: tuple[KernelTimingRow, ...]
    basis: str
    first_calls: str = FIRST_CALLS
    took_s: float | None
    artifact: str | None
    failed: str | None

    @property
    def formats(self) -> tuple[FormatTimings, ...]:
        """The rows by their format."""
        return tuple(
            FormatTimings(
                stored,
                tuple(row for row in self.rows if row.stored == stored and row.note is None),
                tuple(row for row in self.rows if row.stored == stored and row.note is not None),
            )
            for stored in dict.fromkeys(row.stored for row in self.rows)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Why something was not timed, each reason once, as a sentence: many kernels have the same."""
        told = (note for row in self.rows for note in (row.note, row.head_note) if note is not None)
        return tuple(dict.fromkeys(told))

    def mark(self, note: str | None) -> int | None:
        """The number of a note, from 1 on; None for no note."""
        return None if note is None else self.notes.index(note) + 1


def kernel_timings(stages: Sequence[StageView]) -> KernelTimingsView | None:
    """What the last stage that timed kernels tells; None where none did."""
    found = [each for each in stages if each.stage == Stage.KERNELS.value and each.detail]
    if not found:
        return None
    detail = found[-1].detail or {}
    artifact, data = detail.get("artifact"), detail.get(TIMINGS)
    kept = artifact if isinstance(artifact, str) else None
    if not isinstance(data, dict):
        why = str(detail.get("cause") or "it was ended")
        return KernelTimingsView(rows=(), basis="", took_s=found[-1].wall_s, artifact=kept, failed=why)
    timings = KernelTimings.of_data(data)
    return KernelTimingsView(
        rows=tuple(_rows(timings)),
        basis=_basis(timings, kept, detail.get("cause")),
        took_s=found[-1].wall_s,
        artifact=kept,
        failed=None,
    )


def _rows(timings: KernelTimings) -> list[KernelTimingRow]:
    plain = timings.plain.products_us
    formats = list(dict.fromkeys(packed_words(each.knobs) for each in timings.packed))
    packed = sorted(
        timings.packed,
        key=lambda each: (
            formats.index(packed_words(each.knobs)),
            each.products_us is None,
            each.products_us or 0.0,
        ),
    )
    return [_row(each, plain) for each in (timings.plain, *packed)]


def _row(timing: KernelTiming, plain_us: float | None) -> KernelTimingRow:
    products, head = timing.products_us, timing.head_us
    note = timing.refused or timing.untimed
    return KernelTimingRow(
        stored=packed_words(timing.knobs),
        value=str(timing.knobs.get(KERNEL, NO_KERNEL)),
        kernel=timing.kernel,
        products_ms=None if products is None else products / US_PER_MS,
        head_ms=None if head is None else head / US_PER_MS,
        share_of_plain=None if products is None or not plain_us else products / plain_us,
        first_calls_s=timing.first_calls_s,
        later_calls_s=timing.later_calls_s,
        refused=timing.refused is not None,
        note=note,
        head_note=None if note is not None else timing.head_refused or timing.head_untimed,
    )


def left_failed(cause: str) -> str:
    """That what an earlier timing left could not be timed now, in a sentence with its cause."""
    return f"What an earlier timing left could not be timed now: {cause}"


def _basis(timings: KernelTimings, artifact: str | None, failed: object) -> str:
    told = [
        "made-up weights at the model's shapes, nothing else running",
        f"{counted(timings.rows, 'row')} of input",
        timings.method,
    ]
    record = timings.record or {}
    told += [f"{name} {record[name]}" for name in ("vllm", "torch") if record.get(name)]
    if timings.rounds > 1:
        told.append(f"timed by {timings.rounds} campaigns, one after the other")
    if timings.cut_off is not None:
        told.append(timings.cut_off.rstrip("."))
    if failed is not None:
        told.append(left_failed(str(failed)).rstrip("."))
    if artifact is not None:
        told.append(f"raw times in A-{artifact[:SHOWN_DIGITS]}")
    return "; ".join(told)
