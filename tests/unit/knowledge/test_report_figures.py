"""What a report draws of a search: marks, steps of the best, and ratios over the baseline."""

import re

from dashboard.charts.search import MOST_MARKS, SearchPoint, search_plot
from knowledge.queries.pareto_ratios import Ratio, chained, each_over_baseline


def test_the_path_of_a_long_search_is_drawn_as_dots() -> None:
    one = SearchPoint("E-0001", "refuted", 1.1, 1.0, 1.2, 0.9)
    short, long = search_plot([one] * MOST_MARKS), search_plot([one] * (MOST_MARKS + 1))
    assert short is not None
    assert long is not None
    assert (len(short.marks), short.dots) == (MOST_MARKS, ())
    assert long.marks == ()
    assert long.dots[0][1].count("M") == MOST_MARKS + 1
    assert search_plot([]) is None


def test_what_was_not_timed_stands_on_the_edge_and_the_best_steps_down() -> None:
    found = search_plot(
        [
            SearchPoint("E-0001", "infeasible", None, None, None, 1.0),
            SearchPoint("E-0002", "supported", 0.5, 0.4, 0.6, 0.5),
            SearchPoint("E-0003", "refuted", 9.0, 8.0, 10.0, 0.5),
        ]
    )
    assert found is not None
    assert [each.beyond for each in found.marks] == [True, False, True]
    assert found.marks[1].y > found.one, "faster lies lower"
    heights = [float(each.split()[1]) for each in re.findall(r"[ML]([\d.]+ [\d.]+)", found.path)]
    assert heights == sorted(heights)


def test_each_experiment_has_its_own_ratio_and_the_chain_is_as_it_was_then() -> None:
    def ratio(number: int, control: int, candidate: int, log_ratio: float, launches: int) -> Ratio:
        ends = (log_ratio - 0.1, log_ratio + 0.1)
        return Ratio(number, control, candidate, log_ratio, *ends, launches, None, None, None)

    ratios = [
        ratio(1, 0, 1, -0.5, 4),
        ratio(2, 1, 2, -0.2, 4),
        ratio(3, 0, 1, -0.4, 2),
        ratio(4, 9, 3, -1, 4),
    ]
    own = each_over_baseline(ratios, 0)
    assert {number: round(each.log_ratio, 6) for number, each in own.items()} == {1: -0.5, 2: -0.7, 3: -0.4}
    assert chained(ratios, 0)[1].experiments == 2
    assert chained(ratios, 0)[1].log_ratio == -0.5
