"""`docs/discovery.md` and `docs/confounders.md` state what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.discovery.e_lond import level
from agent.judge.confounding import CLOCK_TOLERANCE, CLOCK_WORDS
from configs.catalog import Document
from configs.validation import parse_yaml
from experiments.space.loading import space_of
from knowledge.queries.claims.discovery import (
    DiscoveryView,
    DispatchedTest,
    GuardView,
    OutsideView,
    discovery_sentence,
    discovery_view,
)
from tests.proofs.later_tests import cells
from tests.proofs.simulated_rates import Counts, TimeNoise, plan_of
from tests.proofs.targets import Power

DOCS = Path(__file__).parents[4] / "docs"
DISCOVERY = (DOCS / "discovery.md").read_text(encoding="utf-8")
CONFOUNDERS = (DOCS / "confounders.md").read_text(encoding="utf-8")
ALPHA = 0.05


def rows() -> list[tuple[int, int, float, float]]:
    """Test, supported before, level in percent, e-value, as the page's table has them."""
    found = []
    for test, before, levels, needed in re.findall(
        r"^\| (\d+) \| ([\d /]+) \| ([\d. %/]+) \| ([\d,/ ]+) \|$", DISCOVERY, re.MULTILINE
    ):
        cells = [
            re.split(r" / ", cell.replace("%", "").replace(",", "")) for cell in (before, levels, needed)
        ]
        found += [(int(test), int(r), float(a), float(e)) for r, a, e in zip(*cells, strict=True)]
    return found


@pytest.mark.parametrize(("test", "before", "percent", "needed"), rows())
def test_the_levels_of_the_page_are_those_of_the_code(
    test: int, before: int, percent: float, needed: float
) -> None:
    found = level(ALPHA, test - 1, before)
    assert 100 * found == pytest.approx(percent, rel=0.01)
    assert 1 / found == pytest.approx(needed, rel=0.01)


def test_the_table_has_what_it_is_to_show() -> None:
    assert [row[0] for row in rows()] == [1, 2, 2, 5, 5, 10, 10, 20, 20, 40, 40]


def reaches() -> list[tuple[int, int, tuple[float, float]]]:
    """Test, supported before, and in percent how far 4 + 2 and 16 + 2 pairs reach, as the page has them."""
    found = []
    row = r"^\| (\d+) \| ([\d /]+) \| ([\d. %/]+) \| ([\d. /]+%[\d. %/]*) \|$"
    for test, *told in re.findall(row, DISCOVERY, re.MULTILINE):
        before, few, many = (re.split(r" / ", cell.replace(" %", "")) for cell in told)
        found += [
            (int(test), int(r), (float(a), float(b))) for r, a, b in zip(before, few, many, strict=True)
        ]
    return found


@pytest.mark.parametrize(("test", "before", "percents"), reaches())
def test_how_far_a_later_test_reaches_is_what_the_proof_counts(
    test: int, before: int, percents: tuple[float, float]
) -> None:
    nothing, alike = Counts(1, 0, 0, 0, 0, 0), TimeNoise(0.01, block_sd=0.0, request_sd=0.0)
    for full_pairs, percent in zip((4, 16), percents, strict=True):
        plan = plan_of(full_pairs, level(ALPHA, test - 1, before))
        assert 100 * Power(plan, 0.05, alike, nothing).support_reach == pytest.approx(percent, abs=0.006)


def test_the_tests_of_the_page_are_those_of_the_proof() -> None:
    told = [(test, before) for test, before, _ in reaches()]
    assert told == [(each.test, each.supported) for each in cells() if each.campaign == "hours"]


def test_the_page_names_every_field_of_the_json() -> None:
    for name in (*DiscoveryView.model_fields, *OutsideView.model_fields, *GuardView.model_fields):
        assert f"`{name}`" in DISCOVERY


def test_the_sentence_of_the_page_is_the_one_that_is_told() -> None:
    tests = [DispatchedTest(n, "tpot_ms", ALPHA, 0.02, n < 4, n < 7) for n in range(30)]
    assert str(discovery_sentence(discovery_view(tests, ALPHA))) in " ".join(DISCOVERY.split())


def test_the_example_of_a_space_is_accepted() -> None:
    example = re.findall(r"```yaml\n(.*?)```", CONFOUNDERS, re.DOTALL)[0]
    space = space_of(Document(parse_yaml(f"name: own\nknobs:\n{example}", "here"), "here"))
    assert [knob.name for knob in space.pinning("linear_kernel")] == ["serving.linear_kernel"]
    assert space.knob("serving.threads").pinning_value("threads", "2") == 2


def test_the_tolerance_and_the_words_of_clocks_are_stated() -> None:
    assert f"may\ndiffer by {100 * CLOCK_TOLERANCE:g} %" in CONFOUNDERS
    assert all(f"`{word}`" in CONFOUNDERS for word in CLOCK_WORDS)
