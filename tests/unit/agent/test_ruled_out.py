"""What a finding rules out is not tested again where nothing differs; else what differs is named."""

from __future__ import annotations

from dataclasses import replace

from agent.campaign.known.ruled_out import Differing, RuledOut, asked_again, differs_from, rules_out
from configs.campaign import load_campaign
from db.models import Campaign
from experiments.space.configuration import Change, Configuration
from tests.unit.agent.campaigns import BASELINE, COMPILED, SPACE

BUSIER = (Differing("1 request at once", "16 requests at once"),)


def finding(
    *differs: Differing, control: Configuration = BASELINE, ours: bool = True, label: str = "F-012"
) -> RuledOut:
    changes: frozenset[Change] = frozenset(control.changes_to(COMPILED))
    return RuledOut(label, "does not help", changes, control, differs, ours)


def test_what_was_refuted_in_this_very_scope_is_ruled_out() -> None:
    assert rules_out([finding()], BASELINE, COMPILED, 0.9) == finding()


def test_where_the_scope_differs_it_is_asked_again_and_the_difference_named() -> None:
    found = [finding(*BUSIER)]
    assert rules_out(found, BASELINE, COMPILED, 0.9) is None
    said = asked_again(found, BASELINE, COMPILED, 0.9)
    assert said == (
        "F-012 says that it does not help with 1 request at once; asked again since here it is 16 "
        "requests at once"
    )


def test_knobs_of_another_control_are_named_on_both_sides() -> None:
    control = SPACE.with_change(BASELINE, {"serving.dtype": "bfloat16"})
    said = asked_again([finding()], control, SPACE.with_change(control, {"serving.compile": "default"}), 0.9)
    assert said == (
        f"F-012 says that it does not help with serving.dtype {BASELINE['serving.dtype']}; asked again since "
        "here it is serving.dtype bfloat16"
    )


def test_the_finding_of_the_nearest_scope_is_the_one_that_counts() -> None:
    far = finding(*BUSIER, Differing("the model other", "reference"), label="F-001")
    assert asked_again([far, finding(*BUSIER)], BASELINE, COMPILED, 0.9).startswith("F-012")


def test_what_another_database_told_rules_nothing_out() -> None:
    found = [finding(ours=False)]
    assert rules_out(found, BASELINE, COMPILED, 0.9) is None
    assert "another database" in asked_again(found, BASELINE, COMPILED, 0.9)


def test_what_foretold_badly_here_rules_nothing_out_either() -> None:
    assert rules_out([finding()], BASELINE, COMPILED, 0.2) is None
    assert "counts 20 %" in asked_again([finding()], BASELINE, COMPILED, 0.2)


def test_what_the_user_wrote_down_is_ruled_out_however_badly_others_foretold() -> None:
    told = replace(finding(), told=True)
    assert rules_out([told], BASELINE, COMPILED, 0.2) == told


def test_another_change_is_none_of_its_business() -> None:
    assert asked_again([finding()], COMPILED, BASELINE, 0.9) == ""
    assert rules_out([finding()], COMPILED, BASELINE, 0.9) is None


def test_what_was_found_in_the_engine_s_process_differs_from_what_is_asked_over_http() -> None:
    spec = load_campaign("shape")
    campaign = Campaign(model="shape", model_fingerprint="f", target="cuda:0")
    load = spec.plan.workload
    workload = {name: getattr(load, name) for name in ("concurrency", "prompt_tokens", "new_tokens")}
    told = {"model_fingerprint": "f", "target": "cuda:0", "workload": workload}
    [found] = differs_from(told, campaign, spec)
    assert (found.there, found.here) == (
        "asked in the engine's process",
        "asked over the engine's HTTP server",
    )
    assert differs_from({**told, "workload": {**workload, "asked_over": "http"}}, campaign, spec) == ()
