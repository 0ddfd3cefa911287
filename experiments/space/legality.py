"""What a model and an engine allow of a space, and why not the rest. Pure.

Some things no condition between knobs can say: a checkpoint without an MTP head can't draft with it, a group
size must divide the inputs of what is quantized, one layer of each kind must stay. What never works is taken
out of the space by `legal_levers`, with its reason; what fails only together is found by `joint_refusal`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from configs.errors import UsageError
from configs.models import ModelProfile
from experiments.space.configuration import KnobValue
from experiments.space.experts_rules import ExpertSizes, packed_experts_refused
from experiments.space.gdn_decode_rules import decode_and_step_refused
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import (
    LINEAR_BACKEND,
    kernel_and_format_refused,
    stored_format_refused,
)
from experiments.space.knob import Same, SameBeside, is_among, written
from experiments.space.moe_backend_rules import (
    MOE_BACKEND,
    NO_EXPERTS,
    experts_format_refused,
    same_beside_sixteen_bits,
)
from experiments.space.number_formats import WEIGHT_DTYPE
from experiments.space.space import Space
from experiments.space.steps_ahead_rules import AHEAD, ahead_refused, never_ahead
from experiments.space.stored_packing import StoredPacking
from experiments.space.whole_prompt_rules import whole_prompts_refused
from experiments.space.workload_rules import MAX_MODEL_LEN

THREADS = "serving.threads"
QUANTIZATION, GROUP_SIZE = "quantization.method", "quantization.group_size"
KEEP = "quantization.keep"
LAYERS, RESTRICT = "pruning.layers_removed", "pruning.restrict"
DRAFT_TOKENS = "drafting.draft_tokens"
DRAFTING, DRAFTER, PACKAGED = "drafting.method", "drafting.drafter", "packaged"

UNQUANTIZED = "none"
"""The value of `quantization.method` that leaves the weights as they are."""

ALREADY_QUANTIZED = "The checkpoint is quantized already: its weights can't be quantized again."

AS_STORED = "stored"
"""The value of `serving.weight_dtype` that leaves the weights as they are."""

NOT_ROUNDED_AGAIN = "The checkpoint is quantized already: vLLM serves its weights as they are stored."

EXTERNAL_DRAFTERS = ("draft_model", "dflash")
"""Values of `drafting.method` that need a drafter with weights of its own."""

KINDS_OF: Mapping[str, tuple[str, ...]] = {
    "any": ("linear_attention", "full_attention"),
    "gdn": ("linear_attention",),
    "attention": ("full_attention",),
}
"""Values of `pruning.restrict` and the kinds of layers that may go under each."""


SPARED: Mapping[KnobValue, frozenset[str]] = {"attention": frozenset({"self_attn.o_proj"})}
"""Values of `quantization.keep` and the projections, as `ModelFacts.input_sizes` names them, that each leaves
as they are: groups need not divide their inputs. The other projections of attention have the inputs of
GDN's."""

MOST_DRAFT_TOKENS: Mapping[str, int] = {"mtp": 4}
"""The most draft tokens by method: an MTP head is trained for one, and each further one is drafted from its
own output. A packaged drafter that drafts fewer in a block belongs into `ModelFacts` too."""


@dataclass(frozen=True)
class OwnDrafter:
    """A drafter of the user's: the method that its folder is for, the folder, absolute, and the most tokens
    that it drafts a step (None: as many as are asked for)."""

    method: str
    folder: str
    most_draft_tokens: int | None = None


