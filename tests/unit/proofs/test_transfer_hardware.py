"""The page of transfer between cards is what its generator prints: only the figures are those of a run."""

from tests.proofs.transfer_aside import page
from tests.proofs.transfer_hardware import ASIDE
from tests.proofs.transfer_page import how_it_ran
from tests.proofs.transfer_tables import (
    OTHER_HARDWARE,
    WORKLOADS,
    across_hardware,
    alike,
    grounds,
    hardware_grounds,
)
from tests.unit.proofs.test_transfer_page import ran_of, words


def test_the_page_in_the_documentation_says_what_the_generator_says() -> None:
    sizes = dict.fromkeys((*WORKLOADS, *OTHER_HARDWARE), 1)
    how = how_it_ran("python -m tests.proofs.transfer_hardware", 3, 2, 1.0, 0)
    made = page(ASIDE, ran_of("H200 to H100", "H100 to H200"), how, sizes)
    assert words(ASIDE.path.read_text(encoding="utf-8")) == words(made)


def test_what_differs_between_cards_is_the_hardware_alone() -> None:
    for pair in across_hardware():
        there = alike(pair.sources[0], pair.target)
        assert (there.model, there.workload, there.hardware, there.distance) == (True, True, False, 0.0)


def test_all_that_was_measured_on_the_h100_is_in_the_h200_s_table_too() -> None:
    """Else a best of the one could not be found on the other."""
    here, there = grounds(), hardware_grounds()
    for one, other in zip(WORKLOADS, OTHER_HARDWARE, strict=True):
        known = {row.configuration for row in here[one].rows}
        assert {row.configuration for row in there[other].rows} <= known
