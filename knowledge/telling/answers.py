"""The answers of a campaign as Markdown: a pure rendering of `knowledge.queries.answered.answers`, with
nothing added.

Everything in it comes from the database: the same database gives the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from knowledge.figures import better, counted, effect, listed, margin, metric_word, milliseconds, signed, size
from knowledge.queries.answered.answers_view import AnswersView, AnswerView, ArmView, ContrastView
from knowledge.queries.measured.stages import RankCorrelation, StageReport
from knowledge.telling.answers_scope import SHOWN_DIGITS, commands_again, scope_blocks
from knowledge.telling.answers_sentence import SETTLED, answer_sentence, held_words, verdict_word
from knowledge.telling.draws import read_against_draws

_TASKS = "task_correct"
_VALUE_TITLES = {"nll_bits": "bits per byte", _TASKS: "items solved", "step_weight_bytes": "judged bytes"}
"""What the arms' own values are called, for metrics that have one."""
_UNITS_OF = {"nll_bits": "document", _TASKS: "item"}
"""What one sample of a scored metric is of."""


def answers_markdown(view: AnswersView) -> str:
    """The page `autoinfer answers` writes."""
    blocks = [
        f"# What {view.campaign} ({view.name}) answered",
        *scope_blocks(view),
        *(
            block
            for number, answer in enumerate(view.answers, 1)
            for block in _answer(number, answer, view.contrasts)
        ),
        *_rankings(view),
        *_unanswered(view),
        *commands_again(view),
    ]
    return "\n\n".join(blocks) + "\n"


def _answer(number: int, answer: AnswerView, every: Sequence[ContrastView]) -> list[str]:
    contrasts = [each for each in answer.contrasts if each.role != "noise"]
    noise = [each for each in answer.contrasts if each.role == "noise"]
    blocks = [f"## {number}. {answer.asks}", answer_sentence(answer.contrasts, every)]
    if contrasts:
        blocks += [
            f"{_counts(contrasts)}.",
            _table(
                ("contrast", "metric", "claim", "verdict", "effect", "beyond a draw", "n", "experiment"),
                (
                    (
                        f"`{each.id}`",
                        metric_word(each.metric),
                        f"{better(each.metric)} it by {margin(each.min_effect, each.metric)}",
                        verdict_word(each),
                        effect(each.effect, each.low, each.high, each.metric),
                        _beyond(each, every),
                        _n(each),
                        _experiment(each),
                    )
                    for each in contrasts
                ),
            ),
        ]
    if noise:
        blocks += [
            "Nothing but a draw at random differs between the arms of these, so what they show is the noise "
            "that effects are to be read against:",
            _table(
                ("contrast", "metric", "effect", "n", "experiment"),
                (
                    (
                        f"`{each.id}`",
                        metric_word(each.metric),
                        effect(each.effect, each.low, each.high, each.metric),
                        _n(each),
                        _experiment(each),
                    )
                    for each in noise
                ),
            ),
        ]
    return [*blocks, *(block for each in answer.contrasts for block in _contrast(each))]


def _beyond(contrast: ContrastView, every: Sequence[ContrastView]) -> str:
    """Whether an effect lies beyond what other draws of calibration text change, in a word."""
    reading = read_against_draws(contrast, every)
    if reading is None:
        return "—"
    return {True: "yes", False: "no", None: "not known"}[reading.beyond]


def _contrast(contrast: ContrastView) -> list[str]:
    lines = [
        f"- Why: {_sentence(contrast.why)}",
        f"- Verdict: **{verdict_word(contrast)}**. {_reasons(contrast)}",
        *_confounded(contrast),
        *_elsewhere(contrast),
    ]
    shared = _shared(contrast)
    if shared:
        lines.insert(0, f"- In both arms: {_knobs(shared)}")
    sides = (("control", contrast.control), ("candidate", contrast.candidate))
    lines += [f"- {line}" for name, arm in sides for line in _drafting(name, arm)]
    lines += [f"- {_report(each)}" for each in contrast.reports]
    if contrast.experiment is not None:
        again = [f"{label} {outcome.value}" for label, outcome in contrast.reproductions]
        lines.append(
            f"- {contrast.hypothesis}, {contrast.experiment}; samples: `autoinfer show {contrast.experiment} "
            f"--samples`; once more: `autoinfer reproduce {contrast.experiment}`"
            + (f"; done so: {listed(again)}" if again else "")
        )
    title = _VALUE_TITLES.get(contrast.metric)
    return [
        f"### `{contrast.id}`: {contrast.claim}",
        _table(
            ("arm", "knobs", "weights", "bits a weight", "bytes a step", *([title] if title else [])),
            ((name, *_arm(arm, shared, contrast.metric)) for name, arm in sides),
        ),
        "\n".join(lines),
    ]