@dataclass(frozen=True)
class ModelFacts:
    """What of a model, its engine and its target decides which values there are.

    `layer_types` names each layer's kind as in the checkpoint; `input_sizes` the inputs of each projection
    that is quantized, by its name; `experts` the sizes of those of a Mixture of Experts (None: a dense
    model); `most_draft_tokens` what each method drafts at most; `packaged_drafters` the methods for which
    this model has a packaged drafter; `drafter` the one that the user gave, which the space has as a value
    and takes where none is named. `not_served` holds, by knob and value, why the engine can't serve it,
    `same` which value does what another one does, everywhere or, as a `SameBeside`, beside a value of another
    knob alone, where it stays in the space; `cores` how many the target has for us (None: not known).
    `stored_quantized` tells that the checkpoint's weights are quantized as they are stored, `packing` how,
    where kernels can be named for it; `max_positions` the most tokens of a sequence (None: not known); `gpu`
    what serves, with its engine and version (None: no GPU, or not known).
    """

    layer_types: tuple[str, ...]
    input_sizes: Mapping[str, int]
    mtp_layers: int
    most_draft_tokens: Mapping[str, int] = field(default_factory=lambda: MOST_DRAFT_TOKENS)
    packaged_drafters: frozenset[str] = frozenset()
    not_served: Mapping[tuple[str, KnobValue], str] = field(default_factory=dict)
    same: Mapping[tuple[str, KnobValue], Same] = field(default_factory=dict)
    cores: int | None = None
    drafter: OwnDrafter | None = None
    stored_quantized: bool = False
    packing: StoredPacking | None = None
    max_positions: int | None = None
    gpu: Gpu | None = None
    experts: ExpertSizes | None = None

    @classmethod
    def of(
        cls,
        profile: ModelProfile,
        *,
        packaged_drafters: frozenset[str] = frozenset(),
        not_served: Mapping[tuple[str, KnobValue], str] | None = None,
        same: Mapping[tuple[str, KnobValue], Same] | None = None,
        cores: int | None = None,
        most_draft_tokens: Mapping[str, int] | None = None,
        drafter: OwnDrafter | None = None,
        stored_quantized: bool = False,
        packing: StoredPacking | None = None,
        gpu: Gpu | None = None,
    ) -> ModelFacts:
        """The facts of a model's profile."""
        return cls(
            layer_types=profile.layer_types,
            input_sizes=_input_sizes(profile),
            mtp_layers=profile.mtp_layers,
            most_draft_tokens={**MOST_DRAFT_TOKENS, **(most_draft_tokens or {})},
            packaged_drafters=packaged_drafters,
            not_served=not_served or {},
            same=same or {},
            cores=cores,
            drafter=drafter,
            stored_quantized=stored_quantized,
            packing=packing,
            max_positions=profile.max_positions,
            gpu=gpu,
            experts=ExpertSizes.of(profile),
        )

    @property
    def has_experts(self) -> bool:
        """Whether it is a Mixture of Experts."""
        return self.experts is not None

    def removable(self, restrict: str) -> int:
        """How many layers of the kinds that `pruning.restrict` allows can go, one of each kind staying."""
        return sum(max(0, self.layer_types.count(kind) - 1) for kind in KINDS_OF[restrict])


def _input_sizes(profile: ModelProfile) -> dict[str, int]:
    experts = profile.experts
    mlps = {"mlp.down_proj": profile.intermediate}
    if experts is not None:
        mlps = {
            "mlp.experts.down_proj": experts.intermediate,
            "mlp.shared_expert.down_proj": profile.intermediate,
        }
    return {
        "the layers' first projections": profile.hidden,
        **mlps,
        "self_attn.o_proj": profile.attention_q_heads * profile.attention_head_dim,
        "linear_attn.out_proj": profile.gdn_v_heads * profile.gdn_v_head_dim,
    }


@dataclass(frozen=True)
class Withheld:
    """A value that is not offered, and why, in a sentence. `when_given` tells that it is legal all the same
    for a user who names what it lacks, or the value itself; `like` is a value that does the same (None: it is
    not for that): what was asked for under its name before is still read."""

    knob: str
    value: KnobValue
    why: str
    when_given: bool = False
    like: KnobValue | None = None

    @property
    def same(self) -> bool:
        """Whether it is because another value does the same."""
        return self.like is not None


def with_stored_kernels(space: Space, packing: StoredPacking | None) -> Space:
    """The space on a checkpoint of this packing: which kernels multiply its weights is a choice although
    nothing is quantized; of any other the space as it is."""
    if packing is None or not any(knob.name == LINEAR_BACKEND for knob in space.knobs):
        return space
    return space.without_condition(LINEAR_BACKEND, QUANTIZATION)


