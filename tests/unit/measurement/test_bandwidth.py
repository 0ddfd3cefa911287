import pytest

from experiments.measurement.bandwidth import measure_copy_bandwidth


@pytest.mark.parametrize("threads", [1, 2])
def test_a_copy_has_a_bandwidth_that_memory_can_have(threads: int) -> None:
    found = measure_copy_bandwidth(threads, copy_bytes=8 * 2**20, repetitions=3)
    assert 1e8 < found.bytes_per_s < 1e13
    assert (found.threads, found.copy_bytes) == (threads, 8 * 2**20)
    assert "read + written" in found.method


@pytest.mark.parametrize(("threads", "copy_bytes", "repetitions"), [(0, 8, 1), (4, 3, 1), (1, 8, 0)])
def test_nothing_to_copy_is_refused(threads: int, copy_bytes: int, repetitions: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        measure_copy_bandwidth(threads, copy_bytes, repetitions)
