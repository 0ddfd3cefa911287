import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.executors.modal.prices import HOUR_S, packaged, rates_from


def names_of(names: list[str]) -> dict[str, str]:
    return {ours: f"gpu_{ours.lower().rstrip('!').replace('-', '_')}" for ours in names}


PACKAGED_PER_S = packaged().usd_per_s
TOLD = names_of(list(PACKAGED_PER_S)) | {"cpu": "cpu", "memory": "memory"}


@given(st.floats(0.3, 3.0), st.sampled_from([1.0, HOUR_S]))
def test_rates_are_taken_as_told_whether_by_the_second_or_by_the_hour(change: float, unit: float) -> None:
    told = {TOLD[ours]: usd * change * unit for ours, usd in PACKAGED_PER_S.items()}
    found = rates_from(told)
    for ours, usd in PACKAGED_PER_S.items():
        assert found.usd_per_s[ours] == pytest.approx(usd * change)
    assert found.basis == "Modal's rates for this workspace"


def test_a_rate_that_is_missing_ambiguous_or_far_off_leaves_the_packaged_one_and_says_so() -> None:
    told = {"gpu_h100": 0.002, "gpu_l4": 0.0002, "l4_region": 0.0003, "gpu_t4": 17.0}
    found = rates_from(told)
    assert found.usd_per_s["H100"] == 0.002
    assert found.usd_per_s["L4"] == PACKAGED_PER_S["L4"]
    assert found.usd_per_s["T4"] == PACKAGED_PER_S["T4"]
    assert "packaged prices of" in found.basis
    assert "T4, L4" in found.basis
    assert "H100" not in found.basis


def test_an_answer_without_a_known_name_gives_the_packaged_rates() -> None:
    assert rates_from({"storage": 1.0}) is packaged()


def test_a_container_costs_its_gpu_its_cores_and_its_memory() -> None:
    rate = packaged().of("H100!", 8, 64)
    assert rate == pytest.approx(0.001097 + 8 * 0.0000131 + 64 * 0.00000222)
    assert packaged().of(None, 8, 64) == pytest.approx(rate - 0.001097)
