"""A confirmation that meets a full disk on another target waits again, and that target gets nothing more
until the campaign is resumed, as a device of the campaign's own does."""

from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from agent.campaign.known.other_targets import read_targets
from agent.campaign.rerun.confirm_queue import learn_there
from db import events
from db.content import put_configuration
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis
from db.states import ExperimentKind, ExperimentState, HypothesisState
from experiments.space.configuration import Configuration
from tests.simulated.queueing import new_database, start_campaign

THERE, OTHER = "cuda:3", "cuda:4"


def sent(session: Session, campaign_id: int, kind: str, failure: str) -> int:
    """A confirmation on `THERE` that failed so; gives its experiment."""
    arms = [Configuration.of({"simulated.tpot_ms": each}) for each in (10.0, 7.0)]
    control, candidate = (put_configuration(session, each.digest, dict(each)) for each in arms)
    row = Hypothesis(
        campaign_id=campaign_id,
        claim="It holds there too.",
        lever="simulated",
        change={},
        change_digest="0",
        proposer="promotion",
        control_configuration_id=control,
        candidate_configuration_id=candidate,
        metric="tpot_ms",
        prediction={},
        min_effect=0.03,
        refuted_if="",
        rationale="",
        target=THERE,
        state=HypothesisState.TESTING,
    )
    session.add(row)
    session.flush()
    experiment = Experiment(
        campaign_id=campaign_id,
        hypothesis_id=row.id,
        kind=ExperimentKind.PROMOTE,
        target="made up",
        control_configuration_id=control,
        candidate_configuration_id=candidate,
        plan={},
        state=ExperimentState.FAILED,
        failure_kind=kind,
        failure=failure,
    )
    session.add(experiment)
    session.flush()
    return experiment.id


def held(session: Session, campaign_id: int) -> dict[str, str | None]:
    found = read_targets(session, campaign_id, (THERE, OTHER), {}, ())
    return {each.device: each.held for each in found}


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("disk_full", "it has no room on its machine's disk: The disk is that of two"),
        ("device_lost", "it was lost: The disk is that of two"),
    ],
)
def test_it_waits_again_and_its_target_is_out_until_the_campaign_is_resumed(
    tmp_path: Path, kind: str, why: str
) -> None:
    database = new_database(tmp_path)
    campaign_id = start_campaign(database)
    with database.write() as session:
        experiment_id = sent(session, campaign_id, kind, "The disk is that of two.")
        assert learn_there(session, experiment_id) is HypothesisState.QUEUED
    with database.read() as session:
        assert held(session, campaign_id) == {THERE: f"{THERE} is out, because {why}", OTHER: None}
    with database.write() as session:
        label = format_label(Noun.CAMPAIGN, campaign_id)
        events.append(session, EventKind.CAMPAIGN_RESUMED, "It goes on.", label, campaign_id)
    with database.read() as session:
        assert held(session, campaign_id) == {THERE: None, OTHER: None}
    database.close()


def test_one_that_others_use_is_sent_there_again(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    campaign_id = start_campaign(database)
    with database.write() as session:
        experiment_id = sent(session, campaign_id, "device_busy", "Others use it.")
        assert learn_there(session, experiment_id) is HypothesisState.QUEUED
    with database.read() as session:
        assert held(session, campaign_id)[THERE] is None
    database.close()
