"""A change of a configuration in words, as a claim or a finding says it: `drafting 2 tokens by mtp`. Pure.

Knobs that make one thing together (what prunes, what quantizes, what drafts) are one phrase, every knob of
`serving.*` is its own. A knob that a change of another one brings or drops says nothing by itself: one that
falls away is left out, and so is one that comes up at its engine's own choice. A knob without words stands as
it is: `changing serving.flag a → b`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.space.configuration import Change, KnobValue

MOST_CHANGES_NAMED = 4
"""Changes without words that a phrase spells out; of more it says how many."""

LEVERS_OF_WEIGHTS = frozenset({"quantization", "pruning", "drafting"})
"""Levers whose knobs make one thing together, so that a claim on one of them names the others."""

OWN_CHOICE = "auto"
"""The value of a knob with which the engine chooses."""

Values = Mapping[str, KnobValue | None]

_SETTINGS = {
    "serving.dtype": "serving in {after}{instead}",
    "serving.threads": "running on {after} thread{s}{instead}",
    "serving.max_model_len": "making room for {after} tokens of context{instead}",
    "serving.max_sequences": "taking at most {after} sequence{s} at once{instead}",
    "serving.max_batch_tokens": "reading at most {after} tokens a step{instead}",
    "serving.graph_mode": "running the step with graph mode {after}{instead}",
    "serving.max_graph_tokens": "capturing steps of up to {after} tokens in CUDA graphs{instead}",
    "serving.linear_backend": "multiplying quantized weights by kernel {after}{instead}",
    "serving.moe_backend": "computing experts by {after}{instead}",
    "serving.weight_dtype": "keeping weights as {after}{instead}",
    "serving.kv_cache_dtype": "keeping keys and values as {after}{instead}",
    "serving.gdn_state_dtype": "keeping GatedDeltaNet states as {after}{instead}",
    "serving.gdn_prefill_backend": "prefilling GatedDeltaNet layers by {after}{instead}",
    "serving.gdn_decode_kernel": "verifying drafts in GatedDeltaNet layers by {after}{instead}",
    "drafting.method": "drafting by {after}{instead}",
    "drafting.ngram_tokens": "drafting by n-grams of {after} tokens{instead}",
    "drafting.lm_head": "drafting with an output head in {after}{instead}",
    "pruning.criterion": "choosing layers by {after}{instead}",
    "quantization.bits": "quantizing to {after} bits{instead}",
    "quantization.group_size": "quantizing in groups of {after}{instead}",
    "quantization.corpus": "calibrating on {after}{instead}",
    "quantization.samples": "calibrating on {after} samples{instead}",
    "quantization.out_proj_bits": "quantizing out_proj to {after} bits{instead}",
}
"""What setting one knob means, instead of what it was before."""

_SWITCHES = {
    "serving.async_scheduling": "asynchronous scheduling",
    "serving.prefix_caching": "prefix caching",
    "serving.chunked_prefill": "chunked prefill",
    "quantization.symmetric": "symmetric quantization",
}
"""What is switched on or off, or left to the engine."""


@dataclass(frozen=True)
class Phrase:
    """A gerund, and the knobs that it names."""

    text: str
    knobs: frozenset[str]


def phrases(changes: Sequence[Change]) -> tuple[Phrase, ...]:
    """What the changes mean, in their order; those that have no words come last, as one phrase."""
    meant = [each for each in changes if not _follows(each)] or list(changes)
    found: list[Phrase] = []
    plain: list[Change] = []
    for group in _groups(meant):
        phrase = _together(group)
        if phrase is not None:
            found.append(phrase)
            continue
        for each in group:
            words = _setting(each)
            plain += [] if words else [each]
            found += [Phrase(words, frozenset({each.knob}))] if words else []
    if plain:
        told = ", ".join(str(each) for each in plain[:MOST_CHANGES_NAMED])
        more = len(plain) - MOST_CHANGES_NAMED
        text = f"changing {told}" + (f" and {more} more" if more > 0 else "")
        found.append(Phrase(text, frozenset(each.knob for each in plain[:MOST_CHANGES_NAMED])))
    return tuple(found)


def change_in_words(changes: Sequence[Change]) -> str:
    """Everything that was changed; what the phrases leave out stands in brackets behind them."""
    told = phrases(changes)
    named = frozenset[str]().union(*(each.knobs for each in told))
    left = [
        f"{each.knob} {shown(each.after)}"
        for each in changes
        if each.knob not in named and each.after is not None
    ]
    text = joined([each.text for each in told])
    return text + (f" ({', '.join(left)})" if left else "")


def change_in_short(changes: Sequence[Change]) -> str:
    """What the phrases say and no more, as a title: `Quantizing to 4 bits by awq in groups of 128`."""
    text = ", ".join(each.text for each in phrases(changes))
    return text[:1].upper() + text[1:]


def joined(texts: Sequence[str]) -> str:
    """Phrases as one subject: `a, b and c together`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]} together"


