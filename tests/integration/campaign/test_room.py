"""A test whose arms a GPU does not hold at once is sealed in turn, and so is what comes after it.

What the arms need is set by hand: of the simulated engine's knobs none takes memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.queue import dispatch as dispatching
from agent.campaign.rerun import elsewhere
from agent.campaign.rerun.reproduce import enqueue_reproduction
from agent.ground.stored_spec import AT_ONCE, FOUND, GPU
from agent.plan import at_once
from agent.plan.card import Card
from agent.plan.length import length_of
from db.event_kinds import EventKind
from db.models import Campaign, Event, Launch, NoiseLaunch
from db.session import Database
from experiments.engines.launch_memory import Part
from experiments.measurement.judging import Outcome
from experiments.measurement.noise import noise_key
from experiments.recording import load_test_spec
from experiments.space.configuration import Configuration
from tests.integration.campaign.sealed import dispatch, one_pair, propose_change
from tests.integration.campaign.test_promoting import run
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import start

GB = 10**9
CARD_BYTES = 100 * GB
LAUNCHES = 4
"""As many as the campaign has up otherwise."""

LARGE = {"simulated.threads": 2}
"""What takes 60 GB of the card here, where all else takes 20."""


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Database, int]]:
    """A campaign whose baseline is measured, as if it ran on a GPU of 100 GB."""

    def parts(spec: object, model: object, card: Card, arm: Configuration, context: int) -> tuple[Part, ...]:
        return (Part("weights", 60 * GB if arm["simulated.threads"] == 2 else 20 * GB, ""),)

    monkeypatch.setattr(at_once, "parts_on", parts)
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    put_on_gpu(database, campaign_id)
    yield database, campaign_id
    database.close()


def put_on_gpu(database: Database, campaign_id: int) -> None:
    with database.write() as session:
        row = session.get_one(Campaign, campaign_id)
        gpu = {"memory_bytes": CARD_BYTES, "compute_capability": "9.0", "name": "a GPU"}
        row.spec = {**row.spec, FOUND: {**row.spec[FOUND], GPU: gpu, AT_ONCE: LAUNCHES}}


def made(database: Database, campaign_id: int, change: dict[str, Any], on: dict[str, Any]) -> int:
    """A change of the baseline with the knobs `on`, dispatched."""
    return dispatch(database, campaign_id, propose_change(database, campaign_id, change, on))


def sealing(database: Database) -> Event:
    with database.read() as session:
        kind = EventKind.HYPOTHESIS_PREREGISTERED.value
        (found,) = session.scalars(select(Event).where(Event.kind == kind))
        session.expunge(found)
    return found


@pytest.mark.parametrize(
    ("change", "on"), [(LARGE, {}), ({"simulated.tpot_ms": 7.0}, LARGE)], ids=["candidate", "both"]
)
def test_what_does_not_fit_at_once_is_sealed_in_turn_and_told_and_reproduced_so(
    campaign: tuple[Database, int], change: dict[str, Any], on: dict[str, Any]
) -> None:
    database, campaign_id = campaign
    with database.read() as session:
        facts = read_facts(session, campaign_id)
        noise = replace(facts, at_once=1).noise_key
    experiment_id = made(database, campaign_id, change, on)
    with database.read() as session:
        job = load_test_spec(session, experiment_id)
    assert not facts.in_turn, "the campaign itself is not"
    assert (job.at_once, job.in_turn) == (1, True)
    assert job.noise.target_key == noise == noise_key(facts.target_key, in_turn=True)
    assert job.noise.launches == 0, "none was measured in turn so far"
    told = sealing(database)
    assert "; its launches run in turn, for by the memory plan its arms do not fit side by side" in told.text
    assert told.data is not None
    assert told.data["at_once"] == 1
    run_by_hand(database, experiment_id, one_pair)
    with database.write() as session:
        learn_test(session, experiment_id)
        fresh = enqueue_reproduction(session, experiment_id)
        assert load_test_spec(session, fresh).in_turn


def test_it_is_measured_by_real_processes_one_at_a_time_and_judged_by_what_is_known_of_such(
    campaign: tuple[Database, int], tmp_path: Path
) -> None:
    database, campaign_id = campaign
    experiment_id = made(database, campaign_id, LARGE | {"simulated.tpot_ms": 7.0}, {})
    run(database, tmp_path, "cpu")
    with database.write() as session:
        assert learn_test(session, experiment_id) is Outcome.SUPPORTED
        launches = session.scalars(
            select(Launch).where(Launch.experiment_id == experiment_id).order_by(Launch.started_at)
        ).all()
        noise = session.scalars(select(NoiseLaunch.target_key).distinct()).all()
    arms = [launch.arm.value for launch in launches]
    assert sorted(arms[:2]) == ["candidate", "control"]
    assert arms[2:4] == arms[1::-1], "who is first alternates"
    starts_s = [launch.started_at.timestamp() for launch in launches]
    assert starts_s == sorted(set(starts_s)), "no two began together"
    assert [key.endswith(", in turn") for key in noise] == [True]


def test_how_long_its_pairs_are_goes_by_loads_in_turn(
    campaign: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = campaign
    asked: list[object] = []

    def length(*given: Any, in_turn: bool, **more: Any) -> Any:
        asked.append(in_turn)
        return length_of(*given, in_turn=in_turn, **more)

    monkeypatch.setattr(dispatching, "length_of", length)
    made(database, campaign_id, LARGE, {})
    assert asked == [True]


def test_a_heavy_control_counts_as_a_heavy_candidate(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    lighter = {"simulated.threads": 1}
    experiment_id = made(database, campaign_id, lighter, LARGE)
    with database.read() as session:
        job = load_test_spec(session, experiment_id)
    assert dict(job.control)["simulated.threads"] == 2
    assert job.in_turn


def test_what_fits_is_sealed_as_its_campaign_and_reproduced_so_whatever_there_is_room_for_by_then(
    campaign: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = campaign
    experiment_id = made(database, campaign_id, {"simulated.tpot_ms": 7.0}, {})
    with database.read() as session:
        job = load_test_spec(session, experiment_id)
    assert (job.at_once, job.in_turn) == (LAUNCHES, False)
    assert "in turn" not in sealing(database).text
    run_by_hand(database, experiment_id, one_pair)
    monkeypatch.setattr(at_once, "parts_on", None)  # nothing of the model is read again
    with database.write() as session:
        learn_test(session, experiment_id)
        fresh = enqueue_reproduction(session, experiment_id)
        assert load_test_spec(session, fresh).at_once == LAUNCHES


def test_a_campaign_that_is_in_turn_itself_says_it_once(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        row = session.get_one(Campaign, campaign_id)
        row.spec = {**row.spec, FOUND: {**row.spec[FOUND], AT_ONCE: 1}}
    experiment_id = made(database, campaign_id, LARGE, {})
    with database.read() as session:
        assert load_test_spec(session, experiment_id).in_turn
    assert "in turn" not in sealing(database).text


def test_on_another_target_it_is_both_arms_together_that_count(
    campaign: tuple[Database, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, campaign_id = campaign
    with database.read() as session:
        facts = read_facts(session, campaign_id)
    assert facts.baseline is not None
    large = Configuration.of({**facts.baseline, **LARGE})
    there = elsewhere.Elsewhere("modal:made-up", "modal:made-up", Card("a card", 100 * GB))
    monkeypatch.setattr(elsewhere, "_check_memory", lambda *_: None)
    for arms, expected in (
        ((facts.baseline, facts.baseline), 4),
        ((facts.baseline, large), 1),
        ((large, facts.baseline), 1),
    ):
        named = dict(zip(("control", "candidate"), arms, strict=True))
        assert elsewhere.check_arms(facts, there, named) == expected
