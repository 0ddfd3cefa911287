"""From the text of an answer to typed proposals, or to refusals with their reason. Pure.

An answer is untrusted: it becomes knobs of the space with values that are enumerated there, finite numbers,
bounded plain words and ids of findings that it was told of, or it is refused. Nothing else of it is used.
What stands around its JSON is prose that nobody asked for: nothing is taken of an answer in which that tries
to instruct. What a model thought aloud before is dropped unread, for there it weighs what it was told too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
)

from agent.language_model.instructing import instructs
from agent.language_model.question import (
    MOST_BUILT_ON,
    MOST_CHANGES,
    MOST_GAIN_PERCENT,
    MOST_GIVE_OR_TAKE_PERCENT,
    MOST_WORDS,
)
from agent.language_model.quoting import plain
from experiments.measurement.plan import Prediction
from experiments.space.configuration import KnobValue
from experiments.space.knob import Knob, is_among, written

Z_80 = 1.2816
"""Half width of the 80 % interval of a normal, in standard deviations."""

ROUNDED = 1e-6
"""Shares are written in percent with four places: so far off one may be."""

LEAST_SPREAD_LOG = 0.01
"""A prediction is not taken as closer than this, as a user's is not."""

_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)
_LIST = re.compile(r'^[^{]*\{\s*"hypotheses"\s*:\s*\[\s*')
_FENCE_BEGINS = re.compile(r"```[a-zA-Z]{0,10}$")
_FENCE_ENDS = "```"
_BETWEEN = re.compile(r"\s*,\s*")


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_Word = Annotated[StrictStr, Field(max_length=200)]
"""A name or a value, as it was said."""


class ProposalSaid(_Said):
    """One hypothesis, as it was said: each field of the type and within the bounds that it must have."""

    change: dict[_Word, StrictBool | StrictInt | StrictFloat | _Word] = Field(
        min_length=1, max_length=MOST_CHANGES
    )
    gain_percent: float = Field(strict=True)
    give_or_take_percent: float = Field(strict=True)
    min_effect_percent: float = Field(strict=True)
    refuted_if: StrictStr = Field(min_length=1, max_length=MOST_WORDS)
    rationale: StrictStr = Field(min_length=1, max_length=MOST_WORDS)
    builds_on: tuple[Annotated[StrictStr, Field(max_length=40)], ...] = Field(max_length=MOST_BUILT_ON)


@dataclass(frozen=True)
class Proposal:
    """A hypothesis of an answer, checked by itself; whether it is legal on the best so far, or a duplicate,
    is for whoever makes a draft of it."""

    change: tuple[tuple[str, KnobValue], ...]
    prediction: Prediction
    min_effect: float
    refuted_if: str
    rationale: str
    builds_on: tuple[str, ...]

    @property
    def words(self) -> str:
        """The change in words, such as `serving.compile=default`."""
        return ", ".join(f"{knob}={written(value)}" for knob, value in self.change)


