"""Disputes about a change that nobody measured here: of imported verdicts, or with what the user told."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from agent.campaign.separation.disputing import MOST_TAKEN_UP, take_disputes_apart
from agent.proposers.dispute import PROPOSER
from db.models import Campaign, Configuration, Hypothesis
from db.models.base import JsonObject
from db.session import Database
from db.states import HypothesisState
from knowledge.findings.exchange import read_file
from knowledge.findings.importing import export_verdicts, import_verdicts
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.queries.found.finding_detail import finding_detail
from tests.integration.campaign.test_disputes import (
    GROUP,
    KERNEL,
    SUPPORTED_THERE,
    desk_of,
    refuted_here,
    taken_up,
)
from tests.recorded.vllm_kernels import SPACE
from tests.simulated.by_hand import measure_baseline
from tests.simulated.campaign import start
from tests.simulated.turn_by_turn import Bench

H200, L4 = "gpu:NVIDIA H200:141 GB", "gpu:NVIDIA L4:24 GB"


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    """A campaign that has measured nothing but its baseline."""
    database, campaign_id = start(tmp_path, space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    yield database, campaign_id
    database.close()


@pytest.fixture
def refuted(tmp_path: Path) -> JsonObject:
    """A lab's refuted verdict in just the scope of the campaign: groups of 128 are no faster than of 32."""
    (tmp_path / "lab").mkdir()
    database, campaign_id = start(tmp_path / "lab", space_text=SPACE, **{"baseline.sweep": []})
    measure_baseline(database, campaign_id)
    with database.write() as session:
        refuted_here(session, campaign_id)
    with database.read() as session:
        file: JsonObject = json.loads(export_verdicts(session, "lab").model_dump_json())
    database.close()
    verdict: JsonObject = file["verdicts"][0]
    return verdict


def import_(session: Session, *verdicts: JsonObject) -> tuple[str, ...]:
    file = {"format": "autoinfer-verdicts-1", "origin": "lab", "verdicts": list(verdicts)}
    return import_verdicts(session, read_file(json.dumps(file), "lab.json")).disputes


def proposed(session: Session, campaign_id: int) -> list[Hypothesis]:
    """What the campaign puts into its queue before it ranks it next."""
    queued, _ = taken_up(session, desk_of(session, campaign_id), 0)
    return [session.get_one(Hypothesis, each) for each in queued]


def groups(session: Session, found: Hypothesis) -> list[object]:
    arms = (found.control_configuration_id, found.candidate_configuration_id)
    return [session.get_one(Configuration, each).knobs[GROUP] for each in arms]