def _experiment(contrast: ContrastView) -> str:
    """The experiment that answers a contrast, and the confounded one that it stands for, or whose it is."""
    if contrast.answered_in is not None:
        return f"{contrast.experiment} of {contrast.answered_in}"
    if contrast.confounded is None:
        return contrast.experiment or "—"
    return f"{contrast.experiment} for {contrast.confounded.label}"


def _reasons(contrast: ContrastView) -> str:
    return " ".join(_sentence(each) for each in (contrast.reason, contrast.why_open) if each)


def _confounded(contrast: ContrastView) -> list[str]:
    """What became of the claim as it was asked, in a line; none where its own test answers it."""
    told = contrast.confounded
    if told is None:
        return []
    anew = f"- This is of {contrast.hypothesis}, which makes the claim anew{held_words(contrast)}."
    if told.experiment is None:
        return [f"{anew} {told.hypothesis}, as it was asked: {_sentence(told.reason)}"]
    return [
        f"{anew} As it was asked ({told.hypothesis}, {told.experiment}) it was confounded: "
        f"{_sentence(told.reason)}"
    ]


def _elsewhere(contrast: ContrastView) -> list[str]:
    """That another campaign answered it, in a line; none where this one did."""
    if contrast.answered_in is None:
        return []
    return [
        f"- {contrast.answered_in} answered it, with the same claim, arms, plan, model, target and versions; "
        "it was not tested again (`autoinfer run --ask-again` does)."
    ]


def _drafting(name: str, arm: ArmView) -> list[str]:
    """How an arm drafted, in a line; none where it did not."""
    if arm.drafting is None:
        return []
    line = f"Drafting of the {name}: {arm.drafting.sentence()}"
    if arm.step_ms is not None:
        line += f"; a step takes {milliseconds(arm.step_ms)}"
    if arm.parameters is not None:
        line += (
            f"; {arm.parameters:,} parameters in the target, {arm.drafter_parameters or 0:,} in what drafts"
        )
    return [f"{line}."]


def _shared(contrast: ContrastView) -> dict[str, object]:
    """The knobs off the baseline that both arms have alike."""
    other = contrast.candidate.knobs
    return {
        name: value
        for name, value in contrast.control.knobs.items()
        if name in other and other[name] == value
    }


def _arm(arm: ArmView, shared: Mapping[str, object], metric: str) -> tuple[str, ...]:
    own = {name: value for name, value in arm.knobs.items() if name not in shared}
    told = (
        _knobs(own) or ("nothing else" if shared else "the baseline"),
        arm.stored or "—",
        "—" if arm.bits_per_weight is None else f"{arm.bits_per_weight:.3f}",
        "—" if arm.step_weight_bytes is None else size(round(arm.step_weight_bytes)),
    )
    return (*told, _value(metric, arm.value, arm.count)) if metric in _VALUE_TITLES else told


