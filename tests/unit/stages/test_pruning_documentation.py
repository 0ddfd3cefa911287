"""`docs/pruning.md` shows every criterion with what it measures and costs, and no other."""

from pathlib import Path

from experiments.stages.pruning.calibration import CALIBRATION_DOCUMENTS, CALIBRATION_TOKENS
from experiments.stages.pruning.choosing import RESTRICTIONS
from experiments.stages.pruning.criteria import CRITERIA
from experiments.stages.pruning.rank_correlation import CONDITIONAL_ON, RESAMPLES
from experiments.stages.pruning.stage import ORDERS, RANKED_ON

PAGE = (Path(__file__).parents[3] / "docs" / "pruning.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())


def test_every_criterion_is_documented() -> None:
    table = PAGE.split("|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    documented = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table]
    assert documented == [(f"`{each.name}`", each.measures, each.forwards) for each in CRITERIA.values()]


def test_values_and_figures_are_those_of_the_code() -> None:
    for value in (*RESTRICTIONS, *ORDERS, *RANKED_ON):
        assert f"`{value}`" in WORDS
    assert f"{CALIBRATION_DOCUMENTS} documents of {CALIBRATION_TOKENS} tokens" in WORDS
    assert f"{CALIBRATION_DOCUMENTS * CALIBRATION_TOKENS:,} tokens" in WORDS
    assert f"{RESAMPLES:,} draws" in WORDS
    assert CONDITIONAL_ON.split("; ")[1] in WORDS