def test_imported_verdicts_that_disagree_about_what_was_never_measured_here_are_tested_here_once(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        (question,) = import_(session, refuted, refuted | SUPPORTED_THERE | {"target": H200})
        (found,) = proposed(session, campaign_id)
        assert (found.proposer, found.state) == (PROPOSER, HypothesisState.QUEUED)
        assert groups(session, found) == [32, 128]
        target = session.get_one(Campaign, campaign_id).target
        assert found.rationale.startswith(
            f"{question} Nobody measured it here, on {target}: here the change itself. "
        )
        assert "F-001 says that it does not help, which another database told" in found.rationale
        assert found.change["disputes"] == {"findings": ["F-002", "F-001"]}
        assert proposed(session, campaign_id) == []


def test_what_cards_elsewhere_disagree_about_is_tested_on_the_card_that_is_here(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        import_(session, refuted | {"target": L4}, refuted | SUPPORTED_THERE | {"target": H200})
        (found,) = proposed(session, campaign_id)
        assert "it holds on NVIDIA H200, not on NVIDIA L4" in found.rationale
        assert groups(session, found) == [32, 128]


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"model_fingerprint": "e" * 64, "model": "another"},
        {"engine": "another"},
        {"workload": {"prompt_tokens": 9999, "new_tokens": 9999, "concurrency": 99}},
    ],
)
def test_where_neither_side_speaks_of_more_than_other_hardware_nothing_is_tested(
    campaign: tuple[Database, int], refuted: JsonObject, elsewhere: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        there = refuted | SUPPORTED_THERE | {"target": H200} | elsewhere
        assert len(import_(session, refuted | {"target": L4} | elsewhere, there)) == 1
        assert proposed(session, campaign_id) == []


def test_imported_verdicts_of_one_scope_that_disagree_are_settled_by_a_test_here(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        (question,) = import_(session, refuted, refuted | SUPPORTED_THERE)
        assert question.startswith("Verdicts within F-001 disagree")
        (found,) = proposed(session, campaign_id)
        assert found.change["disputes"] == {"findings": ["F-001"]}


def test_what_was_measured_here_is_not_tested_again_where_the_hardware_alone_differs(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        experiment_id = refuted_here(session, campaign_id)
        import_(session, refuted | SUPPORTED_THERE | {"target": H200, "ran": {}})
        assert take_disputes_apart(session, experiment_id) == ()
        assert proposed(session, campaign_id) == []


def test_what_the_user_says_helps_and_an_import_denies_is_tested_here(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        import_(session, refuted | {"target": H200})
        assert proposed(session, campaign_id) == []  # nothing disputes it
        tell(session, Telling("Groups of 128 pay here.", (f"{GROUP}=128",)), campaign_id)
        (found,) = proposed(session, campaign_id)
        assert found.rationale.startswith("F-002 says that it helps, F-001 that it does not help")
        assert groups(session, found) == [32, 128]


def test_what_the_user_says_of_another_card_is_tested_here_where_an_import_denies_it(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        import_(session, refuted | SUPPORTED_THERE)
        said = Telling("They don't.", (f"{GROUP}=128",), Saying.DOES_NOT_HELP, target=L4)
        tell(session, said, campaign_id)
        assert len(proposed(session, campaign_id)) == 1


def test_what_the_user_ruled_out_here_is_not_tested_whatever_an_import_says(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        tell(session, Telling("They don't.", (f"{GROUP}=128",), Saying.DOES_NOT_HELP), campaign_id)
        assert len(import_(session, refuted | SUPPORTED_THERE)) == 1
        assert proposed(session, campaign_id) == []


def test_no_more_disputes_wait_in_the_queue_than_four_at_a_time(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    changes = [(32, "machete"), (32, "marlin"), (128, "auto"), (128, "machete"), (128, "marlin")]
    control = {"quantization.method": "awq", GROUP: 32, KERNEL: "auto"}
    told = []
    for group, kernel in changes:
        one = refuted | {"control": control, "candidate": control | {GROUP: group, KERNEL: kernel}}
        told += [one, one | SUPPORTED_THERE | {"target": H200}]
    with database.write() as session:
        assert len(import_(session, *told)) == 5
        first = proposed(session, campaign_id)
        assert len(first) == MOST_TAKEN_UP == 4
        assert proposed(session, campaign_id) == []
        for each in first[:3]:
            each.state = HypothesisState.REFUTED
        session.flush()
        assert len(proposed(session, campaign_id)) == 1
        query = select(Hypothesis).where(Hypothesis.proposer == PROPOSER)
        assert len(session.scalars(query).all()) == 5


def test_the_campaigns_loop_puts_it_into_its_queue_by_itself(
    campaign: tuple[Database, int], refuted: JsonObject
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        import_(session, refuted, refuted | SUPPORTED_THERE | {"target": H200})
    Bench(database, campaign_id).drive()
    with database.read() as session:
        (found,) = session.scalars(select(Hypothesis).where(Hypothesis.proposer == PROPOSER))
        assert found.change["disputes"] == {"findings": ["F-002", "F-001"]}
        assert finding_detail(session, 1).disputes[0].hypotheses == (f"H-{found.id:03d}",)