def _knobs(knobs: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={_shown(value)}`" for name, value in knobs.items())


def _value(metric: str, value: float | None, count: int) -> str:
    """An arm's own value with the count behind it: a second look scores more of the material, and values on
    other texts don't compare."""
    if value is None:
        return "—"
    if metric == "step_weight_bytes":
        return f"{value:,.0f}"
    of = counted(count, _UNITS_OF[metric])
    return f"{100 * value:.1f} % of {of}" if metric == _TASKS else f"{value:.4f} on {of}"


def _report(report: StageReport) -> str:
    parts = [f"Stage {report.stage} ({report.recipe}), artifact `A-{report.artifact[:SHOWN_DIGITS]}`"]
    if report.bits_per_weight is not None:
        parts.append(f"{report.bits_per_weight:.3f} bits a weight")
    if report.step_bytes_by_part:
        read = ", ".join(f"{part} {size(count)}" for part, count in report.step_bytes_by_part.items())
        parts.append(f"a step reads {size(sum(report.step_bytes_by_part.values()))} ({read})")
    if report.corpus is not None or report.corpus_fingerprint is not None:
        fingerprint = (report.corpus_fingerprint or "unknown")[:SHOWN_DIGITS]
        parts.append(f"calibrated on {(report.corpus or 'text').rstrip('.')}, fingerprint `{fingerprint}`")
    if report.removed_layers:
        numbers = ", ".join(map(str, report.removed_layers))
        parts.append(f"took out {counted(len(report.removed_layers), 'layer')} (from 0: {numbers})")
    if report.rank_correlation is not None:
        parts.append(rank_words(report.rank_correlation))
    return "; ".join(parts) + "."


def rank_words(found: RankCorrelation) -> str:
    """How far two rankings agree, in words."""
    spearman = _correlation(found.spearman, found.spearman_low, found.spearman_high)
    kendall = _correlation(found.kendall, found.kendall_low, found.kendall_high)
    return (
        f"the {found.criterion} rankings of {found.layers} layers on the original and on the quantized model "
        f"agree with Spearman's ρ {spearman} and Kendall's τ {kendall}"
    )


def _correlation(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "not defined"
    around = "" if low is None or high is None else f" [{signed(low, 2)}, {signed(high, 2)}]"
    return f"{signed(value, 2)}{around}"


def _rankings(view: AnswersView) -> list[str]:
    found: dict[str, tuple[RankCorrelation, list[str]]] = {}
    for contrast in view.contrasts:
        for report in contrast.reports:
            if report.rank_correlation is not None and contrast.experiment is not None:
                # one ranking takes out one layer or two: two artifacts, and one correlation
                same = report.rank_correlation.model_dump_json()
                entry = found.setdefault(same, (report.rank_correlation, []))
                if contrast.experiment not in entry[1]:
                    entry[1].append(contrast.experiment)
    if not found:
        return []
    told = next(iter(found.values()))[0]
    confidence = "" if told.confidence is None else f"Brackets are {100 * told.confidence:g} % intervals. "
    return [
        "## How far rankings of layers carry from the original to the quantized model",
        _table(
            ("criterion", "decided by", "layers", "documents", "Spearman's ρ", "Kendall's τ", "experiments"),
            (
                (
                    each.criterion,
                    f"the {each.ranked_on} model",
                    str(each.layers),
                    str(each.documents),
                    _correlation(each.spearman, each.spearman_low, each.spearman_high),
                    _correlation(each.kendall, each.kendall_low, each.kendall_high),
                    ", ".join(experiments),
                )
                for each, experiments in found.values()
            ),
        ),
        f"{confidence}Conditional on {told.conditional_on or 'these checkpoints and this text'}.",
    ]


def _unanswered(view: AnswersView) -> list[str]:
    left = [each for each in view.contrasts if each.outcome not in SETTLED]
    if not left:
        return ["## Not answered", "Nothing: every contrast was supported or refuted."]
    reasons = [_reasons(each) or "No reason is known." for each in left]
    lines = [f"- `{each.id}` ({verdict_word(each)}): {why}" for each, why in zip(left, reasons, strict=True)]
    return ["## Not answered", "\n".join(lines)]


def _counts(contrasts: Sequence[ContrastView]) -> str:
    by_word: dict[str, int] = {}
    for each in contrasts:
        by_word[verdict_word(each)] = by_word.get(verdict_word(each), 0) + 1
    return f"{counted(len(contrasts), 'contrast')}: {listed([f'{n} {word}' for word, n in by_word.items()])}"


def _n(contrast: ContrastView) -> str:
    if contrast.outcome is None or not (contrast.launches or contrast.samples):
        return "—"
    launches = [counted(contrast.launches, "launch", "launches")] if contrast.launches else []
    scored = max(contrast.control.count, contrast.candidate.count)
    if contrast.metric in _UNITS_OF and scored:  # the samples are each document or item once in either arm
        return ", ".join([*launches, counted(scored, _UNITS_OF[contrast.metric])])
    return ", ".join([*launches, counted(contrast.samples, "sample")])


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    if not text[1:2].isupper():  # a name such as vLLM is written as it is
        text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)
