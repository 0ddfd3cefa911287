"""How a report begins: title, abstract, what was asked and under which set-up."""

from __future__ import annotations

from configs.asked_over import ASKED_OVER, asked_over_words
from configs.quantities import format_duration, format_usd
from dashboard.rendering.figures import NARROW, whole
from dashboard.report import words
from dashboard.report.document import Block, Document, Paragraph, Points, Row, Section, Table
from dashboard.report.results import best_speedup
from db.models.base import JsonObject
from db.states import CampaignState, ExperimentKind, VerdictOutcome
from knowledge.figures import counted, listed, margin, metric_word, taken_of
from knowledge.latency_only import FASTEST, UNKNOWN_QUALITY
from knowledge.machines import machine
from knowledge.queries.claims.discovery import discovery_sentence, outside_sentence
from knowledge.report.view import ReportView
from knowledge.stored import number as as_number
from knowledge.telling.budget import budget_words
from knowledge.telling.spent_words import broken_off_told, not_ended_told

LATENCY_ONLY = (
    f"Latency only: the weights are made up, {UNKNOWN_QUALITY}, and nothing of this is to be deployed as it "
    "is."
)
"""What is said above everything that rests on made-up weights."""

BITS_PER_BYTE = (
    "Bits per byte are the model's loss on held-out text, over the bytes of that text: less is better."
)
"""What quality is measured by, for who does not know it."""

UNFINISHED = {
    CampaignState.RUNNING: "The campaign has not ended: what stands here is what it knows so far.",
    CampaignState.PAUSED: "The campaign is paused: what stands here is what it knows so far.",
    CampaignState.STOPPING: "The campaign is about to stop: what stands here is what it knows so far.",
}
"""What is said of a campaign that has not ended."""


def opening(view: ReportView) -> Document:
    """The title, the abstract and the facts below it."""
    campaign = view.campaign
    facts = [
        ("Campaign", f"{campaign.id} ({campaign.name})"),
        ("Model", campaign.model),
        ("Target", machine(campaign.target)),
        ("Engine", view.engine),
        ("Began", f"{words.instant(campaign.started_at)} UTC" if campaign.started_at else "not yet"),
        ("Ended", f"{words.instant(campaign.ended_at)} UTC" if campaign.ended_at else "not yet"),
        ("Made", f"{words.instant(view.made_at)} UTC by autoinfer {view.autoinfer}"),
    ]
    marks = [UNFINISHED[campaign.state]] if campaign.state in UNFINISHED else []
    if campaign.latency_only:
        marks.append(LATENCY_ONLY)
    if any(each.broken for each in view.seals):
        broken = [each.experiment for each in view.seals if each.broken]
        marks.append(f"Not everything is as it was preregistered: see the seals of {listed(broken[:5])}.")
    if view.throttling is not None:
        marks.append(view.throttling.sentence)
    named = words.model(campaign.model)
    return Document(
        title=f"How much faster does {named} answer on {machine(campaign.target)}?",
        abstract=tuple(_abstract(view)),
        facts=tuple(facts),
        marks=tuple(marks),
    )


def _abstract(view: ReportView) -> list[str]:
    campaign, best = view.campaign, view.best
    said = [_result(view)]
    if view.baseline_in_tests is not None:
        said.append(view.baseline_in_tests.sentence)
    judged = view.judged()
    if judged:
        counts = [
            f"{count} {outcome.value}"
            for outcome in VerdictOutcome
            if (count := sum(each.outcome is outcome for each in judged))
        ]
        said.append(f"Of {counted(len(judged), 'judged test')}, {listed(counts)}.")
    elif view.trials:
        said.append(f"{counted(len(view.trials), 'test')} began, and none is judged.")
    else:
        said.append("No hypothesis was tested.")
    bounds = [] if campaign.discovery is None else [discovery_sentence(campaign.discovery)]
    said += [f"{each[:1].upper()}{each[1:]}." for each in bounds if each]
    confirmed = [each for each in view.again if each.outcome is not None and not each.is_check]
    if view.verification.verdicts and view.verification.begun_event is not None:
        said.append(f"{view.verification.sentence}.")
    elif confirmed:
        held = sum(each.outcome is VerdictOutcome.SUPPORTED for each in confirmed)
        said.append(
            f"{counted(len(confirmed), 'test was', 'tests were')} run once more, {held} supported again."
        )
    spent = view.costs.total.spent_s
    dollars = view.costs.money.total.actual_usd if view.costs.money.total.runs else None
    if spent:
        paid = "" if dollars is None else f" and {format_usd(dollars)} of rented machines"
        said.append(
            f"It took {format_duration(spent)} of device time{paid}{_again(view)}{_unfinished(view)}."
        )
    if best is not None and best.note:
        said.append(f"{best.note[:1].upper()}{best.note[1:].rstrip('.')}.")
    return said


