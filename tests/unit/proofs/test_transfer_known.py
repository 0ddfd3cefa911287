"""True knowledge is parted by whether launches of the target agree."""

from tests.proofs.transfer_known import APART, launches_apart, section
from tests.proofs.transfer_page import Ran

WORKLOADS = {"quiet": (1, 512), "loud": (16, 3840)}


def ran(trials: int) -> Ran:
    return Ran(trials, 10.0 * trials, True, 1.0, ())


def test_launches_agree_at_one_request_and_not_at_sixteen_with_long_prompts() -> None:
    apart = launches_apart()
    assert len(apart) == 8
    assert apart[1, 512] < APART < apart[16, 3840]


def test_pairs_count_by_their_target_and_by_what_was_true() -> None:
    runs = {
        ("loud → quiet", "true", 0): ("concurrency", ran(4), ran(1)),
        ("loud → quiet", "true", 1): ("concurrency", ran(4), ran(3)),
        ("loud → quiet", "turned", 0): ("concurrency", ran(4), ran(20)),
        ("quiet → loud", "true", 0): ("concurrency", ran(4), ran(4)),
        ("7 others → quiet", "true", 0): ("all", ran(2), ran(1)),
        ("one → of another table", "true", 0): ("model", ran(2), ran(1)),
    }
    words, table = section(runs, WORKLOADS)
    assert "5 % apart" in words
    assert table.splitlines()[2:] == [
        "| all | within 5% | 1 | 2.00 | 1.00 | 0.50 |",
        "| concurrency | within 5% | 1 | 4.00 | 2.00 | 0.50 |",
        "| concurrency | further apart | 1 | 4.00 | 4.00 | 1.00 |",
    ]


def test_nothing_is_told_of_other_grounds() -> None:
    assert section({("a → b", "true", 0): ("model", ran(2), ran(1))}, WORKLOADS) == []
