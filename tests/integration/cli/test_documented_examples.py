"""The examples of `docs/commands.md` run in their order, on one campaign; some commands as installed."""

import re
import shutil
from pathlib import Path

import pytest

from tests.integration.cli.command import ROOT, Autoinfer

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ELSEWHERE = (
    "run ",
    "queue --what-if",
    "aa ",
    "artifacts put ",
    "enqueue ",
    "reproduce ",
    "verify ",
    "promote ",
    "export ",
    "build ",
    "check ",
    "approve ",
    "reference train ",
    "drafter train ",
    "drafter score",
    "worker --db postgresql:",
    "worker --target",
    "reconcile --executor modal",
    "modal ",
    "answers ",
    "graph untested",
    "show E-0001 --log",
    "dashboard",
    "mcp",
    "devices --record",
    "engines install",
    "plan --model Qwen/",
    "table prepare",
    "table measure",
    "table export",
    "table same",
    "table archive",
    "table page",
)
"""Examples that measure, record, train, serve, install, ask the hub or a provider, or need a campaign that
asks or whose model is here, a job that ran here or what waits for approval; their own tests run them."""

AS_INSTALLED = {"plan", "report", "queue", "show", "pin", "devices"}
"""Commands whose first example is run by the installed script, which takes a second longer than a fork."""


def examples() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.removeprefix("autoinfer ") for block in blocks for line in block.splitlines()]


@pytest.mark.timeout(900)
def test_every_example_runs_as_it_stands(with_history: Autoinfer, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs" / "examples", tmp_path, dirs_exist_ok=True)
    ran = [line for line in examples() if not line.startswith(ELSEWHERE)]
    seen: set[str] = set()
    for line in ran:
        command = line.split()[0]
        done = with_history.fresh(line) if command in AS_INSTALLED - seen else with_history(line)
        seen.add(command)
        assert done.code == 0 or (line == "doctor" and done.code == 1), f"{line}\n{done.err}"
        assert done.out
    assert len(ran) > 25
    assert seen >= AS_INSTALLED
    assert (tmp_path / "graph.graphml").exists()


def test_the_readme_leads_to_every_document() -> None:
    linked = set(re.findall(r"\]\((docs/[a-z-]+\.md)\)", README))
    assert linked == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}


def test_the_list_of_results_leads_to_every_page() -> None:
    folder = ROOT / "docs" / "results"
    linked = re.findall(r"\]\(([a-z0-9.-]+\.md)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert sorted(linked) == sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")
