"""Figures for a watcher, in Prometheus' text format (exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dashboard.web.timing import BOUNDS_S, Timings
from experiments.telemetry.history import DeviceHistory
from experiments.telemetry.reading import DeviceReading
from knowledge.queries.spent.money import MoneyRow
from knowledge.queries.vitals import VitalsView

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

HERTZ_PER_MHZ = 1e6


@dataclass(frozen=True)
class _OfDevices:
    """A family with a sample for each device that reports it; None for one that does not."""

    name: str
    about: str
    value: Callable[[DeviceReading], float | None]


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


_OF_DEVICES = (
    _OfDevices(
        "utilization_ratio",
        "Share of the time that a device computed, of a CPU over all its cores.",
        lambda each: _scaled(each.utilization_percent, 0.01),
    ),
    _OfDevices("memory_used_bytes", "Memory of a device that is taken.", lambda each: each.memory_used_bytes),
    _OfDevices("memory_bytes", "Memory that a device has.", lambda each: each.memory_total_bytes),
    _OfDevices("power_watts", "Power that a device draws.", lambda each: each.power_w),
    _OfDevices("temperature_celsius", "Temperature of a device.", lambda each: each.temperature_c),
    _OfDevices(
        "clock_hertz",
        "Clock that a device computes at.",
        lambda each: _scaled(each.clock_mhz, HERTZ_PER_MHZ),
    ),
    _OfDevices(
        "throttled",
        "1 while a device's clocks are held down.",
        lambda each: None if each.throttle is None else int(bool(each.throttle)),
    ),
)


def prometheus(
    found: VitalsView, viewers: int, timings: Timings, devices: Sequence[DeviceHistory] = ()
) -> str:
    """All families, each with its help and type; of devices those of which there is a reading."""
    lines = [
        *_family(
            "autoinfer_queue_length",
            "gauge",
            "Hypotheses that wait in the queue.",
            [({}, found.hypotheses["queued"])],
        ),
        *_family(
            "autoinfer_hypotheses_awaiting_approval",
            "gauge",
            "Hypotheses in a queue that are not tested before the user approves.",
            [({}, found.awaiting)],
        ),
        *_by_state("autoinfer_campaigns", "Campaigns by state.", found.campaigns),
        *_by_state("autoinfer_hypotheses", "Hypotheses by state.", found.hypotheses),
        *_by_state("autoinfer_experiments", "Experiments by state.", found.experiments),
        *_by_state("autoinfer_jobs", "Jobs of the durable queue by state.", found.jobs),
        *_family("autoinfer_leases", "gauge", "Jobs that a worker holds.", [({}, found.leases)]),
        *_family(
            "autoinfer_leases_expired",
            "gauge",
            "Jobs whose worker has not renewed its lease in time.",
            [({}, found.expired_leases)],
        ),
        *_family(
            "autoinfer_experiment_seconds_total",
            "counter",
            "Seconds that the experiments of all campaigns took.",
            [({}, found.spent_s)],
        ),
        *_of_money(found),
        *_family("autoinfer_events_total", "counter", "Events in the log.", [({}, found.last_event_id)]),
        *_family("autoinfer_viewers", "gauge", "Browsers that watch a page.", [({}, viewers)]),
        *_of_devices(devices),
        *_histogram(timings),
    ]
    return "\n".join(lines) + "\n"


_PAID: tuple[tuple[str, str, str, Callable[[MoneyRow], float]], ...] = (
    ("runs_open", "gauge", "Runs in flight on rented machines.", lambda row: row.open),
    ("reserved_usd", "gauge", "Dollars reserved for runs in flight, at most.", lambda row: row.reserved_usd),
    ("quoted_usd_total", "counter", "Dollars that all runs were quoted at most.", lambda row: row.quoted_usd),
    ("estimated_usd_total", "counter", "Dollars expected when runs began.", lambda row: row.estimated_usd),
    ("actual_usd_total", "counter", "Dollars that ended runs cost, as told.", lambda row: row.actual_usd),
    ("untold_usd_total", "counter", "Dollars that count for ended runs untold.", lambda row: row.unknown_usd),
    ("seconds_total", "counter", "Seconds that ended runs took.", lambda row: row.wall_s),
)


def _of_money(found: VitalsView) -> list[str]:
    """What rented machines cost, by target, and what is left of each budget; nothing where there is none."""
    lines: list[str] = []
    if found.paid:
        for name, kind, about, value in _PAID:
            samples = [({"target": row.name}, value(row)) for row in found.paid]
            lines += _family(f"autoinfer_remote_{name}", kind, about, samples)
    if found.budgets:
        left = [({"scope": each.scope, "name": each.name}, each.left_usd) for each in found.budgets]
        lines += _family("autoinfer_budget_left_usd", "gauge", "Dollars left of a budget.", left)
    return lines


def _of_devices(devices: Sequence[DeviceHistory]) -> list[str]:
    lines: list[str] = []
    for family in _OF_DEVICES:
        samples = [
            (
                {"device": each.key, "kind": each.latest.kind.value, "model": each.latest.model},
                value,
            )
            for each in devices
            if (value := family.value(each.latest)) is not None
        ]
        if samples:
            lines += _family(f"autoinfer_device_{family.name}", "gauge", family.about, samples)
    return lines


def _by_state(name: str, told: str, counts: Mapping[str, int]) -> list[str]:
    return _family(name, "gauge", told, [({"state": str(state)}, count) for state, count in counts.items()])


def _family(name: str, kind: str, told: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    head = [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
    return head + [
        f"{name}{_labels(labels)} {value:g}"
        if isinstance(value, float)
        else f"{name}{_labels(labels)} {value}"
        for labels, value in samples
    ]


def _histogram(timings: Timings) -> list[str]:
    name = "autoinfer_request_seconds"
    lines = [
        f"# HELP {name} Seconds until the first byte of an answer, by route.",
        f"# TYPE {name} histogram",
    ]
    for route, buckets in sorted(timings.buckets.items()):
        counted = 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), buckets, strict=True):
            counted += count
            lines.append(f"{name}_bucket{_labels({'route': route, 'le': bound})} {counted}")
        lines.append(f"{name}_sum{_labels({'route': route})} {timings.seconds[route]:.6f}")
        lines.append(f"{name}_count{_labels({'route': route})} {counted}")
    return lines


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
