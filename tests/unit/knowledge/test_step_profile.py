"""A profile is shown with the floor of each part and what lies above it."""

from dataclasses import asdict, replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.sheets.step_profile import print_step_profile
from experiments.engines.port import PartTime
from knowledge.queries.measured.stages import StageView
from knowledge.queries.measured.step_profile import (
    StepProfileView,
    profile_view,
    prompt_profile,
    step_profile,
    why_no_prompt_profile,
)
from tests.recorded.vllm_kernels import recorded_parts

H200_BYTES_PER_S = 4.257e12


def detail(name: str = "bf16") -> dict[str, object]:
    return {
        "parts": [asdict(part) for part in recorded_parts(name)],
        "bandwidth_bytes_per_s": H200_BYTES_PER_S,
        "bandwidth_method": "copies",
        "artifact": "ab" * 32,
        "context_tokens": 640,
    }


def test_the_recorded_step_of_the_9b_shape_has_the_floor_of_its_bytes() -> None:
    view = profile_view(detail())
    assert view.step_ms == pytest.approx(5.36, abs=0.01)
    assert view.floor_ms == pytest.approx(15.87 / 4.257, abs=0.01)
    assert view.above_ms == pytest.approx(view.step_ms - (view.floor_ms or 0))
    assert [row.part for row in view.parts][:3] == ["gate_up_proj", "down_proj", "in_proj_qkvz"]
    assert view.parts[-1].part == "outside"
    head = next(row for row in view.parts if row.part == "lm_head")
    assert head.floor_share == pytest.approx(0.97, abs=0.03)


def test_four_bits_lose_most_in_the_products_themselves() -> None:
    view = profile_view(detail("marlin"))
    products = [row for row in view.parts if row.part.endswith("_proj") or row.part == "in_proj_qkvz"]
    above = {row.part: row.above_ms or 0.0 for row in view.parts}
    assert sum(above[row.part] for row in products) > 0.5 * sum(above.values())
    assert view.floor_ms == pytest.approx(5.64 / 4.257, abs=0.01)


@given(
    st.lists(
        st.builds(
            PartTime,
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["gemm", "small", "outside"]),
            st.floats(0, 9),
            st.integers(0, 10**9),
            st.integers(0, 10**9),
            st.floats(0, 99),
        ),
        min_size=1,
    )
)
def test_parts_are_grouped_without_losing_time_bytes_or_kernels(parts: list[PartTime]) -> None:
    view = profile_view({"parts": [asdict(part) for part in parts]}, 1e12)
    assert sum(row.time_ms for row in view.parts) == pytest.approx(sum(part.time_ms for part in parts))
    assert sum(row.moved_bytes for row in view.parts) == sum(part.moved_bytes for part in parts)
    assert view.launches == pytest.approx(sum(part.launches for part in parts))
    assert all((row.above_ms or 0) >= 0 for row in view.parts)


def stage(**told: object) -> StageView:
    return StageView(
        stage="profile",
        attempt=1,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        wall_s=1.0,
        outcome=None,
        detail=told,
        log_path=None,
    )


def test_a_profile_of_before_without_bytes_of_caches_and_counts_is_still_shown() -> None:
    old = {"part": "layers.0.mlp", "kind": "mlp", "time_ms": 2.0, "weight_bytes": 10_000_000}
    second = {**old, "part": "layers.1.mlp"}
    view = step_profile([stage(parts=[old, second])], [{"machine": {"copy_bandwidth_bytes_per_s": 1e10}}])
    assert view is not None
    assert [(row.part, row.time_ms, row.floor_ms) for row in view.parts] == [("mlp", 4.0, 2.0)]
    assert "not measured" not in view.basis


def test_without_a_bandwidth_there_is_no_floor_and_that_is_said() -> None:
    view = step_profile([stage(parts=[{"part": "x", "kind": "rest", "time_ms": 1.0, "weight_bytes": 5}])])
    assert view is not None
    assert (view.floor_ms, view.above_ms, view.parts[0].above_ms) == (None, None, None)
    assert "was not measured" in view.basis


