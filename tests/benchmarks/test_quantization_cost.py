"""Quantizing the packaged reference model by AWQ costs under a minute and 2 GB, also on text of its own."""

import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.measurement.evidence import Json
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration
from experiments.stages.quantize.stage import WeightQuantization

pytestmark = pytest.mark.bench_only

MOST_SECONDS = 60.0
MOST_PEAK_BYTES = 2e9
"""What must be reached on two cores: wall-clock time of the whole stage, calibration text and start of the
process with it, and the peak resident memory of the greatest process that takes part: the one that runs the
stage, the one that quantizes, and the one that writes text for the corpus `self`."""

_RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""Unit of `ru_maxrss`."""


@dataclass(frozen=True)
class Cost:
    """What one run of the stage took, and what it reported."""

    report: dict[str, Json]
    took_s: float
    peak_bytes: int


def quantize(corpus: str, folder: Path) -> Cost:
    """Quantize in this process, which runs nothing else, so that what its children took is the stage's."""
    configuration = Configuration.of(
        {
            "quantization.method": "awq",
            "quantization.symmetric": False,
            "quantization.corpus": corpus,
        }
    )
    started_s = time.monotonic()
    try:
        report = WeightQuantization().build(configuration, reference_model_path(), folder)
    except Infeasible as reason:  # which does not travel between processes
        raise AssertionError(reason.cause) from None
    took_s = time.monotonic() - started_s
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Cost(dict(report), took_s, max(peaks) * _RSS_UNIT_BYTES)


@pytest.mark.parametrize("corpus", ["raw", "self"])
def test_awq_of_the_reference_model_is_quick_and_small(tmp_path: Path, corpus: str) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        cost = pool.submit(quantize, corpus, tmp_path).result()
    quantizing_bytes = cost.report["peak_memory_bytes"]
    assert isinstance(quantizing_bytes, int)
    print(
        f"\nAWQ on {corpus}, 32 samples of 256 tokens: {cost.took_s:.1f} s ({cost.report['seconds']}), "
        f"peak of the greatest process {cost.peak_bytes / 1e9:.2f} GB, of the one that quantizes "
        f"{quantizing_bytes / 1e9:.2f} GB, {cost.report['threads']} threads"
    )
    assert cost.peak_bytes >= quantizing_bytes  # which is one of them
    assert cost.peak_bytes < MOST_PEAK_BYTES
    assert cost.took_s < MOST_SECONDS
