"""A question's answer in a sentence, by template: the clauses of the contrasts that decide it, each with its
effect and the quality that an arm lost beside it, and what is open. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from db.states import HypothesisState, VerdictOutcome
from experiments.space.knob import written
from knowledge.figures import effect, listed
from knowledge.queries.answered.answers_view import ContrastView
from knowledge.telling.draws import Reading, read_against_draws
from knowledge.telling.lost_quality import lost_quality

_SAMPLES = "With these calibration samples: "
_AGAINST = {
    True: "",
    False: ", no more than another draw of the calibration text may change",
    None: ", while no other draw of the calibration text was measured",
}
"""What is added to an effect that rests on a draw, by whether it lies beyond the draws that were measured."""
SETTLED = (VerdictOutcome.SUPPORTED, VerdictOutcome.REFUTED)
"""Outcomes that answer a contrast."""
_OPEN_STATES = (HypothesisState.QUEUED, HypothesisState.PROPOSED, HypothesisState.TESTING)


def answer_sentence(contrasts: Sequence[ContrastView], every: Iterable[ContrastView]) -> str:
    """The answer that the deciding ones of `contrasts` give; they are read against the draws among `every`
    contrast of the campaign."""
    deciding = [each for each in contrasts if each.role == "decides"]
    if not deciding:
        return "**Open:** no contrast decides this question."
    among = tuple(every)
    readings = {each.id: read_against_draws(each, among) for each in deciding}
    told = [_settled(each, readings[each.id]) for each in deciding if each.outcome in SETTLED]
    unfit = [each for each in deciding if verdict_word(each) == HypothesisState.INFEASIBLE.value]
    left = [each for each in deciding if each.outcome not in SETTLED and each not in unfit]
    parts = [
        *told,
        *(
            f"{what}{listed([_open(each, readings[each.id]) for each in these])}"
            for what, these in (("open: " if told else "", left), ("not to be tested here: ", unfit))
            if these
        ),
    ]
    head = "**In part.**" if left or unfit else "**Answer.**"
    if not told:
        head = "**Open:**" if left else "**Open.**"
    rests = any(readings.values())
    text = "; ".join(parts)
    sentence = _SAMPLES + text if rests else text[:1].upper() + text[1:]
    return " ".join([head, f"{sentence}.", *_draws(readings.values())])


def verdict_word(contrast: ContrastView) -> str:
    """The outcome of a contrast, or its state where there is none; what waits or runs is `open`."""
    if contrast.outcome is not None:
        return contrast.outcome.value
    if contrast.state is None:
        return "not asked"
    return "open" if contrast.state in _OPEN_STATES else contrast.state.value


def instead_of(contrast: ContrastView) -> str:
    """For which confounded experiment a contrast's own stands, and what both its arms have fixed for that, or
    of which other campaign it is; empty where neither is so."""
    if contrast.answered_in is not None:
        return f"of {contrast.answered_in}, which asked the same"
    if contrast.confounded is None:
        return ""
    held = held_words(contrast).replace(",", ";", 1)
    how = "was" if contrast.confounded.experiment else "would be"
    return f"for {contrast.confounded.label}, which {how} confounded{held}"


def _settled(contrast: ContrastView, reading: Reading | None) -> str:
    claim = f"“{contrast.claim.rstrip('.')}”"
    if contrast.outcome is VerdictOutcome.SUPPORTED:
        words = contrast.if_supported or f"{claim} is supported"
    elif contrast.quality_held is False:
        words = f"{claim} is refuted, for the quality is worse than its margins allow"
    else:
        words = contrast.if_refuted or f"{claim} is refuted"
    return f"{words.rstrip('.')}{held_words(contrast)} ({_figures(contrast, reading)})"


def held_words(contrast: ContrastView) -> str:
    """The end of a clause: what both arms have fixed, where the claim as it was asked was confounded."""
    held = [f"{name} at {written(value)}" for name, value in sorted(contrast.held.items())]
    return f", with {listed(held)} in both arms" if held else ""


def _open(contrast: ContrastView, reading: Reading | None) -> str:
    told = _figures(contrast, reading) if contrast.effect is not None else f"`{contrast.id}`"
    return f"“{contrast.claim.rstrip('.')}”{held_words(contrast)} ({told}, {verdict_word(contrast)})"


def _figures(contrast: ContrastView, reading: Reading | None) -> str:
    figures = effect(contrast.effect, contrast.low, contrast.high, contrast.metric)
    against = "" if reading is None else _AGAINST[reading.beyond]
    return "; ".join([f"`{contrast.id}`: {figures}{against}", *lost_quality(contrast)])


def _draws(readings: Iterable[Reading | None]) -> list[str]:
    """What the draws that were measured changed by themselves, each once."""
    found = {each.id: each for reading in readings if reading is not None for each in reading.draws}
    if not found:
        return []
    told = [f"`{name}` {effect(d.effect, d.low, d.high, d.metric)}" for name, d in found.items()]
    return [f"Another draw of the calibration text alone: {listed(told)}."]
