"""The pages of the tables that were measured are what the command makes of the archives beside them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app

RESULTS = Path(__file__).parents[4] / "docs" / "results"

TITLES = {
    "h200-9b": "Qwen3.5-9B's shape on an H200",
    "h200-4b": "Qwen3.5-4B's shape on an H200",
    "h100-9b": "Qwen3.5-9B's shape on an H100",
    "h100-9b-vllm-0.33": "Qwen3.5-9B's shape on an H100, with vLLM 0.33",
    "h200-9b-prefill": "Two kernels for prompts: Qwen3.5-9B's shape on an H200, with vLLM 0.33",
    "h200-9b-heads": "Copies of the output head to draft with: Qwen3.5-9B's shape on an H200, with vLLM 0.33",
    "h200-9b-steps": "How many tokens a step reads: Qwen3.5-9B's shape on an H200, with vLLM 0.33",
    "h200-9b-dflash": "Drafting by DFlash: Qwen3.5-9B's shape on an H200, with vLLM 0.33",
    "h200-9b-graphs": "CUDA graphs of prompts' steps: Qwen3.5-9B's shape on an H200, with vLLM 0.33",
    "h200-9b-http": "Qwen3.5-9B's shape on H200s, asked over HTTP beside loads",
    "h200-9b-launches": "Qwen3.5-9B's shape on H200s, over HTTP: two launches of each",
    "h200-9b-later": "Qwen3.5-9B's shape on an H200, later: what does not run there",
    "h200-4b-later": "Qwen3.5-4B's shape on an H200, later: a load beside a measurement",
}


@pytest.mark.parametrize("name", sorted(TITLES))
def test_page_and_csv_are_what_their_journal_says(name: str) -> None:
    journal = str(RESULTS / "tables" / f"{name}.jsonl")
    page = CliRunner().invoke(app, ["table", "page", journal, "--title", TITLES[name]])
    assert page.exit_code == 0, page.output
    assert page.stdout == (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    exported = CliRunner().invoke(app, ["table", "export", journal])
    assert exported.stdout == (RESULTS / "tables" / f"{name}.csv").read_text(encoding="utf-8")


def test_a_journal_in_which_nothing_was_measured_has_no_page(tmp_path: Path) -> None:
    journal = (RESULTS / "tables" / "h200-9b-graphs.jsonl").read_text(encoding="utf-8")
    begun = tmp_path / "begun.jsonl"
    begun.write_text(journal.splitlines()[0] + "\n", encoding="utf-8")
    page = CliRunner().invoke(app, ["table", "page", str(begun), "--title", "x"])
    assert page.exit_code != 0
    assert "Nothing of this table has been measured" in str(page.exception or "") + page.output


def test_a_page_of_several_runs_tells_which_loads_each_measured() -> None:
    page = (RESULTS / "h200-9b-dflash.md").read_text(encoding="utf-8")
    first, second, third, last = (each for each in page.splitlines() if each.startswith("- run "))
    assert first.startswith("- run 1, 2026-11-29, 11:02 to 11:07 UTC: `autoinfer table measure dflash.yaml ")
    assert first.endswith("`: the grid's first; draft_tokens 7, drafter packaged, method dflash")
    assert second.endswith("`: draft_tokens 15, drafter packaged, method dflash")
    assert third.endswith("`: draft_tokens 3, method mtp")
    assert last.count("; ") == 3, "all four loads"
    assert "measured in 4 runs, so a difference between loads of two of them may be the machine's: " in page


@pytest.mark.parametrize("section", ["## Times", "## Times to the first token"])
def test_a_page_compares_launches_of_one_run_and_lists_those_of_others_apart(section: str) -> None:
    page = (RESULTS / "h200-9b-dflash.md").read_text(encoding="utf-8")
    own, others = page.split(f"{section}\n")[1].split("\n## ")[0].split("Launches of other runs")
    runs = [
        [row.split(" | ")[1] for row in each.splitlines() if row.startswith("| ")] for each in (own, others)
    ]
    assert runs == [["run", "4", "4", "4", "4"], ["run", "3", "2", "1", "1"]]


def test_a_page_of_several_runs_on_one_gpu_says_that_they_are(tmp_path: Path) -> None:
    journal = (RESULTS / "tables" / "h200-9b-dflash.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in journal.splitlines()]
    told = tmp_path / "told.jsonl"
    told.write_text(
        "".join(
            json.dumps({**each, "identity": {**each["identity"], "uuid": "GPU-1"}}) + "\n" for each in lines
        )
    )
    page = CliRunner().invoke(app, ["table", "page", str(told), "--title", "x"]).stdout
    assert "- measured in 4 runs, on one GPU\n" in page
    assert "may be the machine's" not in page
    assert "| run |" not in page
    assert "Launches of other runs" not in page
