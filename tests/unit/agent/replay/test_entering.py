"""A planner of somebody else's package, as docs/replay.md tells how to enter one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.replay.course import Budget, course
from agent.replay.planners.registered import load_planner, planner_names
from agent.replay.table import Table
from configs.errors import UsageError
from tests.unit.agent.replay.conformance import check_planner
from tests.unit.agent.replay.synthetic import table

PAGE = Path(__file__).parents[4] / "docs" / "replay.md"
MODULE = "my_package"


def shown(language: str) -> str:
    """The code that the page shows of a language."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def made_up(tmp_path: Path) -> Table:
    return table(tmp_path)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's package, installed; its module may be written anew until it is loaded."""
    site = tmp_path / "site"
    (site / MODULE).mkdir(parents=True)
    module = site / MODULE / "__init__.py"
    module.write_text(shown("python"), encoding="utf-8")
    info = site / "my_package-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 0.1\n")
    (line,) = re.findall(r"^mine = \"(.*)\"$", shown("toml"), re.MULTILINE)
    (info / "entry_points.txt").write_text(f"[autoinfer.planners]\nmine = {line}\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield module
    sys.modules.pop(MODULE, None)


def test_the_planner_of_the_page_is_found_and_keeps_the_port(package: Path, made_up: Table) -> None:
    assert planner_names()[-1] == "mine"
    check_planner(made_up, "mine", load_planner("mine"))


def test_what_its_module_prints_never_comes_into_the_document(
    package: Path, made_up: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    package.write_text(f"print('loaded')\n{shown('python')}", encoding="utf-8")
    course(made_up, "mine", load_planner("mine"), 0, Budget(2))
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "loaded\n")


def test_a_module_that_ends_the_process_is_told_in_a_sentence(package: Path) -> None:
    package.write_text("raise SystemExit(4)", encoding="utf-8")
    with pytest.raises(UsageError, match=r"'mine' can't be loaded: it ends the process \(exit code 4\)"):
        load_planner("mine")
