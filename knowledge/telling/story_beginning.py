"""The first chapter of a story, *How it began*. Pure."""

from __future__ import annotations

from configs.moments import format_utc
from configs.quantities import format_duration
from db.states import CampaignState
from knowledge.figures import DEFAULT_METRIC, better, counted, listed, margin, metric_word, taken
from knowledge.latency_only import LATENCY_ONLY
from knowledge.machines import machine
from knowledge.queries.order.carried import CarriedView
from knowledge.stored import number
from knowledge.telling.story_lines import clause, line
from knowledge.telling.story_parts import ChapterView, StoryFacts, StoryLine
from knowledge.telling.summary_part import MOST_NAMED


def began(facts: StoryFacts) -> ChapterView:
    """What was asked for, on what, the baseline, what it began with, and the question of the night."""
    campaign = facts.campaign
    worth = "" if facts.min_effect is None else f" by {margin(facts.min_effect, facts.metric)} or more"
    verb = "raise" if better(facts.metric) == "raises" else "lower"
    aim = f"{campaign.model} on {machine(campaign.target)}, to {verb} {metric_word(facts.metric)}{worth}"
    if campaign.budget_s is not None:
        aim += f", within {format_duration(campaign.budget_s)}"
    when = "has not begun" if campaign.started_at is None else f"began on {format_utc(campaign.started_at)}"
    lines = [line(campaign.campaign, f"{campaign.campaign} {when}: {aim}")]
    if facts.latency_only:
        lines.append(line(campaign.campaign, f"Its weights are made up, so that it speaks of {LATENCY_ONLY}"))
    lines.append(_baseline(facts))
    if campaign.baseline_in_tests is not None:
        about = () if facts.baseline_experiment is None else (facts.baseline_experiment,)
        lines.append(line(campaign.campaign, campaign.baseline_in_tests.plain, *about))
    if campaign.carried is not None:
        lines.append(_carried(campaign.campaign, campaign.carried))
    question = campaign.question
    if question is not None:
        asked = f"The question of the night was {question.hypothesis}, {clause(question.claim)}"
        lines.append(line(campaign.campaign, f"{asked}: {clause(question.sentence)}", question.hypothesis))
    return ChapterView(title="How it began", lines=tuple(lines))


def _carried(campaign: str, found: CarriedView) -> StoryLine:
    """What it began with; other databases' campaigns are not named, as their labels name others here."""
    text = (
        f"It began with {counted(found.outcomes, 'outcome')} of other campaigns, which count "
        f"{100 * found.weight:.0f} % now"
    )
    if found.findings:
        named = [*found.findings[:MOST_NAMED]]
        more = len(found.findings) - len(named)
        text += f"; they bear on {listed([*named, *([f'{more} more'] if more else [])])}"
    return line(campaign, text, event=found.event_id)


def _baseline(facts: StoryFacts) -> StoryLine:
    campaign = facts.campaign
    told = campaign.outcome.get("baseline")
    metric = facts.metric
    if not isinstance(told, dict) or number(told.get(metric)) is None:
        metric = DEFAULT_METRIC  # an older version told no other
    baseline_ms = number(told.get(metric)) if isinstance(told, dict) else None
    about = () if facts.baseline_experiment is None else (facts.baseline_experiment,)
    if baseline_ms is None:
        return line(campaign.campaign, f"Trial 0, the baseline, {_not_measured(facts)}", *about)
    naive = campaign.outcome.get("naive")
    naive_ms = number(naive.get(metric)) if isinstance(naive, dict) else None
    longer = (
        f"; the engine's own default took {naive_ms / baseline_ms:.2f}× as long"
        if naive_ms and naive_ms != baseline_ms
        else ""
    )
    where = f" ({facts.baseline_experiment})" if facts.baseline_experiment else ""
    return line(
        campaign.campaign, f"Trial 0, the baseline, takes {taken(baseline_ms, metric)}{longer}{where}", *about
    )


def _not_measured(facts: StoryFacts) -> str:
    broken, campaign = facts.baseline_failure, facts.campaign
    if broken is not None:
        return f"could not be measured: {clause(broken)}"
    if campaign.state is not CampaignState.STOPPED:
        return "is not measured yet"
    why = campaign.stopped_because
    return "was not measured" + (f": {clause(why)}" if why else "")
