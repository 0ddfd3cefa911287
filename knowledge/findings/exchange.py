"""Verdicts that go from one database to another: their form in a file, and what is believed of it. Pure.

A file holds whole verdicts, not findings: what they say together is derived where they arrive, beside what
was measured there. Their samples stay where they were taken; a digest of them goes along, so that whoever
holds both can see that they are the same.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from configs.errors import UsageError
from configs.validation import alternatives
from db.states import VerdictOutcome
from experiments.measurement.evidence import Json, Metric
from experiments.space.configuration import Configuration
from experiments.space.workload_rules import RESOLVED_TOKENS
from knowledge.findings.verdict_fact import VerdictFact
from knowledge.scope import Scope

FORMAT: Literal["autoinfer-verdicts-1"] = "autoinfer-verdicts-1"
"""What such a file says that it is, and so how it is read."""

MOST_BYTES = 64 * 2**20
"""The largest file that is read: some hundred thousand verdicts."""

MOST_LOG = 20.0
"""The largest effect that is believed, a natural logarithm: a factor of half a billion."""


MOST_WHOLE = 2**53
"""The largest whole number that is taken in: beyond it a float, which all of them become, is another one."""


def _printable(text: str) -> str:
    """Raises `ValueError` for what would steer a terminal instead of being read."""
    if any(unicodedata.category(each) in _STEERING and each not in "\n\t" for each in text):
        raise ValueError("it holds characters that are no text")
    return text


def readable(text: str) -> str:
    """Return a text of here as a file may hold it: without what steers a terminal, and no longer than it may
    be."""
    kept = (each for each in text if unicodedata.category(each) not in _STEERING or each in "\n\t")
    return "".join(each for each in kept if unicodedata.bidirectional(each) not in _TURNING)[:_LONGEST]


_STEERING = ("Cc", "Cs")
"""Categories of Unicode: control characters and halves of characters."""

_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""Bidirectional classes of Unicode: what embeds, overrides or isolates a direction."""

_LONGEST = 4_000
"""Characters of a text, at most."""

