"""What a campaign came to: the result, what each kept change gave, latency against quality."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.report import drawings, words
from dashboard.report.document import Block, Figure, Paragraph, Row, Section, table
from knowledge.figures import counted, metric_word, signed
from knowledge.latency_only import UNKNOWN_QUALITY
from knowledge.queries.present.now_best import BestView, StepView
from knowledge.report.evidence import DEPLOY
from knowledge.report.view import ReportView


def result(view: ReportView) -> Section:
    """The baseline and the best, side by side."""
    best = view.best
    if best is None:
        return Section(
            "Result",
            (
                Paragraph(
                    "There is none: trial 0 was not measured, so that nothing could be compared with it."
                ),
            ),
        )
    own, time = _baseline(view, best), words.time_of(best.metric)
    rows = []
    if best.naive_ms is not None and best.naive_ms != best.baseline_ms:
        rows.append(
            (
                "Engine's own default, by the sweep",
                words.milliseconds(best.naive_ms),
                words.speedup(best.baseline_ms / best.naive_ms, None, None),
                words.NONE,
            )
        )
    rows.append(("Baseline (trial 0)", words.milliseconds(best.baseline_ms), "1", words.NONE))
    if best.experiment is not None:
        rows.append(
            (
                f"Best ({best.experiment})",
                words.milliseconds(best.best_ms),
                best_speedup(view, best),
                UNKNOWN_QUALITY if view.campaign.latency_only else words.relative_margin(best.bits_per_byte),
            )
        )
    by_sweep = (
        ""
        if len(rows) == 1 + (best.experiment is not None)
        else " The engine's own default is told by its ratio to the baseline in the sweep, which timed both "
        "side by side."
    )
    blocks: list[Block] = [
        table(
            f"Baseline and best, {time}.{by_sweep} The best's interval is that of the speed-up, 95 %, "
            + (
                "of its chain of tests together, in quadrature, since none compared it with the baseline"
                if best.chained
                else "against the baseline as it ran side by side"
            )
            + "; bits per byte are relative to the baseline's.",
            ("Configuration", f">{time[:1].upper()}{time[1:]}", ">Speed-up", ">Bits per byte"),
            [Row(each) for each in rows],
        )
    ]
    if best.experiment is None:
        blocks.insert(
            0, Paragraph("Nothing that was measured beats the baseline by the smallest effect worth having.")
        )
    elif best.tasks is not None:
        blocks.append(Paragraph(f"Of the tasks the best solves {words.points_margin(best.tasks)}."))
    blocks.append(
        table(
            "The configurations, knob by knob; what the best changes leads.",
            ("Knob", "Baseline", "Best") if best.experiment is not None else ("Knob", "Baseline"),
            [
                Row(_knob(knob, own.get(knob), best.configuration.get(knob), best.experiment is not None))
                for knob in sorted({*own, *best.configuration})
            ],
        )
    )
    deploy = next((each.command for each in view.commands if each.command.startswith(DEPLOY)), None)
    if deploy is not None:
        blocks.append(
            Paragraph(
                f"What to deploy is written by `{deploy}`, where the campaign's database is: the engine's "
                "command with model and versions, and a check."
            )
        )
    return Section("Result", tuple(blocks))


def best_speedup(view: ReportView, best: BestView) -> str:
    """The best's speed-up with its interval; of a chain of tests that of its tests together, where all of
    them have one."""
    if not best.chained:
        return words.speedup(best.speedup, best.speedup_low, best.speedup_high)
    over = next((each.over_baseline for each in view.trials if each.experiment == best.experiment), None)
    if over is None or over.low is None or over.high is None or over.low <= -1:
        return words.speedup(best.speedup, None, None)
    return words.speedup(best.speedup, 1 / (1 + over.high), 1 / (1 + over.low))


def _knob(knob: str, before: object, after: object, has_best: bool) -> tuple[str, ...]:
    cells = (f"`{knob}`", words.knob_value(before))
    if not has_best:
        return cells
    said = words.knob_value(after)
    return (*cells, said if before == after else f"**{said}**")


def _baseline(view: ReportView, best: BestView) -> Mapping[str, object]:
    """The baseline's knobs."""
    if best.experiment is None:
        return dict(best.configuration)
    return view.baseline or {}