@pytest.mark.parametrize(("kernels_ms", "scaled"), [(1.02, True), (1.0, False), (0.7, False), (None, False)])
def test_parts_that_are_scaled_down_to_the_step_say_so(kernels_ms: float | None, *, scaled: bool) -> None:
    part = {"part": "x", "kind": "small", "time_ms": 1.0, "weight_bytes": 5}
    view = step_profile([stage(parts=[part], kernels_ms=kernels_ms)])
    assert view is not None
    assert (
        "kernels took 1.02 ms as they were recorded and are scaled down to the 1.00" in view.basis
    ) is scaled
    assert (view.scaled_from_ms is not None) is scaled


def test_no_profile_stage_and_one_that_failed_show_nothing() -> None:
    assert step_profile([]) is None
    assert step_profile([stage(kind="crashed", cause="It died.")]) is None


def test_the_printed_table_has_every_part_the_sum_and_the_kernels_of_unknown_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unknown = [{"name": f"strange_{n}", "launches": 2.0, "us": 3.5} for n in range(9)]
    print_step_profile(profile_view({**detail(), "unknown_kernels": unknown}))
    text = capsys.readouterr().out
    for words in ("gate_up_proj", "GatedDeltaNet state", "outside kernels", "the step", "of the bandwidth"):
        assert words in text
    assert "of unknown name: 3.5 µs in 2 calls of strange_0" in text
    assert "and 1 other, which the artifact lists" in text


def lone_prompt(**other: object) -> dict[str, object]:
    parts = [
        PartTime("gate_up_proj", "gemm", 8.0, 3_000_000_000, launches=32, operations=5e12),
        PartTime("lm_head", "lm_head", 0.6, 2_000_000_000, launches=1, operations=2e9),
        PartTime("outside", "outside", 40.0, 0),
    ]
    told = {"first_token_ms": 48.6, "prompt_tokens": 512, "parts": [asdict(each) for each in parts]}
    return {**told, "operations_per_s": 1e15, "operations_method": "products", **other}


def test_a_lone_prompt_has_the_floor_of_its_bytes_or_of_its_products_whichever_takes_longer() -> None:
    view = prompt_profile([stage(prompt=lone_prompt(), bandwidth_bytes_per_s=4e12, artifact="ab" * 32)])
    assert view is not None
    floors = {row.part: row.floor_ms for row in view.parts}
    assert floors == {"gate_up_proj": 5.0, "lm_head": 0.5, "outside": 0.0}
    assert (view.floor_ms, view.step_ms, view.prompt_tokens) == (5.5, pytest.approx(48.6), 512)
    assert view.parts[-1].above_ms == 40.0
    assert "4,000 GB/s and 1,000 TFLOP/s of products (products)" in view.basis
    assert "A-abababababab" in view.basis


def test_without_any_rate_a_lone_prompt_has_no_floor_and_that_is_said() -> None:
    view = prompt_profile([stage(prompt=lone_prompt(operations_per_s=None))])
    assert view is not None
    assert (view.floor_ms, view.above_ms) == (None, None)
    assert "neither bandwidth nor rate of the device was measured" in view.basis


def test_a_lone_prompt_is_printed_up_to_its_first_token(capsys: pytest.CaptureFixture[str]) -> None:
    view = prompt_profile([stage(prompt=lone_prompt(), bandwidth_bytes_per_s=4e12)])
    assert view is not None
    print_step_profile(view)
    text = capsys.readouterr().out
    for words in ("to the first token", "floor of time", "48,600", "62 %", "11 %"):
        assert words in text


