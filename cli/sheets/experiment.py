"""The sheet of an experiment: from the hypothesis down to the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.console.output import console, fields, state, table, when
from cli.console.words import change_words, configuration_words, effect_words, value_words
from cli.sheets.elsewhere import experiments_elsewhere
from cli.sheets.kernel_timings import print_kernel_timings
from cli.sheets.step_profile import print_step_profile
from cli.sheets.target import target_rows
from configs.quantities import format_duration
from knowledge.figures import SHARES, between, counted, metric_word, number, size
from knowledge.latency_only import LATENCY_ONLY, UNKNOWN_QUALITY
from knowledge.queries.measured.drafting import REPORTS, drafting_of
from knowledge.queries.measured.launches_once import QUALITY, launches_once
from knowledge.queries.measured.resolved import flat
from knowledge.queries.present.now_run import arm_of
from knowledge.stored import judge_words, workload_of
from knowledge.stored import number as stored_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from knowledge.queries.claims.discovery import LevelView
    from knowledge.queries.measured.experiment_detail import ExperimentDetail
    from knowledge.queries.measured.launches_once import LaunchView
    from knowledge.queries.measured.spread import SpreadView

SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest."""

LATENCY_METRICS = ("tpot_ms", "ttft_ms", "e2el_ms")
"""Latency metrics shown a launch, the judged one first."""


THROUGHPUT_METRIC = "output_tokens_per_s"
"""Shown beside them where several requests were under way at once."""


def print_experiment(detail: ExperimentDetail) -> None:
    """Print everything about an experiment."""
    out = console()
    _head(out, detail)
    _verdict(out, detail)
    _launches(out, detail)
    _further(out, detail)
    _gpu(out, detail)
    _resolved(out, detail)
    for title, step in detail.profiles:
        _title(out, title)
        print_step_profile(step)
    if detail.prompt_profile is None and detail.no_prompt_profile is not None:
        out.print(f"A lone prompt was not profiled: {detail.no_prompt_profile}", style="dim")
    if detail.kernel_timings is not None:
        _title(out, detail.kernels_title)
        print_kernel_timings(detail.kernel_timings)
    _stages(out, detail)
    _artifacts(out, detail)
    _environment(out, detail)
    _samples(out, detail)
    if detail.elsewhere:
        _title(out, "On other targets")
        out.print(experiments_elsewhere(detail.elsewhere))
    out.print()
    command = [("reproduce", detail.reproduce_command)] if detail.reproduce_command else []
    out.print(fields([*command, *_reproduced(detail)]))


def _reproduced(detail: ExperimentDetail) -> list[tuple[str, str]]:
    """What every fresh run said, or that it has not said anything yet."""
    told = {each.experiment: each for each in detail.fresh_runs}
    rows = []
    for label in detail.reproduced_by:
        fresh = told.get(label)
        said = "no verdict yet"
        if fresh is not None:
            apart = (
                "" if fresh.difference is None else f"; the difference is {effect_words(fresh.difference)}"
            )
            said = f"{fresh.agreement.value}, {effect_words(fresh.effect)}{apart}: {fresh.why}"
        rows.append(("reproduced by", f"{label}  {said}"))
    return rows


def _head(out: Console, detail: ExperimentDetail) -> None:
    out.print(detail.id, detail.kind.value, state(detail.standing), f"in {detail.campaign}", sep="  ")
    progress = None
    if detail.finished_at is None and detail.stage is not None:
        told = (detail.progress or {}).get("text")
        arm = arm_of(detail.progress)
        progress = f"{detail.stage}: {told}" if told else detail.stage
        progress += "" if arm is None else f", now the {arm.value}"
    hypothesis = f"{detail.hypothesis}  {detail.claim}" if detail.hypothesis else None
    out.print(
        fields(
            [
                ("hypothesis", hypothesis),
                ("because", detail.rationale),
                ("refuted if", detail.refuted_if),
                ("confirms" if detail.kind.value == "promote" else "reproduces", detail.reproduces),
                ("change", change_words(detail.change)),
                ("control", configuration_words(detail.control)),
                ("candidate", None if detail.candidate is None else configuration_words(detail.candidate)),
                *target_rows(detail.target),
                ("device", detail.device),
                ("speaks of", f"{LATENCY_ONLY}; {UNKNOWN_QUALITY}" if detail.latency_only else None),
                ("now", progress),
                ("failed", detail.failure and f"{detail.failure_kind}: {detail.failure}"),
                ("started", when(detail.started_at)),
                ("took", None if detail.wall_s is None else format_duration(detail.wall_s)),
                ("sealed as", (detail.preregistration_digest or "")[:SHOWN_DIGITS]),
                ("altered", detail.changed_since_sealed),
            ]
        )
    )