def legal_levers(space: Space, facts: ModelFacts) -> tuple[Space, tuple[Withheld, ...]]:
    """The space less what this model and engine never allow, and what went, in the space's order.

    A knob that would be left without a value takes the values with it under which it is active, and stays as
    it was, never active; of a dense model knobs of experts go altogether. Raises `UsageError` when nothing
    is left of a knob that is always active.
    """
    keeps = next((knob.values for knob in space.knobs if knob.name == KEEP), ())
    spared = frozenset[str]().union(*(SPARED.get(value, ()) for value in keeps))
    withheld = [
        each
        for each in _withheld(facts)
        if _has(space, each.knob, each.value)
        and not (
            (each.same or each.knob == MOE_BACKEND) and _never_fits(each.knob, each.value, facts, spared)
        )
    ]
    known = {(each.knob, each.value) for each in withheld}
    for knob in space.knobs:
        for value in knob.values:
            why = _never_fits(knob.name, value, facts, spared)
            if why is not None and (knob.name, value) not in known:
                withheld.append(Withheld(knob.name, value, why))
    while True:
        emptied = _emptied(space, withheld)
        if not emptied:
            break
        withheld += emptied
    gone: dict[str, list[KnobValue]] = {}
    held_back: dict[str, list[KnobValue]] = {}
    same: dict[str, list[Same]] = {}
    for each in withheld:
        if each.like is not None:
            same.setdefault(each.knob, []).append(Same(each.value, each.like, each.why))
            continue
        into = held_back if each.when_given else gone
        into.setdefault(each.knob, []).append(each.value)
    kept = {
        name: [value for value in space.knob(name).values if not is_among(value, values)]
        for name, values in gone.items()
    }
    kept = {name: left for name, left in kept.items() if left or space.knob(name).also is not None}
    place = {knob.name: number for number, knob in enumerate(space.knobs)}
    told = tuple(sorted(withheld, key=lambda each: place[each.knob]))
    found = space.restrict(kept).only_when_given(held_back).passing_over(same)
    for (name, _), each_same in facts.same.items():
        if isinstance(each_same, SameBeside):
            found = found.with_same_beside(name, each_same)
    for of_experts in same_beside_sixteen_bits(
        has_experts=facts.has_experts, stored_quantized=facts.stored_quantized
    ):
        found = found.with_same_beside(MOE_BACKEND, of_experts)
    if not facts.has_experts:
        found = found.without_experts()
    beside = never_ahead(facts.gpu)
    return found if beside is None else found.with_same_beside(AHEAD, beside), told


def joint_refusal(configuration: Mapping[str, KnobValue], facts: ModelFacts) -> str | None:
    """Why a legal configuration can't be on this model although each of its values can; None when it can."""
    count, restrict = configuration.get(LAYERS), str(configuration.get(RESTRICT, "any"))
    if isinstance(count, int) and restrict in KINDS_OF and count > facts.removable(restrict):
        return _too_many(count, restrict, facts)
    size, spared = configuration.get(GROUP_SIZE), SPARED.get(configuration.get(KEEP, ""), frozenset())
    if isinstance(size, int) and (undivided := _undivided(size, facts, spared)) is not None:
        return undivided
    method, drafter, own = configuration.get(DRAFTING), configuration.get(DRAFTER, PACKAGED), facts.drafter
    if own is not None and drafter == own.folder and method != own.method:
        return f"The drafter at {own.folder} is one for {own.method} and can't draft with {method}."
    if configuration.get(DRAFTER) == PACKAGED and method not in facts.packaged_drafters:
        return f"No drafter is packaged for {method} with this model; name one with {DRAFTER}=PATH."
    tokens, most = configuration.get(DRAFT_TOKENS), facts.most_draft_tokens.get(str(method))
    if drafter != PACKAGED:  # what a drafter drafts that is named by its folder alone is not known
        most = own.most_draft_tokens if own is not None and drafter == own.folder else None
    if most is not None and isinstance(tokens, int) and tokens > most:
        return f"{method} drafts at most {most} tokens a step here, and {tokens} were asked for."
    return (
        kernel_and_format_refused(configuration, facts.packing)
        or packed_experts_refused(configuration, facts.gpu, facts.experts, facts.packing)
        or decode_and_step_refused(configuration)
        or ahead_refused(configuration, facts.gpu)
        or whole_prompts_refused(configuration, facts.layer_types)
        or experts_format_refused(
            configuration, facts.gpu, stored_quantized=facts.stored_quantized, packing=facts.packing
        )
    )