def test_the_experts_of_a_lone_prompt_have_a_floor_and_words_of_their_own() -> None:
    experts = PartTime("experts", "experts", 30.0, 60_000_000_000, launches=120, operations=2e12)
    shared = PartTime("shared_expert", "gemm", 1.0, 300_000_000, launches=160, operations=1e11)
    view = prompt_profile(
        [stage(prompt=lone_prompt(parts=[asdict(experts), asdict(shared)]), bandwidth_bytes_per_s=4e12)]
    )
    assert view is not None
    rows = {row.part: row for row in view.parts}
    assert (rows["experts"].floor_ms, rows["experts"].counted) == (15.0, True)
    assert rows["experts"].words == "experts, and what routes tokens to them"
    assert rows["shared_expert"].words == "shared expert and router"
    by_bytes = lone_prompt(parts=[asdict(experts)], operations_per_s=None)
    alone = prompt_profile([stage(prompt=by_bytes, bandwidth_bytes_per_s=2e12)])
    assert alone is not None
    assert [(row.floor_ms, row.counted) for row in alone.parts] == [(30.0, True)]


UNCOUNTED = [
    PartTime("gdn_state", "gdn_state", 1.5, 4_608, launches=120),
    PartTime("small", "small", 1.4, 555_008, launches=465),
    PartTime("attention", "attention", 0.3, 0, launches=25),
]
"""Parts of a prompt of which the products, or the activations, are not counted."""


def with_uncounted() -> StepProfileView:
    prompt = lone_prompt()
    parts = [*prompt["parts"], *(asdict(each) for each in UNCOUNTED)]  # type: ignore[misc]
    view = prompt_profile([stage(prompt={**prompt, "parts": parts}, bandwidth_bytes_per_s=4e12)])
    assert view is not None
    return view


def test_of_a_lone_prompt_only_products_are_counted_and_what_is_outside_has_no_work() -> None:
    view = with_uncounted()
    assert {row.part for row in view.parts if not row.counted} == {"gdn_state", "small", "attention"}
    assert [row.floor_share for row in view.parts if not row.counted] == [None] * 3
    assert view.floor_ms == pytest.approx(5.5, abs=1e-3), "the floor of the whole is that of what is counted"


def test_a_part_whose_operations_are_told_is_counted_whatever_it_is() -> None:
    prompt = lone_prompt(parts=[asdict(replace(UNCOUNTED[2], operations=1e10))])
    view = prompt_profile([stage(prompt=prompt, bandwidth_bytes_per_s=4e12)])
    assert view is not None
    assert [(row.part, row.counted, row.floor_ms) for row in view.parts] == [("attention", True, 0.01)]


def test_operations_of_a_device_whose_rate_is_not_known_are_no_floor_of_nothing() -> None:
    prompt = lone_prompt(parts=[asdict(replace(UNCOUNTED[0], operations=1e10))], operations_per_s=None)
    view = prompt_profile([stage(prompt=prompt, bandwidth_bytes_per_s=4e12)])
    assert view is not None
    assert [(row.counted, row.floor_ms) for row in view.parts] == [(False, None)]


def test_of_a_decode_step_all_bytes_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    view = profile_view(detail())
    assert all(row.counted for row in view.parts)
    print_step_profile(view)
    assert "not counted" not in capsys.readouterr().out


def test_a_part_that_is_not_counted_is_printed_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")  # a line for each part
    print_step_profile(with_uncounted())
    out = capsys.readouterr().out
    assert "no floor is known; their time counts as above that of the whole" in out
    told = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    for part in ("GatedDeltaNet state", "norms, gates, activations, copies", "attention"):
        assert "not counted" in told[part], part
        assert "%" not in told[part].split("not counted")[1], part
    assert "not counted" not in told["gate_up_proj"]
    assert "not counted" not in told["outside kernels: launches, scheduling"]


def test_the_last_lone_prompt_counts_and_why_there_is_none_is_told() -> None:
    failed, other = stage(prompt={"failure": "It died."}), stage(parts=[])
    assert prompt_profile([failed]) is prompt_profile([other]) is prompt_profile([]) is None
    assert why_no_prompt_profile([failed, other]) == "It died."
    assert why_no_prompt_profile([stage(prompt=lone_prompt())]) is None
    assert why_no_prompt_profile([]) is None
