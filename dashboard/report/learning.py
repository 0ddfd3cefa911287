"""How a campaign searched and what it learnt: its path, findings, what was ruled out, its predictions."""

from __future__ import annotations

from configs.authors import author_words
from dashboard.rendering.figures import NARROW, whole
from dashboard.rendering.linking import came_up
from dashboard.report import drawings, opening, said_again, words
from dashboard.report.document import Block, Figure, Paragraph, Points, Row, Section, table
from dashboard.report.origins import origins
from db.states import VerdictOutcome
from knowledge.claim_scope import claim_and_scope
from knowledge.figures import SHARES, counted, listed, metric_word
from knowledge.machines import machines_named
from knowledge.report.view import ReportView, TrialView

RULED_OUT = (VerdictOutcome.REFUTED, VerdictOutcome.INFEASIBLE)
OPEN = (VerdictOutcome.INCONCLUSIVE, VerdictOutcome.CONFOUNDED)


def path(view: ReportView) -> Section:
    """The tests in their order, and what moved the queue between them."""
    title = "Path of the search"
    blocks = [*_interruptions(view), *origins(view)]
    if not view.trials:
        blocks.append(Paragraph("No test was begun."))
        return Section(title, tuple(blocks))
    drawing = drawings.search(view.trials)
    if drawing is not None:
        blocks.append(
            Figure(
                "Time of each tested configuration over the baseline's, in %, in the order of the tests, "
                "with 95 % "
                "intervals; the line is the best so far. Tests that were not timed, or are confounded, "
                "have their "
                "mark on the upper edge.",
                drawing,
            )
        )
    blocks.append(
        table(
            f"The tests in their order. Effects are against each test's own control, with 95 % intervals, "
            f"on {metric_word(view.metric)} where no other metric is named; the last column is the speed-up "
            "of the best after the test.",
            ("Test", "Hypothesis", "Change", "Proposed by", ">Effect", ">Pairs", "Outcome", ">Best so far"),
            [_trial(each, view.metric) for each in view.trials],
        )
    )
    reasons = [
        Row((each.hypothesis, each.experiment, each.why_then)) for each in view.trials if each.why_then
    ]
    if reasons:
        blocks.append(
            table(
                "Why each hypothesis stood where it stood when its turn came.",
                ("Hypothesis", "Test", "Reason of its last move"),
                reasons,
            )
        )
    if view.search.causes:
        blocks.append(
            table(
                f"What moved the queue, the most moves first, of {whole(view.search.moves)} "
                f"{'move' if view.search.moves == 1 else 'moves'}.",
                ("Event", "What happened", "About", ">Moves", "The first reason"),
                [
                    Row(
                        (
                            str(each.event_id),
                            each.kind.replace(".", " ").replace("_", " "),
                            each.subject or words.NONE,
                            whole(each.moves),
                            each.reason,
                        )
                    )
                    for each in view.search.causes
                ],
            )
        )
    return Section(title, tuple(blocks))


def _interruptions(view: ReportView) -> list[Block]:
    """What happened to it beside its tests; nothing where nothing did."""
    if not view.interruptions:
        return []
    return [
        table(
            "What kept it from its work, and that it went on, in the words of the log; times in UTC.",
            ("When", "About", "What happened", "Event"),
            [
                Row((words.instant(each.at), each.subject or words.NONE, each.text, str(each.event_id)))
                for each in view.interruptions
            ],
        )
    ]


def _trial(each: TrialView, own: str) -> Row:
    outcome = words.outcome(each.outcome, each.state)
    best = words.NONE if each.best_speedup is None else words.speedup(each.best_speedup, None, None)
    return Row(
        (
            each.experiment,
            each.hypothesis,
            words.change(each.change) or each.claim,
            author_words(each.proposer),
            words.effect(each.effect, own),
            str(each.pairs) if each.pairs else words.NONE,
            f"{outcome}, latency only" if each.latency_only else outcome,
            f"**{best}**" if each.is_new_best else best,
        ),
        anchor=each.experiment,
        mark=each.outcome.value if each.outcome else each.state.value,
    )


def findings(view: ReportView) -> Section:
    """What verdicts together say."""
    if not view.findings:
        return Section(
            "Findings", (Paragraph("None: no verdict of this campaign says anything that lasts."),)
        )
    said = {each.id: claim_and_scope(each.claim, each.rule) for each in view.findings}
    scopes = list(dict.fromkeys(scope for _, scope in said.values() if scope))
    number = {scope: str(at) for at, scope in enumerate(scopes, start=1)}
    apart = len(scopes) > 1
    rows = [
        Row(
            (
                each.id,
                came_up(f"{said[each.id][0].rstrip('.')}."),
                words.effect(each.effect, view.metric),
                each.strength,
                each.status.value
                + (f": {each.status_reason}" if each.status_reason else "")
                + (f" But {each.doubt}." if each.status_reason and each.doubt else "")
                + (f", but {each.doubt}" if each.doubt and not each.status_reason else ""),
                f"the sweep of {each.sweep}"
                if each.sweep
                else ", ".join(dict.fromkeys(one.named for one in each.evidence)),
                *((number.get(said[each.id][1], words.NONE),) if apart else ()),
            ),
            anchor=each.id,
        )
        for each in view.findings
    ]
    here = f", here of {machines_named(came_up(scopes[0]))}" if len(scopes) == 1 else ""
    blocks: list[Block] = [
        Paragraph(
            f"A finding speaks of this model, target, engine, versions and workload alone{here}. "
            f"{_rest(view)}"
        )
    ]
    if apart:
        told = (f"Scope {number[each]}: {_scope(each, scopes[0])}." for each in scopes)
        blocks.append(Points(tuple(machines_named(each) for each in told)))
    blocks.append(
        table(
            "Findings with the effect of all their evidence, pooled over campaigns where there are several, "
            f"on {metric_word(view.metric)} where no other metric is named.",
            (
                "Finding",
                "Claim",
                ">Effect",
                "Strength",
                "Status",
                "Evidence",
                *((">Scope",) if apart else ()),
            ),
            rows,
        )
    )
    return Section("Findings", tuple(blocks))


