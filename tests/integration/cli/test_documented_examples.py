"""The examples of `docs/commands.md` run, in their order, on one campaign."""

import re
from pathlib import Path

from tests.integration.cli.command import ROOT, Autoinfer

PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
ELSEWHERE = ("run ", "enqueue ", "reproduce ", "reference train ")
"""Examples that measure or train; the tests of those parts run them."""


def examples() -> list[str]:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.removeprefix("autoinfer ") for block in blocks for line in block.splitlines()]


def test_every_example_runs_as_it_stands(with_history: Autoinfer, tmp_path: Path) -> None:
    ran = [line for line in examples() if not line.startswith(ELSEWHERE)]
    for line in ran:
        done = with_history(line)
        assert done.code == 0 or (line == "doctor" and done.code == 1), f"{line}\n{done.err}"
        assert done.out
    assert len(ran) > 25
    assert (tmp_path / "graph.graphml").exists()