def waterfall(view: ReportView) -> Section:
    """What each kept change gave."""
    title, best = "What each kept change gave", view.best
    if best is None or not best.steps:
        return Section(title, (Paragraph("No change was kept, so there are no steps to show."),))
    rows = [
        Row(
            (
                _step(step),
                step.experiment or words.NONE,
                words.milliseconds(step.before_ms),
                words.milliseconds(step.after_ms),
                f"{signed(-step.won_ms, 2)} ms",
                words.effect(step.effect),
                str(step.pairs) if step.pairs else words.NONE,
            )
        )
        for step in best.steps
    ]
    scaled = (
        "The steps are scaled to the baseline's own launches; no test compared the best with the baseline "
        "itself."
        if best.chained
        else "The ends are those of the test that compared the best with the baseline itself, side by side."
    )
    return Section(
        title,
        (
            Figure(
                f"From the baseline to the best, {words.time_of(best.metric)} in ms. {scaled}{_floors(best)}",
                drawings.waterfall(best),
            ),
            table(
                "The steps of the waterfall. Effects are of each test against its own control, with 95 % "
                "intervals, so "
                "that steps don't multiply to the whole exactly.",
                ("Change", "Test", ">Before", ">After", ">Won", ">Effect in its test", ">Pairs"),
                rows,
            ),
        ),
    )


def _floors(best: BestView) -> str:
    """What the pale part of the waterfall's ends is, and of first tokens what the best's other parts are."""
    if best.floor is None:
        return ""
    physics = f"physics{' of a lone prompt' if best.of_prompt else ''}"
    said = f" The pale part is the floor by {physics}, {words.milliseconds(best.floor.ms)} of the baseline"
    said += f" and {words.milliseconds(best.best_floor.ms)} of the best." if best.best_floor else "."
    if best.of_prompt and best.best_overhead:
        above = "; ".join(f"{each.part} {words.milliseconds(each.ms)}" for each in best.best_overhead)
        said += f" Beside it lie, from left to right, of the best: {above}."
    if best.is_below_floor and best.steps:
        said += f" The best lies below it, {best.floor.too_high}"
        said += " The baseline lies below its floor too." if best.is_baseline_below_floor else ""
    elif best.is_baseline_below_floor:
        said += f" The baseline lies below its floor, {best.floor.too_high}"
    return said


def _step(step: StepView) -> str:
    if step.earlier > 1:
        return f"{step.earlier} earlier steps together"
    if step.together:
        return "All of it, measured together against the baseline"
    return words.change(step.change) or step.claim or words.NONE


def pareto(view: ReportView) -> Section:
    """Latency against quality."""
    title, found = "Latency against quality", view.pareto
    if view.campaign.latency_only:
        return Section(title, (Paragraph(f"Not shown: the weights are made up, and {UNKNOWN_QUALITY}."),))
    drawing = drawings.pareto(found)
    if drawing is None or not found.configurations:
        return Section(title, (Paragraph("No configuration beside the baseline was both timed and scored."),))
    rows = [
        Row(
            (
                "baseline" if row.is_baseline else words.change(row.change),
                row.experiment or words.NONE,
                words.milliseconds(row.latency_ms, row.low_ms, row.high_ms),
                _loss(row.quality, row.quality_low, row.quality_high),
                "yes" if row.within_limit else "no",
            )
        )
        for row in found.front
    ]
    unplaced = (
        f" {counted(found.unplaced, 'test was', 'tests were')} judged but not both timed and scored."
        if found.unplaced
        else ""
    )
    name = metric_word(found.metric)
    name = f"{name[:1].upper()}{name[1:]}"
    return Section(
        title,
        (
            Figure(
                f"{name} in ms against the change of bits per byte in %, of "
                f"{counted(found.configurations, 'configuration')} beside the baseline. The line is the "
                "front; the "
                f"shaded part is beyond the allowed loss.{unplaced}",
                drawing,
            ),
            table(
                "The front: configurations that none beats in both. Latency is the baseline's times ratios "
                "that were measured side by side, that of the best as its own test timed it. A configuration "
                "is placed by one test, the best by the one that made it, others by theirs with the most "
                "launches; what was run once more stands apart and moves nothing here.",
                (
                    "Change against the baseline",
                    "Test",
                    f">{name}",
                    ">Bits per byte",
                    ">Within the limit",
                ),
                rows,
            ),
        ),
    )


def _loss(value: float, low: float | None, high: float | None) -> str:
    around = "" if low is None or high is None else f" [{signed(100 * low, 2)}, {signed(100 * high, 2)}]"
    return f"{signed(100 * value, 2)} %{around}"