Text = Annotated[StrictStr, Field(max_length=_LONGEST), AfterValidator(_printable)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Log = Annotated[float, Field(ge=-MOST_LOG, le=MOST_LOG)]
KnobValues = dict[Name, StrictBool | StrictInt | StrictFloat | Annotated[StrictStr, Field(max_length=400)]]


class ToldVerdict(BaseModel):
    """One verdict with all of its scope.

    `campaign` and `experiment` are labels of the database it comes from; effects are natural logarithms of
    candidate over control, of a share differences; `quality` is whether it held, None where nothing decided
    that; `ran` is what the candidate's resolved configuration told of what knobs can fix (a kernel, say);
    `samples_digest` is the SHA-256 of its samples there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    campaign: Annotated[str, Field(pattern=r"^C-[0-9]{1,15}$")]
    experiment: Annotated[str, Field(pattern=r"^E-[0-9]{1,15}$")]
    at: Name
    model: Name
    model_fingerprint: Name
    target: Name
    engine: Name
    versions: dict[Name, Text]
    workload: dict[Name, StrictBool | StrictInt | StrictFloat | Text | list[Text] | None]
    latency_only: StrictBool = False
    control: KnobValues
    candidate: KnobValues
    ran: dict[Name, Text] = {}
    lever: Text
    metric: Metric
    min_effect: Annotated[float, Field(ge=0, lt=1)]
    outcome: VerdictOutcome
    effect_log: Log | None
    low_log: Log | None
    high_log: Log | None
    quality: StrictBool | None
    reason: Text
    of_an_open_test: StrictBool = False
    launches: Annotated[int, Field(ge=0)]
    samples: Annotated[int, Field(ge=0)]
    samples_digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if (self.low_log is None) is not (self.high_log is None):
            raise ValueError("an interval has two ends")
        if self.low_log is not None and self.high_log is not None:
            if self.effect_log is None:
                raise ValueError("an interval is one of an effect")
            if not self.low_log <= self.effect_log <= self.high_log:
                raise ValueError("the effect lies outside its interval")
        if self.outcome is VerdictOutcome.SUPPORTED and (self.high_log is None or self.high_log >= 0):
            raise ValueError("it is supported by an interval that is not wholly a gain")
        if Configuration.of(self.control) == Configuration.of(self.candidate):
            raise ValueError("control and candidate are the same configuration")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of all it says but its labels, which are another database's own."""
        said = self.model_dump(mode="json", exclude={"campaign", "experiment"})
        text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def fact(self, number: int, origin: str) -> VerdictFact:
        """Return it as the rules see it; `number` is its own among the imported."""
        control = Configuration.of(self.control)
        return VerdictFact(
            verdict_id=number,
            outcome=self.outcome,
            metric=self.metric.value,
            changes=control.changes_to(Configuration.of(self.candidate)),
            lever=self.lever,
            min_effect=self.min_effect,
            scope=Scope.of(
                model=self.model,
                model_fingerprint=self.model_fingerprint,
                target=self.target,
                engine=self.engine,
                versions=self.versions,
                workload=self.workload,
                control=control,
                latency_only=self.latency_only,
                step_tokens=_whole(self.ran.get(RESOLVED_TOKENS)),
            ),
            effect_log=self.effect_log,
            low_log=self.low_log,
            high_log=self.high_log,
            quality_held=self.quality,
            cause=self.reason,
            of_an_open_test=self.of_an_open_test,
            campaign=f"{self.campaign} of {origin}",
            imported=True,
            measured_at=_instant(self.at),
        )


def _whole(text: str | None) -> int | None:
    """A number that was told as text; None of what is none that a step may have."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    found = int(text)
    return found if found <= MOST_WHOLE else None


def _instant(text: str) -> datetime | None:
    """A time in ISO 8601, in UTC where it names no zone; None of what is no time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class VerdictFile(BaseModel):
    """A file of verdicts; `origin` names the database that they come from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["autoinfer-verdicts-1"] = FORMAT
    origin: Name
    verdicts: tuple[ToldVerdict, ...]


def read_file(text: str, name: str) -> VerdictFile:
    """Return what a file holds; raises `UsageError` with the first place that is wrong for anything else."""
    hint = "Such a file is written by: autoinfer finding export --output FILE"
    try:
        found = VerdictFile.model_validate_json(text)
        _check_taken_in(found.model_dump(mode="json"), "")
        for place, verdict in enumerate(found.verdicts):
            if _instant(verdict.at) is None:
                raise ValueError(f"verdicts.{place}.at: it is no time")
    except ValueError as error:
        raise UsageError(f"{name} is no file of verdicts: {_first(error)}.", hint) from None
    return found


def _check_taken_in(value: Json, place: str) -> None:
    """Raise `ValueError` with the place for what was stored before and is taken in no more: text that turns
    the direction in which it is read, and numbers that no float holds."""
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in entries:
            here = f"{place}.{name}".lstrip(".")
            _check_taken_in(each, here)
            if isinstance(name, str):
                _check_taken_in(name, place)
    if isinstance(value, str) and any(unicodedata.bidirectional(each) in _TURNING for each in value):
        raise ValueError(f"{place}: it holds characters that are no text")
    if isinstance(value, int) and abs(value) > MOST_WHOLE:
        raise ValueError(f"{place}: it is a number beyond {MOST_WHOLE}")


def _first(error: ValueError) -> str:
    """The first thing that is wrong, with its place."""
    if not isinstance(error, ValidationError):
        return str(error)
    several = alternatives(error)
    if several is not None:
        return f"{'.'.join(map(str, several[0]))}: it should be {several[1]}"
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    said = first["msg"].removeprefix("Value error, ").rstrip(".")
    said = said[:1].lower() + said[1:]
    return f"{place}: {said}" if place else said