def _verdict(out: Console, detail: ExperimentDetail) -> None:
    verdict = detail.verdict
    if verdict is None:
        return
    samples = f"{counted(verdict.samples, 'sample')} of {metric_word(detail.metric)}"
    n = f"{counted(verdict.launches, 'launch', 'launches')} that it compares, {samples}"
    judge = judge_words(verdict.judge)
    _title(out, "Verdict")
    out.print(
        fields(
            [
                ("outcome", state(verdict.outcome.value)),
                (
                    metric_word(detail.metric),
                    None if verdict.effect is None else effect_words(verdict.effect),
                ),
                ("from", n),
                *(
                    (f"drafting {arm}", found.sentence())
                    for arm in REPORTS
                    if (found := drafting_of(verdict.quality, arm)) is not None
                ),
                ("why", verdict.reason),
                ("judge", judge),
                ("level", None if detail.level is None else _level_words(detail.level)),
                ("sealed as", verdict.preregistration_digest),
                ("judged again", detail.judged_again),
            ]
        )
    )


def _level_words(level: LevelView) -> str:
    found = "" if level.e_value is None else f"; it came to {level.e_value:.3g}"
    return (
        f"test {level.test} of the campaign on time, at {level.support_alpha:.2g}: supported from an e-value "
        f"of {level.e_value_needed:.3g} on{found}"
    )


def _launches(out: Console, detail: ExperimentDetail) -> None:
    if not detail.launches:
        return
    _title(out, "Launches")
    judged = [detail.metric, *(metric for metric in LATENCY_METRICS if metric != detail.metric)]
    if (stored_number(workload_of(detail.plan).get("concurrency")) or 1) > 1:
        judged.append(THROUGHPUT_METRIC)
    present = {spread.metric for launch in detail.launches for spread in launch.spreads}
    shown = [metric for metric in judged if metric in present]
    once = launches_once(detail.launches)
    timed = [used for used in once if any(_of(used.launch, metric) for metric in shown)]
    rows = [
        (
            f"{launch.arm.value} {launch.index}",
            used_by,
            "—" if launch.load_s is None else format_duration(launch.load_s),
            *(_spread_words(_of(launch, metric)) for metric in shown),
            *((_counts(launch, shown),) if shown else ()),
        )
        for launch, used_by in ((used.launch, used.used_by) for used in timed or once)
    ]
    columns = ("launch", "stage", ">loaded in", *(metric_word(metric) for metric in shown))
    out.print(table((*columns, *((">samples",) if shown else ())), rows))
    told = "median [middle 80 %]; a" if shown else "A"
    out.print(f"{told} launch is a fresh process", style="dim")
    _quality(out, detail)


def _further(out: Console, detail: ExperimentDetail) -> None:
    if not detail.further_workloads:
        return
    _title(out, "Further workloads, not part of the verdict")
    rows = [
        (each.words, told.name, *told.figures, told.change_words, str(told.pairs))
        for each in detail.further_workloads
        for told in each.metrics
    ]
    if rows:
        columns = ("workload", "metric", ">control", ">candidate", ">change", ">pairs")
        out.print(table(columns, rows))
    for each in detail.further_workloads:
        for why in each.failures:
            out.print(f"{each.words}: {why}")
    out.print(detail.further_told, style="dim")


def _gpu(out: Console, detail: ExperimentDetail) -> None:
    if not detail.gpu_blocks:
        return
    _title(out, "What the GPU did meanwhile")
    rows = [
        (
            f"{each.arm.value} {each.index}",
            each.stage,
            _known(each.sm_mhz, "MHz"),
            _known(each.memory_mhz, "MHz"),
            _known(each.power_w, "W"),
            _known(each.energy_j_per_output_token, "J"),
            _known(each.temperature_c, "°C"),
            f"{each.repeated} of {each.blocks}",
            "; ".join(each.causes) or "—",
        )
        for each in detail.gpu_blocks
    ]
    told = (">SM clock", ">memory clock", ">power", ">energy a token", ">hottest", ">repeated", "throttled")
    out.print(table(("launch", "stage", *told), rows))
    for each in detail.gpu_blocks:
        if each.disturbed:
            out.print(f"{each.arm.value} {each.index}: {each.disturbed_told}")


