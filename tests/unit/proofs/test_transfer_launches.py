"""The page of transfer on rows that were launched twice is what its generator prints."""

from tests.proofs.transfer_aside import page
from tests.proofs.transfer_launches import ASIDE, COLUMNS, beside
from tests.proofs.transfer_page import how_it_ran
from tests.proofs.transfer_tables import LAUNCHED_TWICE, alike, between, launched_twice_grounds
from tests.unit.proofs.test_transfer_page import ran_between, words


def test_the_page_in_the_documentation_says_what_the_generator_says() -> None:
    how = how_it_ran("python -m tests.proofs.transfer_launches --seeds 5", 3, 2, 1.0, 0)
    made = page(ASIDE, ran_between(LAUNCHED_TWICE), how, dict.fromkeys(LAUNCHED_TWICE, 1))
    stored = ASIDE.path.read_text(encoding="utf-8")
    assert words(stored) == words(made)
    assert beside()[0] in stored


def test_rows_that_were_launched_once_are_left_out() -> None:
    found = launched_twice_grounds()
    assert len(found["twice-c1-p512"].rows) == 24
    assert len(found["twice-c64-p3840"].rows) == 23  # of one of them the second launch was cut off


def test_what_differs_is_the_workload_alone() -> None:
    for pair in between(LAUNCHED_TWICE):
        there = alike(pair.sources[0], pair.target)
        assert (there.model, there.workload, there.hardware) == (True, False, True)
        assert there.distance > 0


def test_a_workload_s_row_says_how_well_its_best_is_known() -> None:
    rows = beside()[0].splitlines()
    assert rows[0].count("|") == len(COLUMNS) + 1
    assert len(rows) == 2 + len(LAUNCHED_TWICE)
