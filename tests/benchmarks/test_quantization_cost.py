"""Quantizing the packaged reference model by AWQ costs under a minute and under 2 GB."""

import time
from pathlib import Path

import pytest

from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.stages.quantize.stage import WeightQuantization

pytestmark = pytest.mark.bench_only

MOST_SECONDS = 60.0
MOST_PEAK_BYTES = 2e9
"""What must be reached on two cores: wall-clock time of the whole stage, calibration text and start of the
process with it, and the peak resident memory of the process that quantizes."""


def test_awq_of_the_reference_model_is_quick_and_small(tmp_path: Path) -> None:
    configuration = Configuration.of({"quantization.method": "awq", "quantization.symmetric": False})
    started_s = time.monotonic()
    report = WeightQuantization().build(configuration, reference_model_path(), tmp_path)
    took_s = time.monotonic() - started_s
    peak_bytes = report["peak_memory_bytes"]
    assert isinstance(peak_bytes, int)
    print(
        f"\nAWQ, 32 samples of 256 tokens: {took_s:.1f} s ({report['seconds']}), "
        f"peak {peak_bytes / 1e9:.2f} GB, {report['threads']} threads"
    )
    assert took_s < MOST_SECONDS
    assert peak_bytes < MOST_PEAK_BYTES
