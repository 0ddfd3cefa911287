"""What a campaign is asked for: model, target, objective, quality limit, budget, seed and plan.

Parsed from packaged or own YAML with overrides of the command line. `configs.campaign_plan` has what it
measures, `configs.questions` the questions it may ask.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from shlex import quote
from types import NoneType
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from configs.asked_over import ASKED_OVER, asked_over_for
from configs.campaign_plan import FurtherWorkloadSpec, PlanSpec
from configs.catalog import Kind, read_document
from configs.errors import UsageError
from configs.fields import Bytes, SomeSeconds
from configs.language_model import PROPOSER as LANGUAGE_MODEL
from configs.language_model import LanguageModelSpec
from configs.like import filled_in
from configs.option_names import ASKED_TOGETHER, option_of
from configs.questions import Question, is_latency
from configs.replaced_fields import replaced
from configs.spec import Spec
from configs.targets import ALL_GPUS, devices_of, is_rented
from configs.validation import Fault, first_fault, validated

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""A name of a campaign, an engine, a proposer …"""


FEWEST_DRAFTING_PROMPTS = 4
"""Prompts of each class of content below which a check of drafting leaves it open whether the text is kept,
so that no test of drafting could be supported. The judge's number, which this room may not import; a test
compares them."""

FEWEST_DOCUMENTS = 8
"""Held-out documents below which quality is never shown to hold, so that no test could be supported. The
judge's number too."""


USD_PER_HOUR = 4.0
"""What an hour is worth to the user where they do not say: about what a rented H100 costs for one (the
packaged price lists), so that a second on a machine of that price counts as two of this one."""

MOST_FURTHER = 8
"""Further workloads of a campaign: every launch of a test is asked for all of them."""

CHECKPOINT, DUMMY = "checkpoint", "dummy"
"""Where weights come from: the model's checkpoint, or made up, which gives times alone (docs/shapes.md)."""

SweptValue = StrictBool | StrictInt | StrictFloat | StrictStr
"""A value of a knob in a sweep."""


class BaselineSpec(Spec):
    """How trial 0 is found: what it begins from, the knobs that the sweep crosses, and its length; see
    `BaselineJob`.

    Of a knob in a list all values are swept, of one in a mapping those that it names.
    """

    start: Literal["auto", "default"] | Annotated[dict[str, SweptValue], Field(min_length=1)] = "auto"
    """The engine's own default, whatever is counted of its memory (`default`); the default, or, where it does
    not fit, what fits with the fewest bits lost (`auto`); or the default with these knobs."""

    sweep: tuple[str, ...] | dict[str, Annotated[tuple[SweptValue, ...], Field(min_length=1)]]
    sweep_blocks: int = Field(ge=2)
    noise_launches: int = Field(ge=2)
    noise_blocks: int = Field(ge=2)
    time_kernels: bool = True
    """Whether kernels for packed weights are timed alone before anything is loaded, where the engine can."""


class BudgetSpec(Spec):
    """What may be spent: wall-clock seconds from the campaign's start."""

    wall_s: SomeSeconds


class ApprovalSpec(Spec):
    """From what on the user is asked first: expected wall-clock seconds of one experiment."""

    wall_s: SomeSeconds