def _rest(view: ReportView) -> str:
    """How many findings rest on verdicts, and how many on what a sweep could not run."""
    of_sweeps = sum(each.sweep is not None for each in view.findings)
    counts = ((len(view.findings) - of_sweeps, "verdicts of this campaign"), (of_sweeps, "its sweep"))
    told = (
        f"{counted(count, 'finding')} {'rests' if count == 1 else 'rest'} on {what}."
        for count, what in counts
        if count
    )
    return " ".join(told)


def _scope(scope: str, first: str) -> str:
    """A scope in words; where it is the first one and something more, what it is more."""
    if scope != first and scope.startswith(f"{first}, "):
        return f"as scope 1{came_up(scope.removeprefix(first))}"
    return came_up(scope)


def ruled_out(view: ReportView) -> Section:
    """What is ruled out and why, and what is left open and why, in the judge's own words."""
    blocks: list[Block] = []
    gone, left = view.judged(*RULED_OUT), view.judged(*OPEN)
    columns = ("Hypothesis", "Test", "Claim", "Outcome", "Why, in the judge's words")
    if gone:
        blocks.append(
            table("Ruled out: refuted, or not able to run.", columns, [_why(each) for each in gone])
        )
    else:
        blocks.append(Paragraph("Nothing is ruled out."))
    if left:
        blocks.append(
            table(
                "Left open: inconclusive, or confounded by what else differed.",
                columns,
                [_why(each) for each in left],
            )
        )
    broken = [each for each in view.trials if each.outcome is None and each.reason]
    if broken:
        blocks.append(table("Ended without a verdict.", columns, [_why(each) for each in broken]))
    return Section("What was ruled out, and why", tuple(blocks))


def _why(each: TrialView) -> Row:
    outcome = words.outcome(each.outcome, each.state)
    return Row(
        (each.hypothesis, each.experiment, each.claim, outcome, each.reason or words.NONE),
        mark=each.outcome.value if each.outcome else each.state.value,
    )


def predictions(view: ReportView) -> Section:
    """Predictions against outcomes."""
    title, found = "Predictions against outcomes", view.predictions
    if not found.points:
        return Section(title, (Paragraph(view.calibration.sentence),))
    blocks: list[Block] = [
        Paragraph(
            f"Every prediction was sealed before its test. {view.calibration.sentence} The interval of "
            "the share is the score interval, which takes the outcomes for independent."
        )
    ]
    drawing = drawings.predictions(found)
    if drawing is not None:
        in_points = any(each.measured.metric in SHARES for each in found.points)
        apart = "; effects in points have another scale, and stand in the table alone" if in_points else ""
        blocks.append(
            Figure(
                f"Predicted against measured change in %, on equal log axes{apart}. On the dashed line: as "
                "predicted. Bars "
                f"along: predicted 80{NARROW}%; upright: measured 95{NARROW}%.",
                drawing,
            )
        )
    rows = [
        Row(
            (
                each.hypothesis,
                each.experiment,
                words.effect(each.predicted, view.metric),
                words.effect(each.measured, view.metric),
                "yes" if each.inside else "no",
            ),
            mark=each.outcome.value,
        )
        for each in reversed(found.points)
    ]
    blocks.append(
        table(
            "Predictions and what was measured, in the order of the verdicts, on "
            f"{metric_word(view.metric)} where no other metric is named.",
            ("Hypothesis", "Test", ">Predicted, 80 %", ">Measured, 95 %", ">Inside"),
            rows,
        )
    )
    return Section(title, tuple(blocks))


def beliefs(view: ReportView) -> Section:
    """How far the supported may be believed: false ones expected, and what fresh runs said."""
    blocks: list[Block] = []
    doubts = [f"{each.experiment} is in doubt: {listed(list(each.because))}." for each in view.in_doubt]
    told = (*opening.false_ones(view), *doubts)
    blocks.append(
        Points(told) if told else Paragraph("Nothing is supported, so nothing supported can be false.")
    )
    blocks += [*said_again.verified(view), said_again.again(view)]
    return Section("How far it may be believed", tuple(blocks))
