"""What the server's own choice of tokens a step came to is read from trial 0, and holds for what is asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.stored_ground import StoredGround
from agent.campaign.known.within_memory import legal_of
from agent.ground import legal
from configs.campaign import load_campaign
from db.content import put_configuration, put_environment
from db.models import Experiment, Launch
from db.session import Database
from db.states import Arm, ExperimentKind
from experiments.reference_model.load import reference_model_path
from experiments.space.gpu import Gpu
from experiments.space.workload_rules import BATCH_TOKENS
from tests.unit.agent.test_questions import database

__all__ = ["database"]  # the fixture

DIGEST = "ab" * 32
ASKED = {
    "engine": "vllm",
    "space": "vllm",
    "target": "cuda:0",
    "baseline.sweep": [],
    "plan.workload.concurrency": 4,
    "plan.workload.prompt_tokens": 512,
}
"""What four requests at once ask of a step fits into 4,096 tokens and not into 2,048."""

GROUND = StoredGround(
    spec=load_campaign("default", ASKED),
    checkpoint=reference_model_path(),
    cores=2,
    compute_capability="9.0",
    gpu_memory_bytes=151 * 10**9,
    gpu_name="NVIDIA H200",
    auto_step_tokens=None,
    start=None,
)


def serves(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int] | None) -> None:
    """As if this vLLM served here."""
    monkeypatch.setattr(legal, "gpu_served", lambda spec, capability: Gpu(capability, spec.engine, version))


def launched(
    database: Database,
    campaign_id: int,
    tokens: object,
    knobs: dict[str, object],
    kind: ExperimentKind = ExperimentKind.BASELINE,
) -> None:
    with database.write() as session:
        configuration_id = put_configuration(session, f"{len(str(knobs)):064x}", knobs)
        experiment = Experiment(
            campaign_id=campaign_id,
            kind=kind,
            target="cuda",
            control_configuration_id=configuration_id,
            plan={},
        )
        session.add(experiment)
        session.flush()
        session.add(
            Launch(
                experiment_id=experiment.id,
                attempt=1,
                arm=Arm.CONTROL,
                index=0,
                stage="quick",
                configuration_id=configuration_id,
                resolved={} if tokens is None else {"max_batch_tokens": tokens},
                environment_digest=put_environment(session, DIGEST, {"cpu": "x"}),
            )
        )


@pytest.mark.parametrize(
    ("version", "told", "offered"),
    [
        ((0, 33), None, ("auto", 2048)),
        ((0, 34), None, ("auto", 2048, 4096)),
        (None, None, ("auto", 2048, 4096)),
        (None, 8192, ("auto", 2048)),
        ((0, 33), 2048, ("auto", 4096)),
    ],
)
def test_a_campaign_tests_no_step_that_is_as_large_as_its_requests_need_where_auto_is_too(
    monkeypatch: pytest.MonkeyPatch,
    version: tuple[int, int] | None,
    told: int | None,
    offered: tuple[object, ...],
) -> None:
    serves(monkeypatch, version)
    found = legal_of(replace(GROUND, auto_step_tokens=told))
    assert found.space.knob(BATCH_TOKENS).values == offered
    assert (found.why_same({BATCH_TOKENS: 4096}) is None) is (4096 in offered)
    assert found.why_not({BATCH_TOKENS: 16_384}) is None, "who names it gets it"


def test_what_trial_0_told_of_a_step_is_known_where_it_was_left_to_the_server(database: Database) -> None:
    with database.write() as session:
        spec = load_campaign("default")
        campaign_id = create_campaign(session, spec, survey(spec))

    def known() -> int | None:
        with database.read() as session:
            return read_facts(session, campaign_id).auto_step_tokens

    assert known() is None
    launched(database, campaign_id, 4096, {BATCH_TOKENS: 4096})
    launched(database, campaign_id, 8192, {"serving.dtype": "bfloat16"})
    assert known() is None, "neither left it to the server by this knob"
    auto = {BATCH_TOKENS: "auto", "serving.dtype": "bfloat16"}
    launched(database, campaign_id, 8192, auto)
    launched(database, campaign_id, None, auto)
    launched(database, campaign_id, "unknown", auto)
    launched(database, campaign_id, 2048, auto, ExperimentKind.TEST)
    assert known() == 8192, "a test may have run on another card"
