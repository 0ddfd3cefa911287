"""A table's page tells where the time to a lone prompt's first token goes, its floor, or why none is told."""

from dataclasses import asdict
from typing import Any

from agent.tables.profile_sections import prompt_section, step_section
from experiments.engines.port import PartTime

WORDS = {"a": "the first", "b": "the second"}

PARTS = [
    PartTime("down_proj", "gemm", 5.0, 8_000_000, 0, 32.0, 2_400_000_000_000),
    PartTime("lm_head", "lm_head", 1.5, 4_000_000_000, 0, 2.0, 8_000_000),
    PartTime("layers", "gemm", 2.0, 0, 0, 8.0, 800_000_000_000),
    PartTime("outside", "outside", 40.0, 0),
]

IDENTITY: dict[str, Any] = {"identity": {"name": "card"}}

RATES = {"bandwidth_bytes_per_s": 4e12, "bandwidth_method": "copies"}


def line(load: str, prompt: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**IDENTITY, "kind": "profile", "load": load, "parts": [], "prompt": prompt, **more}


def profile(load: str, parts: list[PartTime], **more: Any) -> dict[str, Any]:
    return {**IDENTITY, "kind": "profile", "load": load, "parts": [asdict(part) for part in parts], **more}


def prompt(**more: Any) -> dict[str, Any]:
    return {"prompt_tokens": 512, "parts": [asdict(part) for part in PARTS], **more}


def rows(lines: list[dict[str, Any]]) -> list[list[str]]:
    """The cells of the section's table, of the columns that say something here, without its head."""
    _, text = prompt_section(lines, WORDS)
    head, _, *body = [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("|")]
    shown = ("load", "first token", "down_proj", "lm_head", "outside", "others", "launches")
    return [[row[head.index(each)] for each in shown] for row in body]


def test_a_prompt_s_floor_is_below_it_part_by_part_where_rates_are_known() -> None:
    lines = [line("a", prompt(operations_per_s=8e14), **RATES)]
    assert rows(lines) == [
        ["the first", "48,500", "5,000", "1,500", "40,000", "2,000", "42"],
        ["its floor", "5,000", "3,000", "1,000", "–", "1,000", "–"],
    ]
    assert (
        "by its bytes at 4,000 GB/s or its products at 800 TFLOP/s, whichever"
        in prompt_section(lines, WORDS)[1]
    )


def test_rates_that_differ_between_launches_are_told_from_least_to_most() -> None:
    lines = [
        line("a", prompt(operations_per_s=8e14), **RATES),
        line("b", prompt(operations_per_s=7.9e14), bandwidth_bytes_per_s=4.1e12),
    ]
    told = prompt_section(lines, WORDS)[1]
    assert "by its bytes at 4,000 to 4,100 GB/s or its products at 790 to 800 TFLOP/s, whichever" in told


def test_of_the_bandwidth_alone_the_floor_is_that_of_the_bytes() -> None:
    lines = [line("a", prompt(), **RATES)]
    assert rows(lines)[1] == ["its floor", "1,002", "2", "1,000", "–", "–", "–"]
    assert "by its bytes at 4,000 GB/s (" in prompt_section(lines, WORDS)[1]


def test_a_journal_of_before_without_rates_has_no_floor() -> None:
    lines = [line("a", prompt())]
    assert [row[0] for row in rows(lines)] == ["the first"]
    assert "floor" not in prompt_section(lines, WORDS)[1]


def test_why_a_prompt_was_not_profiled_stands_below_those_that_were() -> None:
    lines = [line("a", prompt()), line("b", {"failure": "It died."})]
    assert [row[0] for row in rows(lines)] == ["the first"]
    assert prompt_section(lines, WORDS)[1].endswith("\n\n- the second: no lone prompt was profiled. It died.")


def test_a_failure_alone_has_the_section_and_one_beside_a_profile_of_the_same_load_is_not_told() -> None:
    head, text = prompt_section([line("b", {"failure": "It died."})], WORDS)
    assert head == "## Where the time to a first token goes"
    assert text == "- the second: no lone prompt was profiled. It died."
    both = [line("a", prompt()), line("a", {"failure": "It died."})]
    for lines in (both, both[::-1]):
        assert "It died." not in prompt_section(lines, WORDS)[1]


def test_without_any_lone_prompt_there_is_no_section() -> None:
    assert prompt_section([IDENTITY | {"kind": "profile", "load": "a", "parts": []}], WORDS) == ()


def test_a_step_has_its_floor_below_it_too() -> None:
    step = profile("a", PARTS, **RATES)
    text = step_section([step], WORDS)
    assert [row.split(" | ")[:4] for row in text.splitlines()[4:]] == [
        ["| the first", "48,500", "–", "5,000"],
        ["| its floor", "1,002", "–", "2"],
    ]
    assert "by its bytes at 4,000 GB/s (" in text


def test_parts_that_move_and_multiply_nothing_have_no_floor_and_nothing_is_said_of_one() -> None:
    outside = profile("a", PARTS[-1:], **RATES)
    assert "its floor" not in step_section([outside], WORDS)


def test_loads_whose_kernels_were_scaled_down_are_named_with_what_they_took() -> None:
    steps = [profile("a", PARTS, kernels_ms=50.0), profile("b", PARTS, kernels_ms=8.5)]
    assert "with nothing outside them: the first (of 50,000)." in step_section(steps, WORDS)
    assert "scaled" not in step_section(steps[1:], WORDS)
    assert "scaled" not in step_section([profile("a", PARTS)], WORDS), "a journal of before does not tell"
    told = prompt_section([line("b", prompt(kernels_ms=49.0))], WORDS)[1]
    assert "with nothing outside them: the second (of 49,000)." in told


BEGIN: dict[str, Any] = {**IDENTITY, "kind": "begin"}


def cell(load: str) -> dict[str, Any]:
    return {**IDENTITY, "kind": "cell", "load": load, "workload": {"key": "c1"}, "same": None}


def test_of_several_profiles_that_of_the_run_that_measured_most_is_told_with_its_run() -> None:
    slow, fast = profile("a", PARTS), profile("a", PARTS[:1])
    lines = [BEGIN, cell("a"), cell("b"), fast, BEGIN, cell("a"), slow, profile("b", PARTS)]
    text = step_section(lines, WORDS)
    assert [row.split(" | ")[:3] for row in text.splitlines() if row.startswith("|")][::2] == [
        ["| load", "run", "step"],
        ["| the first", "1", "5,000"],
    ]
    assert "| the second | 2 | 48,500 |" in text
    told = {**prompt(), "parts": [asdict(PARTS[0])]}
    lines = [BEGIN, cell("a"), cell("b"), line("a", told), BEGIN, cell("a"), line("a", prompt())]
    assert "| the first | 1 | 5,000 |" in prompt_section(lines, WORDS)[1]
    alone = [BEGIN, cell("a"), cell("b"), fast, slow]
    assert "| the first | 48,500 |" in step_section(alone, WORDS), "one run has the last, and names no run"
