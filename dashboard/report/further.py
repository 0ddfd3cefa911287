"""What tests measured of further workloads, beside their verdicts."""

from __future__ import annotations

from dashboard.report.document import Block, Paragraph, Points, Row, Section, table
from knowledge.queries.measured.further import NOT_JUDGED
from knowledge.report.view import ReportView


def further(view: ReportView) -> tuple[Section, ...]:
    """The section of further workloads; none of a campaign that has none."""
    if not view.further_workloads:
        return ()
    rows = [
        Row((test.experiment, each.words, told.name, *told.figures, told.change_words, str(told.pairs)))
        for test in view.further_workloads
        for each in test.workloads
        for told in each.metrics
    ]
    blocks: list[Block] = [Paragraph(NOT_JUDGED)]
    if rows:
        blocks.append(
            table(
                "Further workloads, measured in the launches of each test. Means over the launches of each "
                "arm; changes are over launch pairs, with 95 % intervals from three pairs on.",
                ("Test", "Workload", "Metric", ">Control", ">Candidate", ">Change", ">Pairs"),
                rows,
            )
        )
    failures = tuple(
        f"{test.experiment}, {each.words}: {why}"
        for test in view.further_workloads
        for each in test.workloads
        for why in each.failures
    )
    if failures:
        blocks += [Paragraph("What could not be measured:"), Points(failures)]
    return (Section("Further workloads, not part of any verdict", tuple(blocks)),)
