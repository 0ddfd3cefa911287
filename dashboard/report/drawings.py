"""The drawings of a report: SVG that stands in the page itself and asks for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dashboard.charts.predicted_measured import predicted_measured
from dashboard.charts.search import SearchPoint, search_plot
from dashboard.pages.now import Rows
from dashboard.pages.pareto import plot_of, unit_of
from dashboard.rendering.environment import environment
from dashboard.report import words
from db.states import ExperimentState
from knowledge.figures import SHARES
from knowledge.queries.claims.predictions import PredictionsView
from knowledge.queries.pareto import ParetoView
from knowledge.queries.present.now_best import BestView
from knowledge.report.view import TrialView


def waterfall(best: BestView) -> Markup:
    """The bars from the baseline to the best."""
    return _drawn("waterfall", {"best": best, "rows": Rows(best), "change": words.change})


def pareto(view: ParetoView) -> Markup | None:
    """Latency against quality; None without a baseline."""
    plot = plot_of(view)
    return None if plot is None else _drawn("pareto", {"plot": plot, "unit": unit_of(view.metric)})


def search(trials: Sequence[TrialView]) -> Markup | None:
    """The path of the search; None without a test."""
    plot = search_plot([_tested(each) for each in trials])
    return None if plot is None else _drawn("search", {"plot": plot})


def predictions(view: PredictionsView) -> Markup | None:
    """Predicted against measured, of what is a ratio; None without a point."""
    chart = predicted_measured([each for each in view.points if each.measured.metric not in SHARES])
    return None if chart is None else _drawn("predictions", {"chart": chart})


def _tested(each: TrialView) -> SearchPoint:
    over, best = each.over_baseline, each.best_speedup
    timed = over is not None and over.metric.endswith("_ms")
    under_test = each.state in (ExperimentState.PLANNED, ExperimentState.RUNNING)
    outcome = each.outcome.value if each.outcome else "testing" if under_test else each.state.value
    said = words.effect(over) if timed else "not timed against the baseline"
    return SearchPoint(
        title=f"{each.experiment}, {words.outcome(each.outcome, each.state)}: {said}",
        outcome=outcome,
        over=1 + over.relative if over is not None and timed else None,
        low=None if over is None or not timed or over.low is None else 1 + over.low,
        high=None if over is None or not timed or over.high is None else 1 + over.high,
        best_over=None if not best else 1 / best,
    )


def _drawn(name: str, values: Mapping[str, Any]) -> Markup:
    return Markup(environment().get_template(f"report/_{name}.html").render(values).strip())