class CampaignSpec(Spec):
    """Everything a campaign is started with; stored with it."""

    name: str = Field(pattern=NAME)
    model: str = Field(min_length=1)
    """`reference`, a folder with a checkpoint, or a model of the hub: `OWNER/NAME`, `OWNER/NAME@REVISION`;
    without weights a packaged shape or a model profile's YAML file too."""
    weights: Literal["checkpoint", "dummy"] = "checkpoint"
    """Those of the model, or made-up ones, of which nothing but times is known."""
    drafter: str | None = Field(default=None, min_length=1)
    """A folder with a DFlash drafter or a draft model of the user's; none where it is left out."""
    target: str = Field(min_length=1)
    """The device: `cpu`, `cuda:0` …, several GPUs of one kind: `cuda:0,cuda:1`, `cuda:all`; or a rented one,
    such as `modal:H100!`."""
    confirm_on: tuple[str, ...] = ()
    """Targets on which what is supported is confirmed, in the same queue; each a device or a rented one."""
    usd_per_hour: float = Field(default=USD_PER_HOUR, gt=0)
    """What an hour is worth to the user: how dollars and seconds of several targets are weighed."""
    engine: str = Field(pattern=NAME)
    """Entry-point name of the engine."""
    executor: str = Field(pattern=NAME)
    """Entry-point name of the executor."""
    judge: str = Field(pattern=NAME)
    """Entry-point name of the judge."""
    proposers: tuple[str, ...] = Field(min_length=1)
    """Entry-point names of the proposers, in the order in which they are asked."""
    language_model: LanguageModelSpec = LanguageModelSpec()
    """How the proposer `language-model` is asked, where it is one of them."""
    space: str = Field(min_length=1)
    """Name of a packaged space, or a path to a YAML file."""
    seed: int = Field(ge=0, lt=2**63)
    least_verdicts: int = Field(ge=0)
    """Verdicts before the campaign may stop because nothing left seems worth its price."""
    budget: BudgetSpec
    approve_above: ApprovalSpec | None = None
    """What is expected to cost more waits for the user's approval; nothing does where it is left out."""
    budget_usd: float | None = Field(default=None, gt=0)
    """Dollars that may be spent on rented machines; where it is left out another budget must cover it."""
    approve_above_usd: float | None = Field(default=None, ge=0)
    """A job on a rented machine that may cost more waits for the user's approval."""
    parameter_budget: Literal["baseline"] | Annotated[int, Field(ge=1)] | None = None
    """Parameters that target and drafter may have together: those of the baseline, a number, or no limit."""
    memory: Bytes | None = Field(default=None, gt=0)
    """Bytes of the target's memory that launches may take; all that is free where it is left out."""
    launches: Literal["auto", "side_by_side", "in_turn"] = "auto"
    """Whether the launches of a test are up side by side, or one after the other; `auto`: in turn where the
    target's memory has no room for two."""
    baseline: BaselineSpec
    plan: PlanSpec
    further_workloads: tuple[FurtherWorkloadSpec, ...] = Field(default=(), max_length=MOST_FURTHER)
    """Workloads that each launch of a test is asked for besides, once what is judged is over. They are told
    beside the verdict and no part of it."""
    questions: tuple[Question, ...] = ()
    """Contrasts to settle first, in their order."""
    ask_again: bool = False
    """Whether questions are tested that another campaign of the database answered in the same scope."""

    @property
    def further(self) -> tuple[FurtherWorkloadSpec, ...]:
        """Its further workloads, each with nothing left out."""
        return tuple(each.beside(self.plan.workload) for each in self.further_workloads)

    @property
    def latency_only(self) -> bool:
        """Whether weights are made up: quality is then never known, acceptance of drafts never measured."""
        return self.weights == DUMMY

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of its target, the one that the baseline is measured on first."""
        return tuple(self.target.split(","))

    @property
    def rented(self) -> tuple[str, ...]:
        """The rented targets among its own and those that it confirms on."""
        return tuple(each for each in (*self.devices, *self.confirm_on) if is_rented(each))

    @field_validator("confirm_on", mode="before")
    @classmethod
    def _targets_in_short(cls, value: object) -> object:
        """`confirm_on: modal:H100!` stands for a list of one; commas part several."""
        return tuple(value.split(",")) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _confirms_elsewhere(self) -> Self:
        for each in self.confirm_on:
            try:
                devices_of(each)
            except UsageError as error:
                raise ValueError(str(error)) from None
            if each == ALL_GPUS or each in self.devices or self.confirm_on.count(each) > 1:
                why = "stands twice" if self.confirm_on.count(each) > 1 else "is no other target than its own"
                raise ValueError(f"what is found can't be confirmed on {each}, which {why}")
        return self

    @model_validator(mode="after")
    def _a_shape_has_times_alone(self) -> Self:
        if not self.latency_only:
            return self
        if self.drafter is not None:
            raise ValueError("made-up weights accept drafts for no reason, so a drafter has no use there")
        scored = next((each for each in self.questions if not is_latency(each.metric)), None)
        if scored is not None:
            raise ValueError(
                f"the question {scored.id} is on {scored.metric}, and made-up weights have times alone"
            )
        return self

    @model_validator(mode="after")
    def _further_workloads_differ(self) -> Self:
        seen = {FurtherWorkloadSpec().beside(self.plan.workload).asks: "plan.workload"}
        for number, each in enumerate(self.further):
            same = seen.setdefault(each.asks, f"further_workloads.{number}")
            if same != f"further_workloads.{number}":
                raise ValueError(
                    f"further_workloads.{number} asks for {each.concurrency} at once of "
                    f"{each.prompt_tokens} + {each.new_tokens} tokens, as {same} does"
                )
        return self

    @field_validator("questions")
    @classmethod
    def _each_asked_once(cls, value: tuple[Question, ...]) -> tuple[Question, ...]:
        ids = [question.id for question in value]
        twice = sorted({each for each in ids if ids.count(each) > 1})
        if twice:
            raise ValueError(f"the question {twice[0]} stands twice")
        return value

    @field_validator("proposers")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("a proposer stands twice")
        return value

    @model_validator(mode="after")
    def _asks_others_too(self) -> Self:
        if self.proposers == (LANGUAGE_MODEL,):
            raise ValueError("a language model brings a share of the tests, so others must propose beside it")
        if self.language_model != LanguageModelSpec() and LANGUAGE_MODEL not in self.proposers:
            raise ValueError(
                f"language_model says how it is asked, and {LANGUAGE_MODEL} is no proposer of it"
            )
        return self

    @property
    def asks_a_model(self) -> bool:
        """Whether a language model is one of its proposers."""
        return LANGUAGE_MODEL in self.proposers

    @model_validator(mode="before")
    @classmethod
    def _time_in_short(cls, data: object) -> object:
        """`budget: 8m` stands for `budget: {wall_s: 8m}`, and so for `approve_above`."""
        if not isinstance(data, dict):
            return data
        times, whole = ("budget", "approve_above"), (dict, BaseModel, NoneType)
        short = [name for name in times if name in data and not isinstance(data[name], whole)]
        return {**data, **{name: {"wall_s": data[name]} for name in short}}


def load_campaign(name_or_path: str | Path, overrides: Mapping[str, object] | None = None) -> CampaignSpec:
    """The campaign of this packaged name or YAML file, with some fields replaced.

    `overrides` maps dotted field names (`budget`, `plan.min_effect`) to values as in YAML; None stands for an
    option that was not given. A file may be `like` a packaged one (`configs.like`). How the engine is asked,
    where nobody says, is `asked_over_for` the engine. Raises `UsageError` that names the file or the field.
    """
    document = read_document(Kind.CAMPAIGNS, name_or_path)
    whole = filled_in(document, overrides)
    spec = validated(CampaignSpec, whole, document.where)
    if (fault := _refused_now(spec)) is not None:
        raise UsageError(f"{document.where}: {fault}", "Correct it there.")
    assert isinstance(whole, dict)  # it was just validated
    data: dict[str, object] = whole
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    for names in _one_after_the_other(given):
        for name in names:
            data = replaced(CampaignSpec, data, name, given[name])
        spec = _with_given(data, names)
    if ASKED_OVER in spec.plan.workload.model_fields_set:
        return spec
    way = {ASKED_OVER: asked_over_for(spec.engine)}
    workload = spec.plan.workload.model_copy(update=way)
    return spec.model_copy(update={"plan": spec.plan.model_copy(update={"workload": workload})})


def _refused_now(spec: CampaignSpec) -> Fault | None:
    """What keeps a campaign from being begun now; one that is stored may have been begun by other rules."""
    workload = spec.plan.workload
    if workload.drafting_prompts < FEWEST_DRAFTING_PROMPTS:
        return Fault(
            "plan.workload.drafting_prompts",
            workload.drafting_prompts,
            f"drafting is checked on at least {FEWEST_DRAFTING_PROMPTS} prompts of each class of content, "
            "for with fewer it could never be supported",
        )
    if workload.evaluation_documents < FEWEST_DOCUMENTS and not spec.latency_only:
        return Fault(
            "plan.workload.evaluation_documents",
            workload.evaluation_documents,
            f"quality is compared on at least {FEWEST_DOCUMENTS} held-out documents, for with fewer nothing "
            "could ever be supported",
        )
    return None


def _one_after_the_other(names: Collection[str]) -> list[list[str]]:
    """The fields that options replace, in their order, each alone but those that are asked together."""
    together = [name for name in names if name in ASKED_TOGETHER]
    alone = [[name] for name in names if name not in ASKED_TOGETHER]
    return [*alone, together] if together else alone


def _with_given(data: dict[str, object], names: Sequence[str]) -> CampaignSpec:
    """The campaign of data in which options replaced the fields `names`; a refusal names the options."""
    try:
        spec = CampaignSpec.model_validate(data)
        fault = _refused_now(spec)
    except ValidationError as error:
        fault = first_fault(error, data)
    if fault is None:
        return spec
    option, told = " and ".join(map(option_of, names)), f": {fault}"
    if fault.field in names and fault.told:
        option, told = option_of(fault.field), f" {quote(fault.told)}: {fault.reason}."
    instead = f"Give {option} another value."
    if not fault.field:  # nothing is wrong with the value itself
        instead = f"Leave {option} out, or what it does not go with."
    raise UsageError(f"{option}{told}", instead)
