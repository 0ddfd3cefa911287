"""The proposers that look at the profile, the roofline, the neighbours and what was supported."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from agent.proposers.neighbours import NeighboursProposer, beside
from agent.proposers.port import Proposer
from agent.proposers.profile import ProfileProposer
from agent.proposers.recombination import RecombinationProposer
from agent.proposers.roofline import RooflineProposer
from experiments.measurement.judging import Outcome
from experiments.space.configuration import KnobValue
from tests.unit.agent import four_levers
from tests.unit.agent.campaigns import (
    BANDWIDTH_BYTES_PER_S,
    BASELINE,
    COMPILED,
    HALF,
    PROFILE,
    TPOT_MS,
    changed,
    pruned,
    trial,
    view,
)
from tests.unit.agent.proposers.conformance import ProposerConformance

ROOT = Path(__file__).parents[4]


class TestProfile(ProposerConformance):
    def proposer(self) -> Proposer:
        return ProfileProposer()


class TestRoofline(ProposerConformance):
    def proposer(self) -> Proposer:
        return RooflineProposer()


class TestNeighbours(ProposerConformance):
    def proposer(self) -> Proposer:
        return NeighboursProposer()


class TestRecombination(ProposerConformance):
    def proposer(self) -> Proposer:
        return RecombinationProposer()

    def speaks_first(self) -> bool:
        return False


def test_the_profile_speaks_of_time_and_the_roofline_of_bytes() -> None:
    told = four_levers.view(serves_packed=True)
    levers = {
        each.name: {d.lever for d in each.propose(told, 100)}
        for each in (ProfileProposer(), RooflineProposer())
    }
    assert levers == {"profile": {"compile", "pruning", "drafting"}, "roofline": {"dtype", "quantization"}}


def test_a_proposer_with_one_turn_spends_it_where_it_expects_most() -> None:
    everything = ProfileProposer().propose(view(), 100)
    [first] = ProfileProposer().propose(view(), 1)
    assert first.prediction.log_ratio_mean == min(each.prediction.log_ratio_mean for each in everything)


def test_the_roofline_says_how_much_of_the_step_its_bytes_are() -> None:
    told = replace(view(), bandwidth_bytes_per_s=BANDWIDTH_BYTES_PER_S)
    weight_bytes = sum(part.weight_bytes for part in PROFILE)
    floor_ms = 1e3 * weight_bytes / BANDWIDTH_BYTES_PER_S
    [draft, *_] = RooflineProposer().propose(told, 1)
    assert f"take {floor_ms:.2f} ms, {100 * floor_ms / TPOT_MS:.0f} % of it" in draft.rationale
    assert "At the 10 GB/s of this memory" in draft.rationale
    [unknown, *_] = RooflineProposer().propose(view(), 1)
    assert "GB/s of this memory" not in unknown.rationale


def test_the_roofline_bounds_what_quantized_weights_can_save() -> None:
    told = replace(four_levers.view(serves_packed=True), bandwidth_bytes_per_s=BANDWIDTH_BYTES_PER_S)
    drafts = [each for each in RooflineProposer().propose(told, 100) if each.lever == "quantization"]
    assert drafts
    assert all("fewer bytes, so bytes save" in each.rationale for each in drafts)


@pytest.mark.parametrize(
    ("values", "now", "found"),
    [
        ((1, 2, 4, 8), 4, (2, 8)),
        ((1, 2, 4), 1, (2,)),
        ((1, 2, 4), 3, (1, 2, 4)),
        (("a", "b", "c"), "b", ("a", "c")),
        ((False, True), True, (False,)),
    ],
)
def test_beside_a_number_are_the_next_two_and_beside_a_name_all_others(
    values: tuple[KnobValue, ...], now: KnobValue, found: tuple[KnobValue, ...]
) -> None:
    assert beside(values, now) == found


def test_neighbours_differ_in_one_knob_and_reach_every_lever_that_can_save_time() -> None:
    told = four_levers.view()
    drafts = NeighboursProposer().propose(told, 200)
    for each in drafts:
        changes = told.incumbent.changes_to(each.candidate)
        assert len([c for c in changes if None not in (c.before, c.after)]) == 1
    assert {each.lever for each in drafts} == set(told.space.levers) - {"quantization"}
    packed = NeighboursProposer().propose(four_levers.view(serves_packed=True), 200)
    assert {each.lever for each in packed} == set(told.space.levers)


def test_no_neighbour_leads_back_to_the_baseline() -> None:
    found = trial(COMPILED, Outcome.SUPPORTED, -0.4)
    drafts = NeighboursProposer().propose(view([found], incumbent=COMPILED, incumbent_hypothesis_id=1), 50)
    assert BASELINE not in [each.candidate for each in drafts]


def test_a_neighbour_tells_what_the_same_step_did_elsewhere() -> None:
    trials = [
        trial(HALF, Outcome.REFUTED, 0.1, hypothesis_id=1),
        trial(COMPILED, Outcome.SUPPORTED, -0.4, hypothesis_id=2),
    ]
    told = view(trials, incumbent=COMPILED, incumbent_hypothesis_id=2)
    both = changed({"serving.dtype": "bfloat16"}, COMPILED)
    [draft] = [each for each in NeighboursProposer().propose(told, 50) if each.candidate == both]
    assert "serving.dtype float32 → bfloat16, all else as it is." in draft.rationale
    assert "On another configuration H-001 measured +10.0 % of it." in draft.rationale


def test_recombination_speaks_once_something_was_supported_that_the_best_lacks() -> None:
    trials = [
        trial(COMPILED, Outcome.SUPPORTED, -0.4, hypothesis_id=1),
        trial(pruned(1), Outcome.SUPPORTED, -0.08, hypothesis_id=2),
    ]
    [draft] = RecombinationProposer().propose(view(trials, incumbent=COMPILED, incumbent_hypothesis_id=1), 5)
    assert draft.candidate == pruned(1, control=COMPILED)
    assert draft.parents == (1, 2)
    assert "H-002 was supported apart from the incumbent" in draft.rationale


def test_each_is_registered_under_its_own_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    registered = project["entry-points"]["autoinfer.proposers"]
    parts = {"carried", "recombination", "profile", "roofline", "neighbours"}
    assert set(registered) >= {*parts, "rules", "optuna"}
    for name, target in registered.items():
        module, _, made = target.partition(":")
        assert getattr(import_module(module), made)().name == name
