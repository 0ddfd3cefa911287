"""`autoinfer replay` on the example and on a frozen table."""

import platform
from pathlib import Path

import pytest

from tests.integration.cli.command import ROOT, Autoinfer

EXAMPLE = ROOT / "docs" / "examples" / "measured.csv"
FROZEN = ROOT / "docs" / "results" / "tables" / "h200-9b.csv"


def test_planners_are_compared_in_a_table_and_a_picture(autoinfer: Autoinfer, tmp_path: Path) -> None:
    done = autoinfer(f"replay {EXAMPLE} --planner ours --planner random --seeds 4 --svg {tmp_path}/r.svg")
    assert done.code == 0, done.err
    assert "9 configurations, tpot_ms 10 at trial 0, 4 at best" in done.out
    assert "Regret less that of random" in done.out
    assert "Made with autoinfer " in done.out
    assert "Mean regret, % of the best gain that is still missing" in done.out
    assert (tmp_path / "r.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_document_tells_every_course(autoinfer: Autoinfer) -> None:
    line = (
        f"replay {FROZEN} --where concurrency=1 --where prompt_tokens=512 --planner random --seeds 3 --json"
    )
    found = autoinfer(line).json()
    assert (found["configurations"], len(found["items"][0]["courses"])) == (14, 3)
    assert found == autoinfer(line).json()
    assert set(found["made_with"]["packages"]) == {"Optuna", "SMAC3"}
    assert found["made_with"]["python"] == platform.python_version()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("replay nowhere.csv", "There is no table at nowhere.csv"),
        (f"replay {FROZEN}", "they differ in concurrency"),
        (f"replay {EXAMPLE} --planner nobody", "There is no planner 'nobody'"),
        (f"replay {EXAMPLE} --budget 0", "less than one"),
        (f"replay {EXAMPLE} --budget 1s", "less than one trial"),
        (f"replay {EXAMPLE} --where concurrency", "is no condition"),
        (f"replay {EXAMPLE} --where a=b", "no column 'a'"),
        (f"replay {EXAMPLE} --permute quantization.method", "no two labels"),
        (f"replay {EXAMPLE} --metric ttft_ms", "no column ttft_ms"),
        (f"replay {EXAMPLE} --svg nowhere/r.svg", "there is no folder nowhere"),
        (f"replay {EXAMPLE} --svg {ROOT}", "is a folder"),
    ],
)
def test_what_can_not_be_is_told_in_a_sentence(autoinfer: Autoinfer, line: str, why: str) -> None:
    done = autoinfer(line)
    assert done.code == 2
    assert why in done.err
    assert "Traceback" not in done.err
