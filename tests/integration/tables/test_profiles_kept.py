"""What a table keeps of its profiles, and shows of them on its page; with the simulated engine."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from agent.tables.export import export
from agent.tables.page import page
from agent.tables.run import measure
from experiments.engines.port import Infeasible, PartTime
from tests.integration.tables.tables import grid_in, lines_of, run_in
from tests.simulated.engine import SimulatedLaunch

READ = {
    "bandwidth": {"bytes_per_s": 4e12, "method": "copies"},
    "products": {"operations_per_s": 8e14, "method": "products"},
}
"""What the worker measured of its device."""

PROMPT = {
    "first_token_ms": 60.0,
    "times_ms": [60.0],
    "prompt_tokens": 512,
    "parts": [asdict(PartTime("down_proj", "gemm", 5.0, 8_000_000, 0, 32.0, 2_400_000_000_000))],
    "kernels": [{"name": "known", "part": "down_proj", "launches": 32, "us": 5000.0}],
}


def profiled(folder: Path) -> list[dict[str, Any]]:
    """The profiles of a table that was measured into the folder, and what it said."""
    measure(replace(run_in(folder, grid_in(folder)), with_profile=True), lambda text: None)
    return [line for line in lines_of(folder) if line["kind"] == "profile"]


def page_of(folder: Path) -> str:
    lines = lines_of(folder)
    return page(lines, export(lines, None, None), "T", [])


def test_a_lone_prompt_is_kept_with_the_rates_of_its_floor_and_without_its_kernels_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"read": READ, "kernels": [], "prompt": PROMPT}
    monkeypatch.setattr(SimulatedLaunch, "profile_record", record, raising=False)
    line = profiled(tmp_path)[0]
    assert (line["bandwidth_bytes_per_s"], line["bandwidth_method"]) == (4e12, "copies")
    rate = {"operations_per_s": 8e14, "operations_method": "products", "kernels_ms": 5.0}
    assert line["prompt"] == {name: PROMPT[name] for name in PROMPT if name != "kernels"} | rate
    assert "its floor | 3,000 |" in page_of(tmp_path)


def test_why_a_lone_prompt_was_not_profiled_is_kept_told_and_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"read": READ, "kernels": [], "prompt": {"failure": "It died."}}
    monkeypatch.setattr(SimulatedLaunch, "profile_record", record, raising=False)
    said: list[str] = []
    measure(replace(run_in(tmp_path, grid_in(tmp_path)), with_profile=True), said.append)
    assert any(text.endswith("a lone prompt was not profiled: It died.") for text in said)
    assert page_of(tmp_path).count("no lone prompt was profiled. It died.") == 3


def test_a_profile_that_failed_leaves_its_load_measured_and_is_among_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object) -> NoReturn:
        raise Infeasible("crashed", "The simulated process ended.")

    monkeypatch.setattr(SimulatedLaunch, "profile", dies)
    assert {line["failure"]["cause"] for line in profiled(tmp_path)} == {"The simulated process ended."}
    assert page_of(tmp_path).count("| its profile | crashed | The simulated process ended. |") == 3


def test_an_engine_that_profiles_no_prompt_has_no_section_about_one(tmp_path: Path) -> None:
    assert all("prompt" not in line for line in profiled(tmp_path))
    assert "first token goes" not in page_of(tmp_path)
