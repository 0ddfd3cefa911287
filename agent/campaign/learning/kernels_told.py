"""The event that says what kernels took alone before anything was loaded, or why that is not known."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from experiments.engines.kernel_timings import FORMAT, KERNEL, KernelTiming, KernelTimings
from experiments.job.kernel_timing import TIMINGS
from experiments.job.result import StageRecord
from experiments.measurement.evidence import Stage
from experiments.recording import load_stages
from knowledge.figures import counted
from knowledge.queries.measured.kernel_timings import left_failed

US_PER_MS = 1e3


def tell_kernels(session: Session, experiment_id: int, campaign_id: int) -> None:
    """Append the event of a baseline whose job timed kernels, or tried to; nothing where it did not."""
    stage = next((each for each in load_stages(session, experiment_id) if each.stage is Stage.KERNELS), None)
    if stage is None:
        return
    found = timings_in(stage)
    events.append(
        session,
        EventKind.CAMPAIGN_KERNELS_TIMED,
        _failed(stage) if found is None else kernels_sentence(found, stage.detail.get("cause")),
        subject=format_label(Noun.EXPERIMENT, experiment_id),
        campaign_id=campaign_id,
        data={
            "wall_s": stage.wall_s,
            "failed": stage.detail.get("cause"),
            "products_ms": {} if found is None else _products_ms(found),
        },
    )


def timings_in(stage: StageRecord) -> KernelTimings | None:
    """What the stage timed, or what was known before it failed; None where nothing was."""
    data = stage.detail.get(TIMINGS)
    return KernelTimings.of_data(data) if isinstance(data, dict) else None


def kernels_sentence(timings: KernelTimings, failed: object = None) -> str:
    """What kernels took with the first format, the fastest first, what was refused, and what 16 bits took;
    `failed` is why an earlier timing that was cut off could not be gone on with."""
    first = _first_format(timings.packed)
    known = sorted((each.products_us, _named(each)) for each in first if each.products_us is not None)
    refused = [_named(each) for each in first if each.refused is not None]
    told = ", ".join(f"{name} {us / US_PER_MS:.2f}" for us, name in known) or "none"
    plain = timings.plain.products_us
    sentence = (
        f"Kernels timed alone with this model's shapes and {counted(timings.rows, 'row')}, ms a step in "
        f"products of the layers: {told}"
    )
    if plain is not None:
        sentence += f"; 16 bits {plain / US_PER_MS:.2f}"
    if refused:
        sentence += f"; refused: {', '.join(refused)}"
    all_told = [f"{sentence}.", timings.cut_off, None if failed is None else left_failed(str(failed))]
    return " ".join(each for each in all_told if each)


def _failed(stage: StageRecord) -> str:
    cause = str(stage.detail.get("cause") or "it was ended")
    return f"Kernels could not be timed alone, and the campaign goes on without that: {cause}"


def _first_format(packed: Sequence[KernelTiming]) -> list[KernelTiming]:
    stored = [tuple(each.knobs.get(knob) for knob in FORMAT) for each in packed]
    return [each for each, format_ in zip(packed, stored, strict=True) if format_ == stored[0]]


def _named(timing: KernelTiming) -> str:
    value = str(timing.knobs.get(KERNEL, "auto"))
    return f"{value} ({timing.kernel})" if value == "auto" and timing.kernel else value


def _products_ms(timings: KernelTimings) -> dict[str, float]:
    """Milliseconds of the first format's products, by value of the knob."""
    return {
        str(each.knobs.get(KERNEL, "auto")): each.products_us / US_PER_MS
        for each in _first_format(timings.packed)
        if each.products_us is not None
    }