def shown(value: KnobValue | None) -> str:
    """A value as words have it."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _follows(change: Change) -> bool:
    """Whether a knob came up or fell away with another one, and nothing was chosen for it."""
    return change.after is None or (change.before is None and change.after == OWN_CHOICE)


def _groups(changes: Sequence[Change]) -> list[list[Change]]:
    """The changes by what is one thing, in their order."""
    groups: dict[str, list[Change]] = {}
    for each in changes:
        lever = each.knob.partition(".")[0]
        groups.setdefault(lever if lever in LEVERS_OF_WEIGHTS else each.knob, []).append(each)
    return list(groups.values())


def _together(group: Sequence[Change]) -> Phrase | None:
    """What the changes of one lever mean as one; None where they have no words as one."""
    lever = group[0].knob.partition(".")[0]
    after = {change.knob: change.after for change in group}
    before = {change.knob: change.before for change in group}
    match lever:
        case "pruning":
            return _pruning(after, before)
        case "quantization":
            return _quantizing(after)
        case "drafting":
            return _drafting(after, before)
    return None


def _setting(change: Change) -> str | None:
    """What setting one knob means; None where there are no words for it."""
    if change.knob == "serving.compile" and change.after != "off":
        return f"compiling the decode step ({change.after})"
    if change.knob in _SWITCHES:
        what, to = _SWITCHES[change.knob], shown(change.after)
        return f"switching {what} {to}" if to in ("on", "off") else f"leaving {what} to the engine"
    if change.knob not in _SETTINGS:
        return None
    instead = "" if change.before is None else f" instead of {shown(change.before)}"
    plural = "" if change.after == 1 else "s"
    return _SETTINGS[change.knob].format(after=shown(change.after), instead=instead, s=plural)


def _pruning(after: Values, before: Values) -> Phrase | None:
    removed, fewer = after.get("pruning.layers_removed"), before.get("pruning.layers_removed")
    if not isinstance(removed, int):
        return None
    kind, criterion = after.get("pruning.restrict"), after.get("pruning.criterion")
    which = f"{kind} " if kind not in (None, "any") else ""
    instead = f" instead of {fewer}" if fewer is not None else ""
    by = f" by {criterion}" if criterion not in (None, "block_influence") else ""
    text = f"removing {removed} {which}{'layer' if removed == 1 else 'layers'}{instead}{by}"
    named = {"pruning.method", "pruning.layers_removed", "pruning.restrict"}
    return Phrase(text, frozenset(named | ({"pruning.criterion"} if by else set())))


def _quantizing(after: Values) -> Phrase | None:
    method, bits = after.get("quantization.method"), after.get("quantization.bits")
    if method in (None, "none") or bits is None:
        return None
    head = " with the head" if after.get("quantization.lm_head") == "quantized" else ""
    group = after.get("quantization.group_size")
    named = {"quantization.method", "quantization.bits", "quantization.group_size", "quantization.lm_head"}
    return Phrase(f"quantizing{head} to {bits} bits by {method} in groups of {group}", frozenset(named))


def _drafting(after: Values, before: Values) -> Phrase | None:
    method, tokens = after.get("drafting.method"), after.get("drafting.draft_tokens")
    named = frozenset({"drafting.method", "drafting.draft_tokens"})
    if method == "none" and before.get("drafting.method") is not None:
        return Phrase(f"no longer drafting by {before['drafting.method']}", named)
    if method is not None and tokens is not None:
        return Phrase(f"drafting {tokens} {'token' if tokens == 1 else 'tokens'} by {method}", named)
    if set(after) == {"drafting.draft_tokens"}:
        word = "token" if tokens == 1 else "tokens"
        return Phrase(f"drafting {tokens} {word} instead of {before['drafting.draft_tokens']}", named)
    return None
