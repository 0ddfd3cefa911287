"""Another kernel of experts: what a profile says of it, and that none is told from another unmeasured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent.campaign.known.settling import settled
from agent.proposers.port import CampaignView, Draft, Trial
from agent.proposers.profile_rule import by_profile
from agent.proposers.rules import RulesProposer
from agent.replay.cells import is_knob, read_lines
from agent.replay.knobs import restricted, space_of
from agent.surrogate.beliefs import Beliefs
from agent.surrogate.kernel_parts import KernelParts, by_part
from agent.surrogate.lone_prompt import FirstTokenShares
from agent.surrogate.objective import of_first_token
from agent.surrogate.physics import Physics
from configs.models import load_model_profile
from experiments.engines.port import PartTime
from experiments.measurement.judging import Outcome
from experiments.measurement.plan import Margins
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.gpu import Gpu
from experiments.space.knob import written
from experiments.space.legality import ModelFacts, joint_refusal, legal_levers
from experiments.space.loading import load_space
from experiments.space.moe_backend_rules import MOE_BACKEND
from experiments.space.space import Space
from tests.unit.agent import campaigns

MIXTURE = load_model_profile("qwen3.5-35b-a3b")
FACTS = ModelFacts.of(MIXTURE, gpu=Gpu("9.0", version=(0, 33)))
SPACE, _ = legal_levers(load_space("vllm").of_experts(), FACTS)
BASELINE = SPACE.configuration({})
ROUNDED = SPACE.with_change(BASELINE, {"serving.weight_dtype": "fp8"})
BANDWIDTH = 4e12
STEP = (
    PartTime("experts", "experts", 1.0, 2_000_000_000, launches=120),
    PartTime("in_proj_qkvz", "gemm", 0.5, 1_500_000_000, launches=30),
    PartTime("lm_head", "lm_head", 0.3, 1_000_000_000, launches=1),
    PartTime("outside", "outside", 0.7, 0),
)
"""A made-up decode step: nothing measured one on a GPU yet."""
PHYSICS = Physics(
    baseline=BASELINE,
    tpot_ms=2.5,
    profile=STEP,
    bandwidth_bytes_per_s=BANDWIDTH,
    shape=MIXTURE,
    serves_packed=True,
)


def view(
    incumbent: Configuration = BASELINE, trials: tuple[Trial, ...] = (), space: Space = SPACE
) -> CampaignView:
    predict = Beliefs.learn(space, PHYSICS, trials, Margins()).predict
    return replace(
        campaigns.view(),
        space=space,
        baseline=BASELINE,
        incumbent=incumbent,
        trials=trials,
        taken=frozenset(each.candidate.digest for each in trials),
        profile=STEP,
        bandwidth_bytes_per_s=BANDWIDTH,
        serves_packed=True,
        predict=predict,
        predict_on=predict,
        refused=lambda each: joint_refusal(each, FACTS),
    )


def named(drafts: list[Draft], incumbent: Configuration) -> dict[KnobValue, Draft]:
    """The drafts that name a kernel of experts and nothing else, by its name."""
    return {
        each.candidate[MOE_BACKEND]: each
        for each in drafts
        if [change.knob for change in incumbent.changes_to(each.candidate)] == [MOE_BACKEND]
    }


@pytest.mark.parametrize(
    ("incumbent", "kernels"),
    [
        (BASELINE, {"batched_triton", "flashinfer_cutlass", "triton"}),
        (ROUNDED, {"marlin", "triton"}),
    ],
)
def test_every_kernel_that_the_format_has_is_proposed_for_what_experts_take(
    incumbent: Configuration, kernels: set[str]
) -> None:
    drafts = named(RulesProposer().propose(view(incumbent), 80), incumbent)
    assert set(drafts) == kernels
    for each in drafts.values():
        assert each.lever == "experts_kernel"
        assert "Experts take 40 % of the step and read at 50 % of the bandwidth: 0.50 ms" in each.rationale
    spread = {(each.prediction.log_ratio_mean, each.prediction.log_ratio_sd) for each in drafts.values()}
    assert len(spread) == 1, "no kernel is told from another"
    assert next(iter(spread))[0] == 0


def test_what_the_engine_chose_is_not_measured_again_under_its_name() -> None:
    runs = {"experts_kernel": {"backend": "TRITON", "class": "TritonExperts"}}
    drafts = RulesProposer().propose(replace(view(), incumbent_runs=runs), 80)
    assert set(named(drafts, BASELINE)) == {"batched_triton", "flashinfer_cutlass"}


def test_it_acts_on_experts_and_what_is_no_product_alone() -> None:
    parts = KernelParts.of(STEP, BANDWIDTH)
    assert parts is not None
    found: Mapping[str, object] | None = by_part(parts, "experts_kernel", {MOE_BACKEND: "triton"})
    assert found is not None
    assert set(found) == {"experts", "rest", "beside"}
    assert "experts" not in (by_part(parts, "kernel", {"serving.linear_backend": "marlin"}) or {})


def test_of_a_first_token_it_acts_on_what_experts_take_of_the_prompt() -> None:
    mean, little = of_first_token("experts_kernel", True, FirstTokenShares(0.3, 0.2, 0.1))
    assert mean == pytest.approx(0, abs=1e-9)
    _, more = of_first_token("experts_kernel", True, FirstTokenShares(0.3, 0.2, 0.4))
    _, same = of_first_token("experts_kernel", True, FirstTokenShares(0.1, 0.2, 0.1))
    assert same < 0.06
    assert little == pytest.approx(same, abs=0.01)
    assert more > 2 * little


def test_where_a_profile_does_not_tell_experts_apart_nothing_is_said_of_their_share() -> None:
    parts = KernelParts.of(STEP[1:], BANDWIDTH)
    assert parts is not None
    assert by_part(parts, "experts_kernel", {MOE_BACKEND: "triton"}) is None
    assert by_profile(replace(view(), profile=STEP[1:]), "experts_kernel") == []


def test_experts_that_were_packed_and_not_found_faster_are_proposed_on_each_other_kernel() -> None:
    space = load_space("vllm").of_experts()
    packed = space.with_change(BASELINE, {"quantization.method": "rtn", "quantization.group_size": 128})
    slow = replace(
        campaigns.trial(campaigns.COMPILED, Outcome.REFUTED, 0.02, hypothesis_id=1, se=0.005),
        control=BASELINE,
        candidate=packed,
        lever="quantization",
    )
    drafts = RulesProposer().propose(view(trials=(slow,), space=space), 200)
    found = {
        each.candidate[MOE_BACKEND]: each.rationale
        for each in drafts
        if each.candidate.get("quantization.method") == "rtn" and each.candidate[MOE_BACKEND] != "auto"
    }
    assert set(found) == {"humming", "marlin", "triton"}
    assert all("found it not faster with the experts' kernel auto" in why for why in found.values())


def test_a_table_of_such_a_model_is_one_of_the_packaged_space(tmp_path: Path) -> None:
    points = [SPACE.with_change(BASELINE, {MOE_BACKEND: kernel}) for kernel in ("auto", "triton")]
    rows = [",".join([*(written(value) for value in each.values()), "1.0"]) for each in points]
    path = tmp_path / "table.csv"
    path.write_text("\n".join([",".join([*BASELINE, "tpot_ms"]), *rows]) + "\n", encoding="utf-8")
    columns, lines = read_lines(path)
    name, space, found = space_of([each for each in columns if is_knob(each)], lines, None)
    assert (name, found) == ("vllm", points)
    assert restricted(space, found).size == len(points)


def test_a_stored_configuration_keeps_what_only_experts_have_and_no_other_gets_it() -> None:
    chosen = SPACE.with_change(BASELINE, {MOE_BACKEND: "triton"})
    assert settled(BASELINE, "vllm") == BASELINE
    assert settled(chosen, "vllm") == chosen
    dense = load_space("vllm").configuration({})
    assert settled(dense, "vllm") == dense
    assert MOE_BACKEND not in dense