def _result(view: ReportView) -> str:
    best, campaign = view.best, view.campaign
    if best is None:
        why = f": {campaign.stopped_because.rstrip('.')}" if campaign.stopped_because else ""
        return f"Trial 0 was not measured, so there is nothing to compare with{why}."
    if best.experiment is None:
        return (
            f"**Nothing that was measured beats the baseline** of {words.milliseconds(best.baseline_ms)} "
            f"{taken_of(best.metric)} by the smallest effect worth having."
        )
    found = best_speedup(view, best)
    chained = ", multiplied along a chain of tests" if best.chained else ""
    quality = (
        UNKNOWN_QUALITY
        if campaign.latency_only
        else f"bits per byte {words.relative_margin(best.bits_per_byte)}"
        if best.bits_per_byte is not None
        else "its quality is not known"
    )
    return (
        f"**{found} as fast as the baseline**{chained}: {words.milliseconds(best.best_ms)} "
        f"{taken_of(best.metric)} against "
        f"{words.milliseconds(best.baseline_ms)}; {quality} ({best.experiment})."
    )


def question(view: ReportView) -> Section:
    """What was asked, and what had to be true of an answer."""
    campaign, plan, metric = view.campaign, view.plan, view.metric
    effect, alpha = as_number(plan.get("min_effect")), as_number(plan.get("alpha"))
    margins = _part(plan, "margins")
    asked = (
        f"Which configuration of the engine {view.engine} serves {words.model(campaign.model)} on "
        f"{machine(campaign.target)} with the least {metric_word(metric)}"
    )
    blocks: list[Block] = []
    if campaign.latency_only:
        asked += f"? {FASTEST[:1].upper()}{FASTEST[1:]}."
    else:
        bits, points = as_number(margins.get("bits_per_byte")), as_number(margins.get("task_points"))
        kept = [f"bits per byte rise by {100 * bits:g}{NARROW}% at most"] if bits is not None else []
        kept += [f"at most {points:g} points fewer tasks are solved"] if points is not None else []
        asked += f", while {listed(kept)}?" if kept else "?"
    blocks.append(Paragraph(asked))
    means = [words.meaning_of(metric), None if campaign.latency_only else BITS_PER_BYTE]
    if meanings := " ".join(each for each in means if each):
        blocks.append(Paragraph(meanings))
    if effect is not None and alpha is not None:
        blocks.append(
            Paragraph(
                f"A change is worth having from {margin(effect, metric)} on. A claim is supported only "
                "where its "
                "whole interval lies beyond that and fresh processes agree; control and candidate run "
                "side by side "
                "on the same prompts, and a launch (a fresh process) is the unit that varies. One-sided "
                "level "
                f"{100 * alpha:g}{NARROW}%."
            )
        )
    if view.questions:
        blocks.append(Paragraph("The campaign asked these questions first:"))
        blocks.append(
            Points(tuple(f"**{each.asks}** {each.answer.replace('**', '')}" for each in view.questions))
        )
    return Section("Question", tuple(blocks))


