"""What a campaign may ask for on its ground.

The space less what model, engine and target never allow, and why some of the rest cannot be all the same:
joint conditions, the parameter budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.ground.drafter import drafter_of
from agent.ground.positions import space_on
from agent.ground.shape import same_shape, without_meaning
from agent.proposers.port import nothing_refused
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.models import ModelProfile
from configs.targets import devices_of, is_rented
from experiments.drafters.dflash.config import read_shape
from experiments.drafters.dflash.shape import DFlashShape
from experiments.drafters.packaged import packaged_drafter_path
from experiments.engines.hybrid_cache import DrafterLayers
from experiments.engines.port import Infeasible
from experiments.engines.reference.drafting.order import (
    DraftingOrder,
    check_drafter,
    drafter_folder,
    drafter_layers,
    layers_of,
)
from experiments.engines.reference.inspection import CheckpointFiles, inspect_checkpoint
from experiments.engines.reference.packed_layout import packing_of, stored_quantized, unread_layout
from experiments.engines.reference.shape import read_profile
from experiments.engines.reference.stored_parameters import stored_parameters
from experiments.engines.reference.stored_weights import as_stored
from experiments.job.named import unknown_values, unsure_values, version_number_on
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Workload
from experiments.reference_model.load import CheckpointMissing, reference_model_path
from experiments.shapes.marker import drafter_of_shape, is_shape
from experiments.space.budget import BASELINE, ParameterBudget, with_pruning_that_pays
from experiments.space.budget import METHOD as PRUNING
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu import Gpu
from experiments.space.gpu_rules import not_known_on, not_served_by, same_on
from experiments.space.knob import Same, same_value, written
from experiments.space.legality import (
    DRAFTER,
    DRAFTING,
    EXTERNAL_DRAFTERS,
    LAYERS,
    PACKAGED,
    ModelFacts,
    Withheld,
    joint_refusal,
    legal_levers,
)
from experiments.space.prompt_graph_rules import same_graphs
from experiments.space.space import Space
from experiments.space.stored_packing import StoredPacking
from experiments.space.workload_rules import not_served_at, same_at
from experiments.space.writing_rules import writing_refused

UNPRUNED = "none"
"""The value of `pruning.method` that leaves all layers."""

PACKAGED_METHOD = "dflash"
"""The drafting method for which a drafter is packaged with the reference model, and which a shape brings."""


@dataclass(frozen=True)
class Legal:
    """`refused` says in a sentence why a configuration of `space` can't be all the same, None when it can;
    `withheld` what was taken out of the space, each value with its reason; `profile` is the model's shape.
    `unsure` has, by knob and value, why it is not known whether the engine takes a value on the target: such
    a value stays in the space. `packing` is that of weights that are packed as they are stored."""

    space: Space
    withheld: tuple[Withheld, ...] = ()
    refused: Callable[[Configuration], str | None] = nothing_refused
    profile: ModelProfile | None = None
    unsure: Mapping[tuple[str, KnobValue], str] = field(default_factory=dict)
    packing: StoredPacking | None = None

    def why_not(self, knobs: Mapping[str, KnobValue]) -> str | None:
        """Why one of these values is not offered here; None where nothing is known against them."""
        return self._first_reason(
            knobs, [each for each in self.withheld if not (each.same and each.when_given)]
        )

    def why_same(self, knobs: Mapping[str, KnobValue]) -> str | None:
        """That one of these values does here what another value does; None where none of them does."""
        return self._first_reason(knobs, [each for each in self.withheld if each.same])

    def why_never(self, knobs: Mapping[str, KnobValue]) -> str | None:
        """Why one of these values can't be here, whatever stands beside it; None where each of them can."""
        return self._first_reason(knobs, [each for each in self.withheld if not each.when_given])

    def why_not_admitted(self, configuration: Configuration) -> str | None:
        """Why the space does not admit a configuration: a value that can't be here, by its knob, or a knob
        that means nothing beside the others; None where it does."""
        never = (each for each in self.withheld if not each.when_given)
        gone = next((each for each in never if same_value(configuration.get(each.knob), each.value)), None)
        if gone is not None:
            return f"{gone.knob}={written(gone.value)}: {gone.why}"
        try:
            self.space.configuration(configuration)
        except UsageError as error:
            return error.message
        return None

    def over_budget(self, parameter_budget: int | str | None) -> str | None:
        """That the baseline is above the campaign's parameter budget, and what to do, in a sentence; None
        where it is not."""
        whole = self.space.configuration({})
        if self.profile is None or not isinstance(parameter_budget, int) or self.refused(whole) is None:
            return None
        has = self.profile.text_parameters + self.profile.mtp_parameters
        told = (
            f"The baseline has {has:,} parameters, more than the parameter budget of {parameter_budget:,}: "
            "it is measured to compare with, and "
        )
        paid = with_pruning_that_pays(self.space, self.refused, whole)
        counts = [count for each in paid if isinstance(count := each.get(LAYERS), int)]
        if not counts:
            return (
                f"{told}no pruning in this space takes enough out of it, so nothing is proposed; allow more, "
                f"or write parameter_budget: {BASELINE} for the whole model."
            )
        layers = "1 layer" if min(counts) == 1 else f"{min(counts)} layers"
        return (
            f"{told}nothing is proposed that does not take out {layers} at least; write parameter_budget: "
            f"{BASELINE} to leave the model whole."
        )

    @staticmethod
    def _first_reason(knobs: Mapping[str, KnobValue], withheld: Iterable[Withheld]) -> str | None:
        found = (each for each in withheld if each.knob in knobs and knobs[each.knob] == each.value)
        return next((each.why for each in found), None)


