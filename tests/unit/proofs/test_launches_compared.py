"""What docs/tables.md tells of two launches is what the kept tables say."""

from pathlib import Path

from agent.tables.journal import read_journal
from tests.proofs.launches_compared import ratios, served_s, served_without_loads, slower_launches
from tests.proofs.transfer_tables import LAUNCHED_TWICE_FILE, TABLES

DOCS = " ".join((Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8").split())


def lines() -> list[dict[str, object]]:
    return list(read_journal(TABLES / f"{LAUNCHED_TWICE_FILE}.jsonl"))


def test_the_page_says_what_the_slower_launches_drew() -> None:
    first, *workloads = slower_launches(lines())
    assert first.startswith("87 pairs over 5% apart: the slower drew less power in 79")
    assert first.endswith("its lowest clock was as high or higher in 79")
    assert "Of 87 pairs with 4 requests at once or more" in DOCS
    assert "it drew less power in 79, and its lowest clock was as high or higher in 79" in DOCS
    times, energies = (
        [float(each.split(f"{name} ")[1].split(",")[0]) for each in workloads] for name in ("time", "energy")
    )
    assert (min(times), max(times), min(energies), max(energies)) == (1.07, 1.15, 0.99, 1.06)
    assert "its time was 7 to 15 % longer at the median, and its energy −1 to +6 %" in DOCS


def test_the_page_says_how_often_the_kernel_that_hung_beside_loads_did_not() -> None:
    assert served_without_loads(lines()) == ["humming: 12 launches, 22 cells of 64 at once, 0 failures"]
    assert "none of twelve launches hung, in 22 cells of 64 at once" in DOCS


def test_the_page_says_that_loads_beside_do_not_shift_times() -> None:
    found = ratios("h200-9b-http")
    assert round(found[16, 512][2], 1) == 1.5
    assert "up to 1.5 times at 16 at once with 512 tokens" in DOCS
    steps = {place: round(step, 2) for place, (_, step, _, _) in found.items()}
    assert steps.pop((64, 3840)) == 1.06
    assert (min(steps.values()), max(steps.values())) == (0.99, 1.02)
    assert "0.99 to 1.02 times the one here in every workload but 64 at once with 3,840 tokens (1.06)" in DOCS


def test_the_page_says_how_the_engine_s_own_process_differs() -> None:
    found = {
        place: (round(step, 2), round(first, 2)) for place, (_, step, _, first) in ratios("h200-9b").items()
    }
    assert found.pop((64, 3840)) == (0.70, 1.35)
    later = [found[place] for place in ((4, 3840), (16, 512), (16, 3840), (64, 512))]
    assert (min(first for _, first in later), max(first for _, first in later)) == (0.34, 0.64)
    assert (min(step for step, _ in later), max(step for step, _ in later)) == (1.07, 1.21)
    assert "after 0.34 to 0.64 of the time over HTTP, and a token took 7 to 21 % longer" in DOCS


def test_a_cell_takes_from_its_first_request_to_its_last_token() -> None:
    request = {"start_us": 500_000, "ttft_us": 500_000, "rest_us": 1_000_000, "rest_tokens": 4}
    other = {"start_us": 0, "ttft_us": 100_000, "gaps_us": [100_000] * 2}
    assert served_s({"requests": [request, other]}) == 2.0