def _known(value: float | None, unit: str) -> str:
    return "—" if value is None else f"{number(value, 4)} {unit}"


def _quality(out: Console, detail: ExperimentDetail) -> None:
    found = [
        (
            used.launch.arm.value,
            str(used.launch.index),
            used.used_by,
            spread.metric,
            _middle(spread),
            str(spread.count),
        )
        for used in launches_once(detail.launches)
        for spread in used.launch.spreads
        if spread.metric in QUALITY
    ]
    if found:
        _title(out, "Quality samples")
        columns = ("arm", ">launch", "used by", "metric", ">median or share", ">samples")
        out.print(table(columns, found))


def _resolved(out: Console, detail: ExperimentDetail) -> None:
    if not detail.launches:
        return
    _title(out, "What ran differently")
    if not detail.resolved_differences:
        out.print("Nothing that both arms told differs.")
        return
    rows = [
        (each.name, value_words(each.control), value_words(each.candidate))
        for each in detail.resolved_differences
    ]
    out.print(table(("resolved", "control", "candidate"), rows, wide=("control", "candidate")))


def _stages(out: Console, detail: ExperimentDetail) -> None:
    if not detail.stages:
        return
    _title(out, "Stages")
    rows = [
        (
            each.stage,
            str(each.attempt),
            state(each.outcome.value if each.outcome else "running"),
            "—" if each.wall_s is None else format_duration(each.wall_s),
            each.log_path or "—",
        )
        for each in detail.stages
    ]
    out.print(table(("stage", ">attempt", "outcome", ">took", "log"), rows, wide=("log",)))
    for each in detail.stages:
        for sentence in each.sentences:
            out.print(f"{each.stage}: {sentence}")


def _artifacts(out: Console, detail: ExperimentDetail) -> None:
    if not detail.artifacts:
        return
    _title(out, "Artifacts")
    rows = [
        (f"A-{each.digest[:SHOWN_DIGITS]}", each.kind, size(each.bytes), format_duration(each.build_s))
        for each in detail.artifacts
    ]
    out.print(table(("digest", "kind", ">size", ">built in"), rows))


def _environment(out: Console, detail: ExperimentDetail) -> None:
    told = [flat(data) for data in detail.environments.values()]
    if not told and not detail.versions:
        return
    same = {
        name: value
        for name, value in (told[0] if told else {}).items()
        if all(each.get(name) == value for each in told)
    }
    varied = sorted({name for each in told for name in each} - set(same))
    _title(out, "Environment")
    rows = [(name, value_words(value)) for name, value in sorted({**(detail.versions or {}), **same}.items())]
    if varied:
        rows.append(("varied", ", ".join(varied)))
    out.print(fields(rows))


def _samples(out: Console, detail: ExperimentDetail) -> None:
    if detail.samples is None:
        return
    _title(out, "Samples")
    rows = [
        (
            each.arm.value,
            str(each.launch),
            ", ".join(each.used_by),
            str(each.block),
            str(each.position),
            each.item,
            str(each.seq),
            each.metric,
            f"{each.value:.6g}{_unit(each.unit)}",
        )
        for each in detail.samples
    ]
    columns = ("arm", ">launch", "used by", ">block", ">position", "item", ">seq", "metric", ">value")
    out.print(table(columns, rows, wide=("item",)))


def _unit(unit: str) -> str:
    """A unit after its number; that of a mere number is not written."""
    return "" if unit == "1" else f" {unit}"


def _of(launch: LaunchView, metric: str) -> SpreadView | None:
    return next((spread for spread in launch.spreads if spread.metric == metric), None)


def _middle(spread: SpreadView) -> str:
    """The median; of items that are right or wrong the share of right ones, which a median does not tell."""
    if spread.metric in SHARES:
        return f"{100 * spread.mean:.1f} %"
    return f"{number(spread.median, 4)}{_unit(spread.unit)}"


def _spread_words(spread: SpreadView | None) -> str:
    if spread is None:
        return "—"
    if spread.metric in SHARES:
        return _middle(spread)
    return f"{number(spread.median, 4)} {between(spread.low, spread.high, 4)}{_unit(spread.unit)}"


def _counts(launch: LaunchView, metrics: Sequence[str]) -> str:
    """How many samples of each metric a launch gave: one number where they are as many."""
    counts = [found.count for metric in metrics if (found := _of(launch, metric)) is not None]
    return " ".join(dict.fromkeys(map(str, counts)))


def _title(out: Console, text: str) -> None:
    out.print()
    out.print(text, style="bold")