def legal_here(
    spec: CampaignSpec,
    checkpoint: Path,
    cores: int,
    gpu: Gpu | None = None,
) -> Legal:
    """What this campaign may ask for with this checkpoint on a target with so many cores, and, where it is
    this GPU, with what the engine's kernels serve there.

    Raises `UsageError` for a space of
    which nothing is left, for a parameter budget that no target meets and for a drafter of the campaign's
    that is none, `AutoinferError` for a checkpoint that can't be read.
    """
    profile, files = read_profile(checkpoint), _inspected(checkpoint)
    if files is not None:
        profile = as_stored(profile, files)
    packing = None if files is None else packing_of(files)
    space = space_on(spec, profile, packing)
    packaged = packaged_drafter(checkpoint)
    unread = None if files is None else unread_layout(files.quantization)
    facts = ModelFacts.of(
        profile,
        packaged_drafters=packaged_methods(packaged),
        not_served={**not_served_on(spec, space, profile, gpu), **not_pruned(space, unread)},
        same=same_for(spec, space, profile, gpu),
        cores=cores,
        most_draft_tokens=most_packaged(packaged),
        drafter=drafter_of(spec),
        stored_quantized=files is not None and stored_quantized(files),
        packing=packing,
        gpu=gpu,
    )
    space, withheld = legal_levers(space, facts)
    budget = (
        None
        if spec.parameter_budget is None
        else ParameterBudget.of(profile, spec.parameter_budget, drafter_parameters={})
    )

    writing = writing_memory(spec, gpu)

    def refused(configuration: Configuration) -> str | None:
        reason = joint_refusal(configuration, facts) or writing_refused(configuration, profile, writing)
        if reason is not None or budget is None:
            return reason
        known = drafter_parameters(configuration, packaged)
        reason = replace(budget, drafter_parameters=known).refusal(configuration)
        return reason if known or reason is None else _no_drafter(configuration, checkpoint) or reason

    return Legal(space, withheld, refused, profile, unsure_on(spec, space, profile, gpu), packing)


def gpu_known(
    spec: CampaignSpec,
    compute_capability: str | None,
    memory_bytes: int | None = None,
    name: str | None = None,
    told_step_tokens: int | None = None,
) -> Gpu | None:
    """The GPU of this compute capability as the campaign's engine serves on it on its own target; None where
    that is not known. All else as of `Gpu`."""
    if compute_capability is None:
        return None
    gpu = gpu_served(spec, compute_capability)
    return replace(gpu, memory_bytes=memory_bytes, name=name, told_step_tokens=told_step_tokens)


def gpu_served(spec: CampaignSpec, compute_capability: str | None, target: str | None = None) -> Gpu:
    """A GPU as the campaign's engine serves on it, on the campaign's own target or another one. Which version
    serves on a rented one is not known."""
    where = target or spec.target
    version = None if is_rented(where) else version_number_on(spec.engine, devices_of(where)[0])
    return Gpu(compute_capability, spec.engine, version)


def unsure_on(
    spec: CampaignSpec, space: Space, profile: ModelProfile, gpu: Gpu | None
) -> Mapping[tuple[str, KnobValue], str]:
    """Of which values of the space it is not known whether the campaign's engine takes them on its target,
    and why; of a rented one nothing is said but of its GPU."""
    of_gpu = {} if gpu is None else not_known_on(space, profile, gpu)
    of_device = (
        {} if is_rented(spec.target) else unsure_values(spec.engine, space, devices_of(spec.target)[0])
    )
    return {**of_device, **of_gpu}


def not_served_on(
    spec: CampaignSpec, space: Space, profile: ModelProfile, gpu: Gpu | None
) -> dict[tuple[str, KnobValue], str]:
    """Why values of the space can't serve the campaign's requests, mean nothing on made-up weights, are not
    known to the engine's version on this machine, or not taken on its device or GPU, by knob and value."""
    workload = Workload.model_validate(spec.plan.workload.model_dump())
    found = dict(not_served_at(space, workload.concurrency, workload.context_tokens))
    if not is_rented(spec.target):  # which version serves there is not known
        found |= unknown_values(spec.engine, space, devices_of(spec.target)[0], profile)
    if gpu is not None:
        found |= not_served_by(space, profile, gpu)
    return {**without_meaning(space, profile), **found} if spec.latency_only else found


