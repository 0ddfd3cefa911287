"""A recipe: the best configuration of a campaign as a file that another machine or another day can act on."""

from __future__ import annotations

from math import exp
from typing import Annotated, Literal

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

from configs.errors import UsageError
from configs.validation import alternatives
from db.models.base import JsonObject
from knowledge.findings.exchange import Log

FORMAT: Literal["autoinfer-recipe-1"] = "autoinfer-recipe-1"
"""What such a file says that it is, and so how it is read."""

RETAINED = 0.8
"""Share of the least gain promised, as a logarithm, that a check must find again: a fixed margin on the weak
end of the interval, as non-inferiority trials keep a share of the conservative bound of what was shown before
(U.S. Food and Drug Administration, Non-Inferiority Clinical Trials to Establish Effectiveness, 2016). Below
1, for else half of the checks of a gain that is wholly there would find a little less."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Label = Annotated[str, Field(pattern=r"^[CE]-[0-9]{1,15}$")]
Knobs = dict[str, StrictBool | StrictInt | StrictFloat | StrictStr]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Promise(_Part):
    """What was measured of the configuration against the baseline: natural logarithms of candidate over
    control. `chained`: along a chain of tests, intervals in quadrature, and not in one of them."""

    metric: str
    effect_log: Log
    low_log: Log
    high_log: Annotated[Log, Field(lt=0)]
    chained: bool
    pairs: int
    samples_digest: Digest
    bits_per_byte: JsonObject | None
    task_points_lost: JsonObject | None

    @property
    def bound_log(self) -> float:
        """The effect that a check must find to lie wholly below: `RETAINED` of the least gain."""
        return RETAINED * self.high_log

    @property
    def least_effect(self) -> float:
        """The same as a relative gain: 0.7 is 70 % less."""
        return 1 - exp(self.bound_log)


class Build(_Part):
    """An artifact that the checkpoint comes from: its digest, what it is made of and with."""

    digest: Digest
    kind: str
    inputs: JsonObject
    tool_versions: JsonObject
    bytes: int
    corpus: str | None = None
    corpus_fingerprint: str | None = None


class Serve(_Part):
    """The engine's command, for a shell, and what is to be known of it."""

    words: tuple[str, ...]
    environment: dict[str, str]
    first_line: str | None
    shell: str
    note: str


class Recipe(_Part):
    """What to deploy, what it rests on, and what it promises.

    `experiment` and `seal` name the test that measured it, `rests_on` all tests whose changes it keeps;
    `resolved` is what the engine said that it ran.
    """

    format: Literal["autoinfer-recipe-1"]
    autoinfer: str
    campaign: Label
    experiment: Label
    seal: Digest
    rests_on: tuple[Label, ...]
    model: str
    model_fingerprint: str
    hub: JsonObject | None
    target: str
    engine: str
    seed: int
    baseline: Knobs
    configuration: Knobs
    changed: Knobs
    serve: Serve
    builds: tuple[Build, ...]
    promise: Promise
    workload: JsonObject
    resolved: JsonObject
    versions: dict[str, str]
    machine: JsonObject


def read_recipe(text: str, name: str) -> Recipe:
    """What a file holds; raises `UsageError` with the first place that is wrong for anything else."""
    try:
        return Recipe.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        several = alternatives(error)
        loc, said = several or (first["loc"], str(first["msg"]))
        place, said = ".".join(map(str, loc)), said.rstrip(".")
        if several is not None:
            said = f"it should be {said}"
        said = said[:1].lower() + said[1:]
        raise UsageError(
            f"{name} is no recipe: {f'{place}: ' if place else ''}{said}.",
            "A recipe is written by: autoinfer export C-ID --recipe",
        ) from None
