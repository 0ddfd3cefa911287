"""A test whose arms a GPU holds once and not twice is sealed in turn, and so is a fresh run of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known.reading_facts import read_facts
from agent.campaign.learning.learn import learn_test
from agent.campaign.rerun.reproduce import enqueue_reproduction
from agent.ground.stored_spec import AT_ONCE, FOUND, GPU
from agent.plan.at_once import parts_on
from agent.plan.card import Card
from agent.plan.model import find_model
from db.event_kinds import EventKind
from db.models import Campaign, Event
from db.session import Database
from experiments.engines.launch_memory import needed_bytes
from experiments.measurement.noise import noise_key
from experiments.recording import load_test_spec
from experiments.space.configuration import Configuration
from tests.integration.campaign.sealed import dispatch, one_pair, propose
from tests.simulated.by_hand import measure_baseline, run_by_hand
from tests.simulated.campaign import start

LAUNCHES = 4
"""As many as the campaign has up otherwise."""


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = start(tmp_path)
    measure_baseline(database, campaign_id)
    yield database, campaign_id
    database.close()


def put_on_gpu(database: Database, campaign_id: int, launches: float) -> None:
    """As if the campaign ran on a GPU with room for so many launches of its model."""
    with database.write() as session:
        row = session.get_one(Campaign, campaign_id)
        spec = read_facts(session, campaign_id).spec
        each = needed_bytes(
            parts_on(spec, find_model(spec.model), Card("", 2**40), Configuration.of({}), 1024)
        )
        gpu = {"memory_bytes": round(launches * each / 0.9), "compute_capability": "9.0", "name": "a GPU"}
        row.spec = {**row.spec, FOUND: {**row.spec[FOUND], GPU: gpu, AT_ONCE: LAUNCHES}}


def test_what_fits_once_is_sealed_in_turn_and_told_and_reproduced_so(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    put_on_gpu(database, campaign_id, 1.5)
    experiment_id = dispatch(database, campaign_id, propose(database, campaign_id, 7.0))
    with database.read() as session:
        facts = read_facts(session, campaign_id)
        job = load_test_spec(session, experiment_id)
        (told,) = session.scalars(
            select(Event.text).where(Event.kind == EventKind.HYPOTHESIS_PREREGISTERED.value)
        )
    assert not facts.in_turn, "the campaign itself is not"
    assert (job.at_once, job.in_turn) == (1, True)
    assert job.noise.target_key == noise_key(facts.target_key, in_turn=True)
    assert "; its launches run in turn, for by the memory plan two of the arm that needs more" in told
    run_by_hand(database, experiment_id, one_pair)
    with database.write() as session:
        learn_test(session, experiment_id)
        fresh = enqueue_reproduction(session, experiment_id)
        assert load_test_spec(session, fresh).in_turn


def test_what_fits_twice_is_not(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    put_on_gpu(database, campaign_id, 2.5)
    experiment_id = dispatch(database, campaign_id, propose(database, campaign_id, 7.0))
    with database.read() as session:
        job = load_test_spec(session, experiment_id)
        (told,) = session.scalars(
            select(Event.text).where(Event.kind == EventKind.HYPOTHESIS_PREREGISTERED.value)
        )
    assert (job.at_once, job.in_turn) == (2, False)
    assert "in turn" not in told
