"""`docs/campaigns.md` names every field of a question, every metric and every packaged campaign."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import yaml

from configs.campaign import load_campaign
from configs.catalog import Kind, packaged_names
from configs.questions import FEWEST, JudgedMetric, Question

PAGE = (Path(__file__).parents[3] / "docs" / "campaigns.md").read_text(encoding="utf-8")


def first_cells(header: str) -> list[str]:
    """The first cells of the table that begins with this header."""
    table = PAGE.split(f"| {header} |", 1)[1].split("\n\n", 1)[0]
    return [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| `")]


def test_every_field_of_a_question_is_documented_and_no_other() -> None:
    assert [cell.strip("`") for cell in first_cells("field")] == list(Question.model_fields)


def test_every_metric_of_a_question_is_documented_and_no_other() -> None:
    named = [name for cell in first_cells("metric") for name in re.findall(r"`([a-z_0-9]+)`", cell)]
    assert sorted(named) == sorted(get_args(JudgedMetric))


def test_every_packaged_campaign_and_the_word_for_fewest_are_named() -> None:
    for name in (*packaged_names(Kind.CAMPAIGNS), FEWEST):
        assert f"`{name}`" in PAGE or f": {name}`" in PAGE


def example_with(field: str) -> str:
    (found,) = (each for each in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if f"{field}:" in each)
    return str(found)


def test_the_example_of_further_workloads_is_accepted(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(example_with("further_workloads"))
    assert [each.asks for each in load_campaign(file).further] == [(1, 512, 32), (1, 64, 128)]


def test_the_example_is_accepted() -> None:
    (question,) = yaml.safe_load(example_with("questions"))["questions"]
    assert Question.model_validate(question).metric == "nll_bits"
