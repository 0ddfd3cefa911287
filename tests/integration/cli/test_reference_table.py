"""The reference engine's table, end to end: the packaged model prepared, measured, exported, archived."""

import csv
from pathlib import Path

import pytest

from tests.integration.cli.command import Autoinfer

GRID = """
name: small
engine: reference
model: reference
weights: checkpoint
space: levers
base: {serving.dtype: float32, serving.threads: 1, serving.compile: 'off'}
lengths: [{prompt_tokens: 16, new_tokens: 9, requests: {1: 2}}]
side_by_side: {launches: 3, prompts_a_turn: 1, most_beside_cores: 1000}
quality: {documents: 2, tokens_per_document: 64, items: 2, drafting_prompts: 1, drafting_new_tokens: 8}
loads:
  - {}
  - {set: {drafting.method: mtp, pruning.method: depth}}
  - {set: {pruning.method: depth, pruning.restrict: attention, pruning.layers_removed: 3}}
"""


MOST_S = 400.0
"""Seconds that a call may take beside other tests."""


@pytest.mark.bench_only
@pytest.mark.timeout(3 * MOST_S)
def test_the_packaged_model_is_pruned_scored_checked_and_timed(tmp_path: Path) -> None:
    autoinfer = Autoinfer(tmp_path / "data", limit_s=MOST_S)
    grid, table = tmp_path / "small.yaml", tmp_path / "table"
    grid.write_text(GRID)
    prepared = autoinfer(f"table prepare {grid} --out {table} --json").json()
    assert (prepared["loads"], prepared["loads_left"]) == (3, 0)
    measured = autoinfer(f"table measure {grid} --out {table} --json").json()
    assert measured["reason"] == "all that is prepared is measured"
    assert autoinfer(f"table export {table} --to {tmp_path}/small.csv").code == 0
    control, drafts, refused = csv.DictReader((tmp_path / "small.csv").read_text().splitlines())
    assert (control["baseline"], control["tpot_over_control"], control["kl_nats"]) == ("yes", "1.0", "0.0")
    assert 0.5 < float(control["quality"]) < float(drafts["quality"])
    assert (float(drafts["kl_nats"]) > 0, float(drafts["build_s"]) > 0) == (True, True)
    assert (int(drafts["checked_tokens"]) > 0, float(drafts["tokens_a_step"]) >= 1) == (True, True)
    assert len(drafts["tpot_ms"].split()) == 2
    assert float(control["run_s"]) > float(control["serve_s"]) > 0
    assert (refused["feasible"], refused["cause_kind"]) == ("no", "illegal")
    archive = tmp_path / "small.jsonl"
    assert autoinfer(f"table archive {table} --gaps-up-to 0 --to {archive}").code == 0
    assert str(tmp_path) not in archive.read_text()
    again = autoinfer(f"table export {archive} --json").json()["items"]
    assert [row.get("tpot_ms") for row in again] == [control["tpot_ms"], drafts["tpot_ms"], None]
