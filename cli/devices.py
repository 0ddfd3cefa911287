"""`autoinfer devices`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.console.options import Json

if TYPE_CHECKING:
    from experiments.telemetry.reading import DeviceReading

LOOK_S = 1.0
"""Seconds that a look takes: utilization is that between two readings."""

RECORD_S = 60
"""Seconds that are recorded if nothing else is said."""

LONGEST_S = 3600
GIB = 2**30


def devices(
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FILE", help="Write readings, one a second, into this file.", dir_okay=False
        ),
    ] = None,
    seconds: Annotated[
        int, typer.Option("--seconds", min=1, max=LONGEST_S, help="How long to record.")
    ] = RECORD_S,
    as_json: Json = False,
) -> None:
    """What the GPUs and the processors of this machine do now: utilization, memory, power, clocks.

    With --record the readings of a while go into a file, without the machine's name, for
    `autoinfer dashboard --replay-devices FILE`.
    """
    from cli.console.output import console, print_json, say, table
    from experiments.telemetry.collect import samples
    from experiments.telemetry.trace import document_of
    from knowledge.figures import counted

    if record is not None:
        count = _record(record, seconds)
        if as_json:
            print_json({"file": str(record), "samples": count})
        else:
            say(f"Wrote {counted(count, 'sample')} to {record}.")
        return
    *_, sample = samples(LOOK_S)
    if as_json:
        print_json(document_of(sample))
        return
    columns = ("device", "model", ">utilization", ">memory", ">power", ">temperature", ">clock", "throttling")
    console().print(table(columns, [_row(each) for each in sample.devices], wide=("model", "throttling")))
    if sample.note:
        say("", sample.note)


def _record(file: Path, seconds: int) -> int:
    from configs.errors import UsageError
    from experiments.telemetry.collect import samples
    from experiments.telemetry.trace import write_trace

    try:
        return write_trace(file, samples(seconds), "nvml")
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}.", "Name another file.") from None


def _row(device: DeviceReading) -> tuple[str, ...]:
    used, total = device.memory_used_bytes, device.memory_total_bytes
    memory = None if used is None or total is None else f"{used / GIB:.1f} of {total / GIB:.1f} GiB"
    return (
        device.name,
        device.model,
        _figure(device.utilization_percent, "%"),
        memory or "not reported",
        _figure(device.power_w, "W"),
        _figure(device.temperature_c, "°C"),
        _figure(device.clock_mhz, "MHz"),
        "not reported" if device.throttle is None else ", ".join(device.throttle) or "none",
    )


def _figure(value: float | None, unit: str) -> str:
    return "not reported" if value is None else f"{value:.0f} {unit}"