def _withheld(facts: ModelFacts) -> Iterator[Withheld]:
    for (knob, value), why in facts.not_served.items():
        yield Withheld(knob, value, why)
    for (knob, value), same in facts.same.items():
        if (knob, value) not in facts.not_served and not isinstance(same, SameBeside):
            yield Withheld(knob, value, same.why, when_given=same.when_given, like=same.like)
    seen = set(facts.not_served)
    if not facts.mtp_layers and (DRAFTING, "mtp") not in seen:
        yield Withheld(DRAFTING, "mtp", "This checkpoint has no MTP head.")
    own = facts.drafter
    for method in EXTERNAL_DRAFTERS:
        if (DRAFTING, method) in seen or (own is not None and method == own.method):
            continue
        if method not in facts.packaged_drafters:
            why = f"No drafter is packaged for this model; it can be had with {DRAFTER}=PATH."
            yield Withheld(DRAFTING, method, why, when_given=True)
        elif own is not None:
            why = f"This campaign's drafter is one for {own.method}; it can be had with {DRAFTER}={PACKAGED}."
            yield Withheld(DRAFTING, method, why, when_given=True)
    if not facts.packaged_drafters:
        yield Withheld(DRAFTER, PACKAGED, "No drafter is packaged for this model.")
    elif own is not None:
        yield Withheld(DRAFTER, PACKAGED, f"This campaign drafts with {own.folder}.", when_given=True)


def _never_fits(knob: str, value: KnobValue, facts: ModelFacts, spared: frozenset[str]) -> str | None:
    """Why a value never fits this model or target: too large, does not divide, done already. What groups need
    not divide where another knob says so (`spared`) is no matter of one value."""
    if knob == RESTRICT and value in KINDS_OF and facts.removable(str(value)) < 1:
        return _too_many(1, str(value), facts)
    if knob == QUANTIZATION and value != UNQUANTIZED and facts.stored_quantized:
        return ALREADY_QUANTIZED
    if knob == WEIGHT_DTYPE and value != AS_STORED and facts.stored_quantized:
        return NOT_ROUNDED_AGAIN
    if knob == MOE_BACKEND and not facts.has_experts:
        return NO_EXPERTS
    if knob == LINEAR_BACKEND and facts.packing is not None:
        return stored_format_refused(value, facts.packing)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    if knob == THREADS and facts.cores is not None and value > facts.cores:
        return f"The target has {facts.cores} cores for us."
    if knob == MAX_MODEL_LEN and facts.max_positions is not None and value > facts.max_positions:
        return f"The model's sequences have {facts.max_positions} tokens at most."
    if knob == LAYERS and value > facts.removable("any"):
        return _too_many(value, "any", facts)
    if knob == GROUP_SIZE and not facts.stored_quantized:
        return _undivided(value, facts, spared)
    return None


def _undivided(group_size: int, facts: ModelFacts, spared: frozenset[str]) -> str | None:
    """The first projection whose inputs groups of this size do not divide, in a sentence that says what
    helps; those in `spared` are left as they are."""
    for name, inputs in facts.input_sizes.items():
        if name not in spared and inputs % group_size:
            told = f"Groups of {group_size} do not divide the {inputs} inputs of {name}"
            keep = next((value for value, names in SPARED.items() if name in names), None)
            return f"{told}." if keep is None else f"{told}; {KEEP}={keep} leaves it as it is."
    return None


def _too_many(count: int, restrict: str, facts: ModelFacts) -> str:
    present = ", ".join(f"{facts.layer_types.count(kind)} {kind}" for kind in KINDS_OF[restrict])
    layers = "1 layer" if count == 1 else f"{count} layers"
    return (
        f"{layers} can't be taken out: of those that may go ({present}) one of each kind must stay, "
        f"which leaves {facts.removable(restrict)}."
    )


def _has(space: Space, knob: str, value: KnobValue) -> bool:
    return any(each.name == knob and is_among(value, each.values) for each in space.knobs)


def _emptied(space: Space, withheld: list[Withheld]) -> list[Withheld]:
    """Values under which a knob is active that has none left; they go too."""
    found: list[Withheld] = []
    for knob in space.knobs:
        gone = [each.value for each in withheld if each.knob == knob.name]
        if knob.also is not None or not all(is_among(value, gone) for value in knob.values):
            continue
        reason = next(each.why for each in withheld if each.knob == knob.name)
        if not knob.when:
            raise UsageError(f"Nothing is left of the knob {knob.name}: {reason}", "Take another space.")
        other, values = knob.when[-1]
        for value in values:
            lost = [each.value for each in (*withheld, *found) if each.knob == other]
            if not is_among(value, lost) and _has(space, other, value):
                why = f"{other}={written(value)} needs {knob.name}, of which nothing is left: {reason}"
                found.append(Withheld(other, value, why))
    return found