def set_up(view: ReportView) -> Section:
    """The set-up as a table."""
    campaign, plan = view.campaign, view.plan
    load = _part(plan, "workload")
    rows = [
        ("Model", f"{campaign.model}, SHA-256 `{campaign.model_fingerprint}`"),
        ("Revision", f"{campaign.hub.repo} at `{campaign.hub.commit}`" if campaign.hub else None),
        ("Target", machine(campaign.target)),
        ("Engine", view.engine),
        ("Space of configurations", view.space),
        (
            "Begins from",
            f"{campaign.begins_from.words}: {campaign.begins_from.why}" if campaign.begins_from else None,
        ),
        ("Requests at once", _whole(load.get("concurrency"))),
        (
            "Prompt and answer",
            f"{_whole(load.get('prompt_tokens'))} and {_whole(load.get('new_tokens'))} tokens"
            if load
            else None,
        ),
        ("Asked", asked_over_words(load.get(ASKED_OVER)) if load else None),
        ("Quality", _quality(load)),
        (
            "Plan of a test",
            f"{_whole(plan.get('quick_blocks'))} blocks at a quick look, {_whole(plan.get('full_blocks'))} "
            "a pair after "
            f"it, at most {_whole(plan.get('full_pairs'))} exploratory pairs of launches, "
            f"{_whole(plan.get('validation_pairs'))} fresh "
            f"pairs to validate{_paid_for(view)}"
            if plan.get("full_pairs")
            else None,
        ),
        ("Judged by", _judge(view)),
        ("Seed", str(campaign.seed)),
        ("Budget", budget_words(view.campaign.budget)),
    ]
    shown = [Row((name, said)) for name, said in rows if said]
    return Section("Set-up", (Table("Set-up of the campaign.", ("What", "Value"), tuple(shown)),))


def _part(plan: JsonObject, name: str) -> JsonObject:
    found = plan.get(name)
    return found if isinstance(found, dict) else {}


def _quality(load: JsonObject) -> str | None:
    if not load:
        return None
    said = (
        f"{_whole(load.get('evaluation_documents'))} documents of "
        f"{_whole(load.get('evaluation_tokens_per_document'))} "
        f"tokens, {_whole(load.get('evaluation_items'))} items"
    )
    tasks = load.get("evaluation_tasks")
    return f"{said}, {', '.join(map(str, tasks))}" if isinstance(tasks, list) and tasks else said


def _judge(view: ReportView) -> str | None:
    versions = view.judge_versions
    if not view.judge or not versions:
        return view.judge or None
    return f"{view.judge}, {'version' if len(versions) == 1 else 'versions'} {listed(list(versions))}"


def _again(view: ReportView) -> str:
    """How much of its device time went into runs on request, which are no part of its own search."""
    found = [each.wall_s for each in view.again if each.kind is ExperimentKind.REPRODUCE and each.wall_s]
    if not found:
        return ""
    runs = counted(len(found), "run", "runs")
    return f", {format_duration(sum(found))} of it for {runs} once more on request"


def _unfinished(view: ReportView) -> str:
    """What is not in its device time: experiments that have not ended, and attempts that broke off."""
    count, untimed = view.costs.total.unfinished, view.costs.untimed
    told = ""
    if count:
        what, _, rest = not_ended_told(count, untimed).partition(" ")
        told = f", but for {what} {'experiment' if count == 1 else 'experiments'} {rest}"
    broken_off = broken_off_told(untimed)
    return told if broken_off is None else f"{told}, and beside {broken_off}"


def _paid_for(view: ReportView) -> str:
    """How many pairs tests were given, where that is fewer than the plan allows."""
    most = as_number(view.plan.get("full_pairs"))
    given = sorted({each.most_pairs for each in view.trials if each.most_pairs is not None})
    if most is None or not given or given[0] >= most:
        return ""
    several = f"{given[0]} to {given[-1]}" if len(given) > 1 else f"{given[0]}"
    return f"; the budget paid for {several} of the {int(most)} in a test"


def _whole(value: object) -> str:
    found = as_number(value)
    return words.NONE if found is None else whole(int(found))


def false_ones(view: ReportView) -> tuple[str, ...]:
    """How many of the supported may be false, as sentences."""
    found = view.campaign.discovery
    if found is None:
        return ()
    told = (discovery_sentence(found), outside_sentence(found))
    return tuple(f"{each[:1].upper()}{each[1:]}." for each in told if each)