def same_for(
    spec: CampaignSpec, space: Space, profile: ModelProfile, gpu: Gpu | None
) -> dict[tuple[str, KnobValue], Same]:
    """Which values of the space do what others do, at the campaign's requests, on its GPU or on made-up
    weights, by knob and value."""
    workload = Workload.model_validate(spec.plan.workload.model_dump())
    auto_tokens = None if gpu is None else gpu.step_tokens
    here = same_at(space, workload.concurrency, workload.prompt_tokens, auto_tokens)
    here |= same_graphs(
        space,
        workload.concurrency,
        workload.prompt_tokens,
        first_tokens=spec.plan.metric in (Metric.TTFT_MS, Metric.E2EL_MS),
    )
    if spec.latency_only:
        here |= same_shape(space)
    return here if gpu is None else {**here, **same_on(space, profile, gpu)}


def writing_memory(spec: CampaignSpec, gpu: Gpu | None) -> int | None:
    """Bytes of the GPU in which a model may write its calibration text; None where they are not known."""
    if gpu is None or gpu.memory_bytes is None:
        return None
    return gpu.memory_bytes if spec.memory is None else min(gpu.memory_bytes, spec.memory)


def _inspected(checkpoint: Path) -> CheckpointFiles | None:
    """The checkpoint's files; None for what no engine of ours can load anyway."""
    try:
        return inspect_checkpoint(checkpoint)
    except Infeasible:
        return None


def not_pruned(space: Space, unread: str | None) -> dict[tuple[str, KnobValue], str]:
    """Why no layers can be taken out of a checkpoint whose layout is not read here, by knob and value; empty
    of any other."""
    knob = next((each for each in space.knobs if each.name == PRUNING), None)
    if unread is None or knob is None:
        return {}
    why = f"The checkpoint is {unread}, which no stage reads, so no layer is taken out of it."
    return {(PRUNING, value): why for value in knob.values if value != UNPRUNED}


def packaged_drafter(checkpoint: Path) -> DFlashShape | None:
    """The drafter that is packaged for this checkpoint: one was trained for the packaged model, and a shape
    brings one; None of any other."""
    try:
        if not is_shape(checkpoint) and reference_model_path().resolve() != checkpoint.resolve():
            return None
        folder = drafter_of_shape(checkpoint) if is_shape(checkpoint) else packaged_drafter_path()
    except CheckpointMissing:
        return None
    return None if folder is None else read_shape(folder, built_here=False)


def packaged_methods(drafter: DFlashShape | None) -> frozenset[str]:
    """The methods for which a drafter is packaged, by what `packaged_drafter` found."""
    return frozenset() if drafter is None else frozenset({PACKAGED_METHOD})


def most_packaged(drafter: DFlashShape | None) -> dict[str, int] | None:
    """The most tokens a step that the packaged drafter drafts, by the methods that it is packaged for; None
    where there is none."""
    return None if drafter is None else {PACKAGED_METHOD: drafter.block_tokens - 1}


def _no_drafter(configuration: Configuration, checkpoint: Path) -> str | None:
    """Why what is to draft is no drafter of this checkpoint; None where it is one, or none is asked for."""
    method, drafter = str(configuration.get(DRAFTING, "none")), str(configuration.get(DRAFTER, PACKAGED))
    if method not in EXTERNAL_DRAFTERS:
        return None
    try:
        check_drafter(DraftingOrder(method, 1, drafter), inspect_checkpoint(checkpoint), built_here=False)
    except Infeasible as reason:
        return reason.cause
    return None


def drafter_cache(configuration: Configuration, packaged: DFlashShape | None = None) -> DrafterLayers | None:
    """The layers of the configuration's external drafter that keep a cache; None where they are not known.
    `packaged` is the drafter that is packaged for the model, where there is one."""
    method, drafter = str(configuration.get(DRAFTING, "none")), str(configuration.get(DRAFTER, PACKAGED))
    if packaged is not None and (method, drafter) == (PACKAGED_METHOD, PACKAGED):
        return layers_of(packaged)
    try:
        return drafter_layers(DraftingOrder(method, drafter=drafter))
    except Infeasible:  # this installation came without it, or it is not there
        return None


def drafter_parameters(
    configuration: Configuration, packaged: DFlashShape | None = None
) -> dict[tuple[str, str], int]:
    """The parameters of the configuration's external drafter, by method and drafter; empty if not known.
    `packaged` is the drafter that is packaged for the model, where there is one.

    What drafts is loaded without an MTP head of its own. What `packaged` stands for is the engine's: for a
    draft model the reference model itself.
    """
    method, drafter = str(configuration.get(DRAFTING, "none")), str(configuration.get(DRAFTER, PACKAGED))
    if method not in EXTERNAL_DRAFTERS:
        return {}
    if packaged is not None and (method, drafter) == (PACKAGED_METHOD, PACKAGED):
        return {(method, drafter): packaged.parameters}
    try:
        folder = drafter_folder(DraftingOrder(method, drafter=drafter))
    except Infeasible:  # this installation came without it
        return {}
    found = stored_parameters(folder)
    return {} if found is None else {(method, drafter): found.parameters}
