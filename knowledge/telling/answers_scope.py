"""The frame of a page of answers: where it comes from, where it holds, how to make it anew. Pure."""

from __future__ import annotations

from configs.catalog import Kind, packaged_names
from configs.moments import format_utc
from configs.quantities import format_duration
from configs.questions import is_latency
from experiments.space.configuration import Configuration
from knowledge.figures import metric_word
from knowledge.queries.answered.answers_view import AnswersView

SHOWN_DIGITS = 12
"""Hexadecimal digits of a digest or fingerprint."""


def scope_blocks(view: AnswersView) -> list[str]:
    """Where the page comes from and where alone it holds, what the campaign was, how its figures are read."""
    budget = ""
    if view.parameter_budget is not None:
        budget = (
            f" Parameter budget: {view.parameter_budget}; a model's own MTP head counts in every arm, also "
            "where nothing uses it."
        )
    timed = ""
    if any(is_latency(each.metric) for each in view.contrasts):
        timed = f" Times are those of prompts of code{_decode_step(view)}."
    baseline = "not measured" if view.baseline is None else f"`{Configuration.of(view.baseline)}`"
    ended = f" It ended: {view.stopped_because}." if view.stopped_because else ""
    alpha = next((each.alpha for each in view.contrasts), 0.0)
    spent = format_duration(view.spent_s) if view.spent_s else "no time"
    return [
        _provenance(view),
        f"Measured {view.scope}. The answers hold there and say nothing of other models, machines or "
        "versions. Intervals speak of the checkpoints that were scored: another draw of calibration text "
        "gives another checkpoint. *Beyond a draw* says whether all of an effect's interval is larger than "
        "anything in the intervals of the contrasts of two draws, where there are any; few draws say little "
        "of how far draws can differ.",
        f"Baseline: {baseline}. Knobs that an arm does not name are the baseline's.{budget} The campaign "
        f"took {spent}.{ended}{timed}",
        f"Effects are candidate against control: less is better, but for {metric_word('task_correct')}, "
        f"where more is. Brackets are {100 * (1 - alpha):g} % intervals that hold whenever the experiment "
        "stopped. Supported: beyond what was claimed. Refuted: less than that, or quality beyond its "
        "margins.",
    ]


def _decode_step(view: AnswersView) -> str:
    """How the step runs, as the rest of a sentence; nothing where the baseline is not known, or its engine
    has other knobs of it, which the baseline then names."""
    mode = (view.baseline or {}).get("serving.compile")
    if mode is None:
        return ""
    how = "run eagerly" if mode == "off" else f"compiled ({mode})"
    return f", the decode step {how} unless an arm says otherwise"


def _provenance(view: AnswersView) -> str:
    """Which campaign and model the page is of, so that it can be told from one of another model."""
    begun = "" if view.started_at is None else f", begun {format_utc(view.started_at)}"
    return (
        f"Written by `autoinfer answers {view.campaign}` from its database, by nobody's hand: campaign "
        f"`{view.name}`{begun}, seed {view.seed}, model `{view.model}` with the fingerprint "
        f"`{view.model_fingerprint}`. `autoinfer doctor` tells the first {SHOWN_DIGITS} digits of that of "
        "the packaged model."
    )


def commands_again(view: AnswersView) -> list[str]:
    """The commands that make the page anew."""
    campaign = view.name if view.name in packaged_names(Kind.CAMPAIGNS) else f"{view.name}.yaml"
    model = "" if view.model == "reference" else " --model DIR"
    given = "".join(f" {option}" for option in view.given)
    return [
        "## How to do it again",
        f"```\nautoinfer run {campaign}{model}{given}\nautoinfer answers --out FILE\n```",
    ]