@dataclass(frozen=True)
class Refused:
    """What was refused of an answer: what it was, as far as that can be told, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Allowed:
    """What a proposal may use: the knobs, the findings it was told of, and the least effect worth having."""

    knobs: Mapping[str, Knob]
    findings: Collection[str]
    min_effect: float
    most: int


def read_answer(
    text: str, allowed: Allowed, *, was_cut: bool = False
) -> tuple[list[Proposal], list[Refused]]:
    """The proposals of an answer and what was refused of it, in its order; raises nothing.

    Of one that ended at its limit of tokens the hypotheses before that are read.
    """
    ended: list[Refused] = []
    said = _THOUGHT.sub("", text)
    try:
        told, around = _object_in(said)
    except _Malformed as error:
        entries, around = _whole_in(said) if was_cut else [], [_before(said, said.find("{"))]
        what = "the rest of the answer" if entries else "the answer"
        why = "It ended at its limit of tokens before its JSON did." if was_cut else f"{error}."
        ended = [Refused(what, f"{why[0].upper()}{why[1:]}")]
    except ValueError as error:
        why = f"{error}; it ended at its limit of tokens" if was_cut else str(error)
        return [], [Refused("the answer", f"{why[0].upper()}{why[1:]}.")]
    else:
        listed = told.get("hypotheses")
        if not isinstance(listed, list) or set(told) != {"hypotheses"}:
            why = "It is not an object with a list of hypotheses, and that alone."
            return [], [Refused("the answer", why)]
        entries = listed
    why_not = next(filter(None, map(_tries, around)), None)
    if why_not is not None:
        why = f"What stands around its JSON {why_not}, and its JSON alone was asked for."
        return [], [Refused("the answer", why)]
    found: list[Proposal] = []
    refused: list[Refused] = []
    for at, entry in enumerate(entries[: allowed.most], start=1):
        try:
            found.append(_proposal(entry, allowed))
        except _No as no:
            refused.append(Refused(_what(entry, at), str(no)))
    if len(entries) > allowed.most:
        more = len(entries) - allowed.most
        refused.append(Refused(f"{more} more of its answer", f"At most {allowed.most} were asked for."))
    return found, refused + ended


class _No(Exception):
    """Why a proposal is refused, as a sentence."""


def _object_in(said: str) -> tuple[dict[str, Any], list[str]]:
    """The first object of JSON in a text, and what stands before it and after it, without the fence of code
    that it may stand in.

    Raises `ValueError` with a clause for what holds none, for a name that stands twice in an object, and for
    numbers that are not finite.
    """
    start = said.find("{")
    if start < 0:
        raise ValueError("it holds no JSON object")
    try:
        told, end = _DECODER.raw_decode(said, start)
    except _Twice as twice:
        raise ValueError(str(twice)) from None
    except (ValueError, RecursionError):
        raise _Malformed("its JSON is malformed") from None
    if not isinstance(told, dict):
        raise ValueError("it holds no JSON object")
    return told, [_before(said, start), said[end:].lstrip().removeprefix(_FENCE_ENDS)]


def _before(said: str, start: int) -> str:
    """What stands before the JSON and the fence that it may stand in."""
    return _FENCE_BEGINS.sub("", said[:start].rstrip())


def _whole_in(said: str) -> list[Any]:
    """The hypotheses that stand whole in an answer that was cut; none where it was still thinking aloud."""
    begun = _LIST.search(said)
    if begun is None or "<think>" in said:
        return []
    found: list[Any] = []
    at = begun.end()
    while said[at : at + 1] == "{":
        try:
            entry, end = _DECODER.raw_decode(said, at)
        except (ValueError, RecursionError):
            break
        found.append(entry)
        between = _BETWEEN.match(said, end)
        if between is None:
            break
        at = between.end()
    return found


class _Malformed(ValueError):
    pass


class _Twice(ValueError):
    pass


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise _Twice("a name stands twice in one of its objects")
    return dict(pairs)


def _not_finite(_: str) -> float:
    raise _Twice("it holds a number that is not finite")


_DECODER = json.JSONDecoder(object_pairs_hook=_each_once, parse_constant=_not_finite)


def _proposal(entry: object, allowed: Allowed) -> Proposal:
    try:
        said = ProposalSaid.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(each) for each in first["loc"][:3])
        raise _No(f"It is malformed: {plain(where, 60) or 'it'}: {plain(first['msg'])}.") from None
    except RecursionError:
        raise _No("It is malformed.") from None
    return Proposal(
        change=_change(said, allowed.knobs),
        prediction=_prediction(said),
        min_effect=_min_effect(said, allowed.min_effect),
        refuted_if=_words("refuted_if", said.refuted_if),
        rationale=_words("rationale", said.rationale),
        builds_on=_findings(said.builds_on, allowed.findings),
    )


def _change(said: ProposalSaid, knobs: Mapping[str, Knob]) -> tuple[tuple[str, KnobValue], ...]:
    found: dict[str, KnobValue] = {}
    for name, meant in said.change.items():
        knob = knobs.get(name)
        if knob is None:
            raise _No(f"{plain(name, 60)!r} is no knob that may be turned here.")
        value = _of_the_knob(meant, knob)
        if value is None:
            raise _No(f"{name} can't be {plain(str(meant), 60)!r} here.")
        found[name] = value
    return tuple(sorted(found.items()))


def _of_the_knob(value: KnobValue, knob: Knob) -> KnobValue | None:
    """The enumerated value that is meant; None where there is none. JSON does not tell 1 from 1.0."""
    if is_among(value, knob.values):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return next(
        (
            each
            for each in knob.values
            if isinstance(each, int | float) and not isinstance(each, bool) and each == value
        ),
        None,
    )


def _prediction(said: ProposalSaid) -> Prediction:
    gain, width = said.gain_percent, said.give_or_take_percent
    if not 0 < gain <= MOST_GAIN_PERCENT:
        raise _No(f"gain_percent is {gain:g}; it must be more than 0 and at most {MOST_GAIN_PERCENT:g}.")
    if not 0 <= width <= MOST_GIVE_OR_TAKE_PERCENT:
        raise _No(f"give_or_take_percent is {width:g}; it must be from 0 to {MOST_GIVE_OR_TAKE_PERCENT:g}.")
    least, most = _log_of(gain - width), _log_of(min(gain + width, MOST_GAIN_PERCENT))
    spread = (least - most) / (2 * Z_80)
    return Prediction(log_ratio_mean=_log_of(gain), log_ratio_sd=max(LEAST_SPREAD_LOG, spread))


def _log_of(gain_percent: float) -> float:
    """The log of the time over what it was, of a gain in percent: less than 0 where it gets faster."""
    return math.log1p(-gain_percent / 100)


def _min_effect(said: ProposalSaid, least: float) -> float:
    share = said.min_effect_percent / 100
    if not least - ROUNDED <= share < 1:
        bounds = f"from {100 * least:g} to below 100"
        raise _No(f"min_effect_percent is {said.min_effect_percent:g}; it must be {bounds}.")
    share = max(least, share)
    if said.gain_percent / 100 < share - ROUNDED:
        raise _No(
            f"It predicts a gain of {said.gain_percent:g} % where at least {100 * share:g} % is worth "
            "having: it refutes itself."
        )
    return share


def _words(name: str, text: str) -> str:
    line = plain(text, MOST_WORDS)
    if len(line.split()) < 2:
        raise _No(f"Its {name} says nothing.")
    why = _tries(text)
    if why is not None:
        raise _No(f"Its {name} {why}, which is no reason.")
    return line if line[-1] in ".!?…" else f"{line}."


def _tries(text: str) -> str | None:
    """What words try, as they were written and without what is not seen; None for plain ones."""
    return instructs(text) or instructs(plain(text, len(text)))


def _findings(named: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    for each in named:
        if each not in known:
            raise _No(f"It builds on {plain(each, 20)!r}, which is no finding in scope that it was told of.")
    return tuple(dict.fromkeys(named))


def _what(entry: object, at: int) -> str:
    """What a refused entry was about, as far as it can be told."""
    changes = entry.get("change") if isinstance(entry, dict) else None
    named = [
        f"{plain(str(name), 60)}={plain(written(value) if isinstance(value, bool) else str(value), 40)}"
        for name, value in list(changes.items() if isinstance(changes, dict) else ())[:MOST_CHANGES]
    ]
    return ", ".join(named) or f"hypothesis {at} of its answer"
