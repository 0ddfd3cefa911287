"""The follow-ups of a confounded test: one cause a step, over a corner that can be, or the reason why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.judge.confounding import Difference
from agent.proposers.separation import PROPOSER, Confounded, Corner, Separation, separate
from configs.catalog import Document
from configs.validation import parse_yaml
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space, space_of
from tests.recorded.vllm_kernels import SPACE as WRITTEN

SPACE = space_of(Document(parse_yaml(WRITTEN, "here"), "here"))
G32 = SPACE.configuration({"quantization.method": "awq", "quantization.group_size": 32})
G128 = SPACE.configuration({"quantization.method": "awq", "quantization.group_size": 128})
KERNELS = Difference("linear_kernel", "MarlinLinearKernel", "MacheteLinearKernel")
KNOB = "serving.linear_kernel"
REAL = load_space("vllm")


def nothing_known(control: Configuration, candidate: Configuration, metric: Metric) -> Prediction:
    return Prediction(log_ratio_mean=0.0, log_ratio_sd=0.1)


TRAP = Confounded(
    experiment="E-0007",
    hypothesis_id=4,
    claim="Groups of 128 make a token at least 3 % faster than groups of 32.",
    control=G32,
    candidate=G128,
    metric=Metric.TPOT_MS,
    min_effect=0.03,
    prediction=Prediction(log_ratio_mean=-0.02, log_ratio_sd=0.05),
    effect_log=0.17,
    differences=(KERNELS,),
)


def test_another_kernel_of_experts_is_a_cause_that_its_knob_fixes_with_what_follows_from_it() -> None:
    space = REAL.of_experts()
    packed = space.configuration({"quantization.method": "rtn", "quantization.group_size": 128})
    differences = (
        Difference("experts_kernel.backend", "HUMMING", "MARLIN"),
        Difference("experts_kernel.class", "HummingIndexedExperts", "MarlinExperts"),
    )
    trap = replace(
        TRAP,
        control=packed,
        candidate=space.with_change(packed, {"quantization.symmetric": False}),
        differences=differences,
    )
    found = separate(space, trap, nothing_known)
    assert found.why_not == ""
    arms = [tuple(str(arm["serving.moe_backend"]) for arm in (d.control, d.candidate)) for d in found.drafts]
    assert arms == [("humming", "humming"), ("marlin", "humming")]


def on(configuration: Configuration, kernel: str) -> Configuration:
    return SPACE.with_change(configuration, {KNOB: kernel})


def in_real(found: Confounded) -> Confounded:
    """The same test in the packaged space of vLLM."""
    control, candidate = (
        REAL.with_change(
            REAL.configuration({}), {"quantization.method": "awq", "quantization.group_size": size}
        )
        for size in (32, 128)
    )
    return replace(found, control=control, candidate=candidate)


def arms(found: Separation) -> list[tuple[Configuration, Configuration]]:
    return [(each.control, each.candidate) for each in found.drafts]


def test_the_claim_is_tested_on_one_kernel_and_the_kernel_alone_at_one_group_size() -> None:
    found = separate(SPACE, TRAP, nothing_known)
    assert found.corner is Corner.AS_CONTROL
    assert arms(found) == [
        (on(G32, "marlin"), on(G128, "marlin")),
        (on(G128, "machete"), on(G128, "marlin")),
    ]


def test_each_follow_up_says_what_it_separates_and_follows_from_the_confounded_hypothesis() -> None:
    for draft in separate(SPACE, TRAP, nothing_known).drafts:
        assert draft.proposer == PROPOSER
        assert draft.parents == (4,)
        assert draft.rationale.startswith("Separates the causes of E-0007, in which linear_kernel is Marlin")
        assert (draft.metric, draft.min_effect) == (Metric.TPOT_MS, 0.03)
    claim, kernel = separate(SPACE, TRAP, nothing_known).drafts
    assert claim.claim.endswith("with serving.linear_kernel at marlin in both arms.")
    assert kernel.claim.startswith("Changing serving.linear_kernel machete → marlin makes a token")
    assert (claim.lever, kernel.lever) == ("quantization", "kernel")


def test_the_kernel_alone_is_claimed_in_the_direction_that_the_measurement_speaks_for() -> None:
    faster = separate(SPACE, replace(TRAP, effect_log=-0.3), nothing_known)
    assert arms(faster)[1] == (on(G128, "marlin"), on(G128, "machete"))


def refuse_32_on_machete(configuration: Configuration) -> str | None:
    taken = dict(configuration)
    if (taken.get("quantization.group_size"), taken.get(KNOB)) == (32, "machete"):
        return "Machete has no groups of 32."
    return None


def test_where_one_corner_can_not_be_the_way_goes_over_the_other() -> None:
    turned = replace(
        TRAP,
        control=G128,
        candidate=G32,
        differences=(Difference("linear_kernel", KERNELS.candidate, KERNELS.control),),
    )
    found = separate(SPACE, turned, nothing_known, refused=refuse_32_on_machete)
    assert found.corner is Corner.AS_CANDIDATE
    assert arms(found)[0] == (on(G128, "marlin"), on(G32, "marlin"))
    assert set(arms(found)[1]) == {on(G128, "machete"), on(G128, "marlin")}
    stuck = separate(SPACE, turned, nothing_known, refused=lambda _: "It can't be.")
    assert (stuck.drafts, stuck.why_not) == ((), "It can't be")


def test_a_corner_that_was_tried_is_not_taken_again() -> None:
    assert separate(SPACE, TRAP, nothing_known, without=[Corner.AS_CONTROL]).corner is Corner.AS_CANDIDATE
    assert not separate(SPACE, TRAP, nothing_known, without=list(Corner)).drafts


def test_what_follows_from_the_kernel_does_not_stand_against_fixing_it() -> None:
    types = Difference("weights.dtype", "bfloat16, int32, int64", "bfloat16, int32")
    differing = replace(TRAP, differences=(types, KERNELS))
    assert (
        arms(separate(REAL, in_real(differing), nothing_known))[0]
        == arms(separate(REAL, in_real(TRAP), nothing_known))[0]
    )
    alone = separate(REAL, in_real(replace(TRAP, differences=(types,))), nothing_known)
    assert "no knob of this space fixes weights.dtype" in alone.why_not


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"differences": (Difference("versions.torch", "2.11", "2.12"),)}, "no knob of this space fixes ver"),
        (
            {"differences": (KERNELS, Difference("gpu.sm_mhz", "1980", "1755"))},
            "no knob of this space fixes g",
        ),
        (
            {"differences": (Difference("linear_kernel", "Exllama", "MacheteLinearKernel"),)},
            "has no value for Exllama",
        ),
        ({"differences": (Difference("linear_kernel", "not told", "Machete"),)}, "no value for not told"),
        ({"control": SPACE.configuration({})}, "means nothing in both arms"),
        ({"control": on(G32, "marlin"), "candidate": on(G128, "marlin")}, "is marlin in both arms already"),
        ({"differences": ()}, "nothing that both arms told differs"),
    ],
)
def test_what_no_knob_can_fix_is_said(change: dict[str, object], words: str) -> None:
    found = separate(SPACE, replace(TRAP, **change), nothing_known)  # type: ignore[arg-type]
    assert found.drafts == ()
    assert words in found.why_not


TWO = (
    WRITTEN
    + """
  - name: serving.attention
    lever: attention
    values: [auto, flash, triton]
    default: auto
    pins: {attention.backend: {flash: FLASH, triton: TRITON}}
    help: What computes attention.
"""
)


def test_two_causes_beside_the_claim_are_taken_apart_one_a_step() -> None:
    space = space_of(Document(parse_yaml(TWO, "here"), "here"))
    control, candidate = space.configuration(G32), space.configuration(G128)
    found = separate(
        space,
        replace(
            TRAP,
            control=control,
            candidate=candidate,
            differences=(Difference("attention.backend", "FLASH", "TRITON"), KERNELS),
        ),
        nothing_known,
    )
    assert len(found.drafts) == 3
    steps = [{change.knob for change in draft.control.changes_to(draft.candidate)} for draft in found.drafts]
    assert steps == [{"quantization.group_size"}, {"serving.attention"}, {KNOB}]
    reached = {arm for pair in arms(found) for arm in pair}
    assert space.with_change(candidate, {KNOB: "machete", "serving.attention": "triton"}) in reached
