"""Made-up samples of a GPU that nobody has, for machines of tests: figures that go up and down, no device."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from experiments.telemetry.reading import DeviceKind, DeviceReading, ProcessReading, Sample


def made_up_sampler(gpu: str | None) -> Callable[[], Sample] | None:
    """What reads a GPU such as `NVIDIA L4,24`; None for none."""
    if not gpu:
        return None
    name, _, memory_gb = gpu.rpartition(",")
    steps = count()
    total = int(float(memory_gb) * 1e9)

    def sample() -> Sample:
        wave = math.sin(next(steps) / 7)
        reading = DeviceReading(
            name="cuda:0",
            kind=DeviceKind.GPU,
            model=name,
            utilization_percent=70 + 20 * wave,
            memory_used_bytes=int(total * 0.8),
            memory_total_bytes=total,
            power_w=60 + 8 * wave,
            power_limit_w=72.0,
            temperature_c=61 + 3 * wave,
            clock_mhz=1700 + 100 * wave,
            clock_max_mhz=2040,
            throttle=(),
            processes=(ProcessReading(7, "of nobody here", None),),
        )
        host = DeviceReading("cpu", DeviceKind.CPU, "a processor")
        return Sample(datetime.now(UTC), "a-machine-of-tests", (reading, host))

    return sample
