"""The document of a report, section by section."""

from __future__ import annotations

from dataclasses import replace

from dashboard.report import learning, opening, record, results
from dashboard.report.document import Document, numbered
from dashboard.report.further import further
from knowledge.report.view import ReportView


def document(view: ReportView) -> Document:
    """Everything that a report says, in the order of reading."""
    sections = (
        opening.question(view),
        opening.set_up(view),
        results.result(view),
        results.waterfall(view),
        results.pareto(view),
        learning.path(view),
        *further(view),
        learning.findings(view),
        learning.ruled_out(view),
        learning.predictions(view),
        learning.beliefs(view),
        record.seals(view),
        record.costs(view),
        record.environment(view),
        record.reproduction(view),
        record.samples(view),
    )
    return replace(opening.opening(view), sections=numbered(sections))
