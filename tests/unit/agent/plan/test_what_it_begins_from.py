"""Where the engine's default does not fit, a campaign begins from the least change of the model that does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from agent.campaign.baseline_attempts import Attempts, baseline_attempts
from agent.campaign.beginning.create import create_campaign, interrupted
from agent.campaign.beginning.survey import survey
from agent.campaign.fewer_bits import begin_from_fewer_bits
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.stored_ground import read_legal, stored_ground
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.dispatch import dispatch_baseline
from agent.ground.sweep import swept
from agent.plan.card import Card, card_asked
from agent.plan.levers import Standing
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from agent.plan.start import Start, figures, first_served
from agent.plan.starting import check_start
from agent.surrogate.weight_bytes import step_weight_bytes
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError
from configs.models import load_model_profile
from db import events
from db.event_kinds import EventKind
from db.models import Campaign, Experiment, Job
from db.session import Database
from db.states import ExperimentState
from experiments.space.configuration import KnobValue
from experiments.space.loading import load_space
from tests.unit.agent.test_questions import database

__all__ = ["database"]  # the fixture

SIZES = ("0.8b", "2b", "4b", "9b", "27b")
PLANS = settings().max_examples // 5
"""Pairs of plans, each of which takes a second: as many in `make bench` as a property has in the suite."""

SMALL = "555MB"
"""Room for a launch of the packaged model in bfloat16, and not in float32."""


LEAST_SERVED = "quantization.method=awq, serving.max_model_len=2048, serving.max_sequences=1"


def plan(size: str, card_gb: float, **more: object) -> Plan:
    spec = load_campaign(
        "default", {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": [], **more}
    )
    return make_plan(spec, find_model(f"qwen3.5-{size}"), card_asked(f"{card_gb:g}GB"))


def begun(size: str, card_gb: float, **more: object) -> Start:
    return plan(size, card_gb, **more).start


@pytest.mark.parametrize(
    ("size", "card_gb", "words"),
    [
        ("0.8b", 8, ""),
        ("2b", 8, "serving.max_sequences=1"),
        ("4b", 16, ""),
        ("9b", 24, "serving.max_sequences=1"),
        ("4b", 12, "quantization.bits=8, quantization.method=awq"),
        ("9b", 16, f"quantization.bits=8, quantization.group_size=64, {LEAST_SERVED}"),
        ("4b", 8, "quantization.method=awq, serving.max_sequences=1"),
        ("9b", 12, f"quantization.group_size=128, {LEAST_SERVED}"),
        ("27b", 24, f"quantization.group_size=128, {LEAST_SERVED}"),
    ],
)
def test_what_serves_a_model_is_changed_before_the_model_and_eight_bits_come_before_four(
    size: str, card_gb: float, words: str
) -> None:
    found = begun(size, card_gb)
    assert (found.words, found.fits) == (words, True)
    assert found.is_default == (not words) == (found.told is None)


def test_longer_documents_that_are_scored_take_room_and_made_up_weights_score_none() -> None:
    long = {"plan.workload.evaluation_tokens_per_document": 2048}
    assert begun("4b", 16).is_default
    assert begun("4b", 16, **long).words.startswith("quantization.bits=8")
    assert begun("4b", 16, **long, weights="dummy", model="qwen3.5-4b").is_default


def test_a_model_that_is_not_changed_is_said_to_be_the_same() -> None:
    assert str(begun("9b", 24).told).endswith("It is the same model.")
    assert "what it lost against the default is not measured" in str(begun("9b", 16).told)
    made_up = begun("9b", 16, weights="dummy", model="qwen3.5-9b")
    assert "Quality" not in str(made_up.told)


@settings(max_examples=PLANS)
@given(st.sampled_from(SIZES), st.floats(4, 32), st.floats(0, 16))
def test_what_it_begins_from_fits_and_more_memory_never_keeps_fewer_bits(
    size: str, card_gb: float, more_gb: float
) -> None:
    small, large = (plan(size, round(each, 2)) for each in (card_gb, card_gb + more_gb))
    assert small.memory.rooms[0].fits == small.start.fits
    if small.start.fits:
        assert large.start.fits
        profile = load_model_profile(f"qwen3.5-{size}")
        kept = [step_weight_bytes(profile, each.start.configuration).mean for each in (small, large)]
        assert kept[0] <= kept[1]


def test_a_head_that_is_tied_is_not_quantized_for_the_copy_that_it_would_be() -> None:
    """The copy makes the weights more bytes and fewer bits."""
    assert begun("4b", 12).configuration["quantization.lm_head"] == "high"


def test_where_nothing_fits_it_is_the_default_and_the_plan_says_what_is_missing() -> None:
    found = plan("27b", 8)
    assert (found.start.is_default, found.start.fits) == (True, False)
    assert "53.2 GB missing" in found.memory.sentences[0]
    assert found.start.told is not None
    assert re.search(r"begin from is .*groups of 128.* needs 19\.5 GB, and 7\.2 GB", found.start.told)
    refused = begun("9b", 8).told or ""
    assert refused.startswith("No campaign can begin here: the least it may begin from is quantization.")
    assert refused.endswith("it needs 9.2 GB, and 7.2 GB of a card of 8 GB may be taken, 2.0 GB too few.")


@given(st.integers(10**9, 10**11), st.integers(10**9, 10**11))
def test_what_is_needed_and_what_is_there_are_told_apart_where_they_differ(needed: int, usable: int) -> None:
    told = re.findall(r"[\d.]+ GB", figures(needed, usable))
    assert (told[0] == told[1]) == (needed == usable)
    assert figures(14_440_000_000, 14_400_000_000) == "it needs 14.44 GB, and 14.40 GB may be taken"


def test_the_user_has_the_word() -> None:
    assert begun("4b", 8, **{"baseline.start": "default"}).is_default
    knobs = {"quantization.method": "rtn", "quantization.bits": 8}
    named = begun("4b", 8, **{"baseline.start": knobs})
    assert {name: named.configuration[name] for name in knobs} == knobs
    with pytest.raises(UsageError, match=r"drafting\.drafter must be given"):
        begun("4b", 8, **{"baseline.start": {"drafting.method": "dflash"}})


def test_a_sweep_leaves_alone_what_the_campaign_begins_from() -> None:
    space = load_space("reference")
    start = space.configuration({"serving.dtype": "bfloat16"})
    found = swept(space, start, {"serving.dtype": ["float32", "bfloat16"], "serving.threads": [1, 2]})
    assert [each["serving.dtype"] for each in found] == ["bfloat16", "bfloat16"]
    whole = swept(space, None, {"serving.dtype": ["float32", "bfloat16"], "serving.threads": [1, 2]})
    assert len(whole) == 4


def of_little_memory(**more: object) -> CampaignSpec:
    return load_campaign("default", {"memory": SMALL, **more})


def test_a_campaign_of_little_memory_is_stored_dispatched_and_told_from_what_it_begins(
    database: Database,
) -> None:
    spec = of_little_memory()
    ground = survey(spec)
    with database.write() as session:
        campaign_id = create_campaign(session, spec, ground)
        facts = read_facts(session, campaign_id)
        legal = legal_of(facts)
        dispatch_baseline(session, facts, legal.space)
        job = session.scalars(select(Job.spec)).one()
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_STARTED])
        assert interrupted(session, spec, survey(spec)) == campaign_id
    assert job["naive"]["serving.dtype"] == "float32"
    assert {each["serving.dtype"] for each in job["sweep"]} == {"bfloat16"}
    assert job["naive_refused"].startswith("it does not fit: it needs 557 MB, and 555 MB of")
    assert "The campaign begins from serving.dtype=bfloat16 (547 MB)" in told.text
    wide = legal.space.configuration({"serving.dtype": "float32"})
    assert legal.refused(wide) == "By count it does not fit: it needs 557 MB, and 555 MB may be taken."
    assert legal.refused(facts.begins_from(legal.space)) is None


def test_what_is_legal_is_told_by_the_campaign_s_row_alone_as_by_all_that_is_known(
    database: Database,
) -> None:
    spec = of_little_memory()
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
        facts = read_facts(session, campaign_id)
        ground = stored_ground(session, session.get_one(Campaign, campaign_id))
        known, alone = legal_of(facts), read_legal(session, campaign_id)
    assert facts.start is not None
    assert all(getattr(facts, name) == value for name, value in vars(ground).items())
    assert (alone.space, alone.withheld) == (known.space, known.withheld)
    every = [alone.space.configuration({}), *alone.space.neighbours(alone.space.configuration({}))]
    said = [alone.refused(each) for each in every]
    assert said == [known.refused(each) for each in every]
    assert any(said)
    assert not all(said)


def test_a_campaign_without_room_for_anything_is_refused_with_what_is_missing() -> None:
    with pytest.raises(UsageError, match=r"it needs 547 MB, and 300 MB of .* 247 MB too few\. No") as refused:
        survey(of_little_memory(memory="300MB"))
    assert "Raise --memory" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("size", "bytes_of_card"), [("4b", 8 * 2**30), ("4b", 8 * 10**9), ("4b", 12 * 10**9)]
)
def test_what_it_begins_from_leaves_room_to_draft_before_room_for_more_sequences(
    size: str, bytes_of_card: int
) -> None:
    asked = {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": []}
    made = make_plan(
        load_campaign("default", asked), find_model(f"qwen3.5-{size}"), Card("a card", bytes_of_card)
    )
    standing = {(row.knob, row.value): row.standing for row in made.levers}
    assert made.start.fits
    assert standing["drafting.method", "mtp"] is Standing.YES


IN_USE = " are in use: end what uses them (autoinfer devices), and more may be taken."


def on_a_desktop(size: str, free_gb: float | None) -> Start:
    """What is begun from on a card of 8 GiB of which so much is free."""
    free_bytes = None if free_gb is None else round(free_gb * 10**9)
    card = Card("NVIDIA GeForce RTX 4060", 8 * 2**30, here=True, free_bytes=free_bytes)
    asked = {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": []}
    return make_plan(load_campaign("default", asked), find_model(f"qwen3.5-{size}"), card).start


@pytest.mark.parametrize(("free_gb", "told"), [(7.5, "1.1 GB of its 8.6 GB"), (8.4, None), (None, None)])
@pytest.mark.parametrize("size", ["4b", "9b"])
def test_where_a_desktop_holds_a_part_of_a_card_that_has_too_little_room_it_is_said(
    size: str, free_gb: float | None, told: str | None
) -> None:
    start = on_a_desktop(size, free_gb)
    assert start.told is not None
    assert start.fits is (size == "4b")
    assert start.told.endswith(IN_USE) is (told is not None)
    if told is not None:
        assert f". {told}{IN_USE}" in start.told
        assert start.then is None or str(start.then.told).endswith(IN_USE)
    if not start.fits:
        with pytest.raises(UsageError) as refused:
            check_start(load_campaign("default"), Card("a card", 8 * 2**30), start, None)
        assert refused.value.message.count("are in use") == (told is not None)


def test_what_a_desktop_holds_is_not_said_where_the_default_fits() -> None:
    assert on_a_desktop("0.8b", 7.5).told is None


def test_what_must_be_quantized_first_needs_something_that_quantizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOINFER_QUANTIZE_PYTHON", "/nowhere/python")
    knobs: dict[str, KnobValue] = {"quantization.method": "rtn"}
    with pytest.raises(UsageError, match=r"begin from quantization\.method=rtn, and that is quantized first"):
        survey(load_campaign("levers", {"baseline.start": knobs}))
    survey(load_campaign("levers", {"baseline.start": knobs}), worked_here=False)  # a worker of another host


def test_what_does_not_run_gives_way_to_fewer_bits_and_the_last_ends_the_campaign(database: Database) -> None:
    spec = load_campaign("default", {"engine": "vllm", "space": "vllm", "baseline.sweep": []})
    ground = replace(survey(load_campaign("default")), start=begun("4b", 12))
    with database.write() as session:
        campaign_id = create_campaign(session, spec, ground)

        def begins_with_bits() -> object:
            start = read_facts(session, campaign_id).start
            return None if start is None else start["quantization.bits"]

        def fails(kind: str) -> Attempts:
            facts = read_facts(session, campaign_id)
            number = dispatch_baseline(session, facts, load_space("vllm"))
            failed = session.get_one(Experiment, number)
            failed.state, failed.failure, failed.failure_kind = ExperimentState.FAILED, "No kernel.", kind
            session.flush()
            return baseline_attempts(session, campaign_id, number)

        assert begins_with_bits() == 8
        tried = fails("unsupported")
        assert tried.is_last
        assert begin_from_fewer_bits(session, campaign_id, tried.kind, tried.cause)
        assert begins_with_bits() == 4
        assert baseline_attempts(session, campaign_id, None).count == 0
        assert not fails("lost").is_last, "what was taken away is tried once more, as ever"
        tried = fails("out_of_memory")
        assert tried.is_last
        assert not begin_from_fewer_bits(session, campaign_id, tried.kind, tried.cause)
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_BEGINS_FROM])
    assert told.text.startswith("quantization.bits=8, quantization.method=awq does not run: No kernel. The ")
    assert "begins from quantization.method=awq (" in told.text


@pytest.mark.parametrize(
    ("kind", "tries"), [("crashed", 2), ("lost", 2), ("error", 2), ("unsupported", 1), ("disk_full", 1)]
)
def test_a_baseline_whose_engine_was_killed_is_tried_once_more_and_one_that_is_refused_is_not(
    database: Database, kind: str, tries: int
) -> None:
    spec = load_campaign("default")
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
        tried: list[Attempts] = []
        ours: list[int] = []
        while not tried or not tried[-1].is_last:
            facts = read_facts(session, campaign_id)
            number = dispatch_baseline(session, facts, load_space(spec.space))
            failed = session.get_one(Experiment, number)
            failed.state, failed.failure, failed.failure_kind = ExperimentState.FAILED, "It ended.", kind
            session.flush()
            ours.append(number)
            tried.append(baseline_attempts(session, campaign_id, number, ours))
        taken_up_again = baseline_attempts(session, campaign_id, None)
    assert len(tried) == tries
    assert not taken_up_again.is_last, "whoever takes it up again may have put it right"


def test_what_the_engine_refuses_before_a_load_gives_way_too() -> None:
    eight = begun("4b", 12)
    found = first_served(eight, lambda each: "no kernel" if "bits=8" in each.words else None)
    assert found.configuration["quantization.bits"] == 4
    assert str(found.told).startswith(
        "quantization.bits=8, quantization.method=awq is not served: no kernel."
    )
    assert first_served(eight, lambda each: "nothing goes") == eight
