"""A campaign asks for kernels to be timed, tells what came of it, and proposes by it, or goes on without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.desk_reading import DeskReader
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.queue.dispatch import dispatch_baseline
from agent.ground.legal import legal_here
from agent.proposers.rules import RulesProposer
from configs.campaign import load_campaign
from db import events
from db.event_kinds import EventKind
from db.models import Job
from db.session import Database
from experiments.engines.kernel_timings import KERNEL
from experiments.job.kernel_timing import TIMINGS
from experiments.job.named import times_kernels
from experiments.job.result import StageRecord
from experiments.measurement.evidence import Json, Stage
from tests.new_database import new_database
from tests.recorded.kernel_timings import recorded
from tests.recorded.vllm_kernels import PROFILED, recorded_parts
from tests.simulated.by_hand import BEGAN, measure_baseline
from tests.simulated.campaign import registered_here

BITS, GROUP, SYMMETRIC = "quantization.bits", "quantization.group_size", "quantization.symmetric"

UNDER_TEST = {
    "engine": "simulated",
    "target": "cpu",
    "baseline.sweep": [],
    "baseline.start": "default",  # not the least that fits into what others leave of this machine's memory
}


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    """The packaged campaign on the 9B shape, whose engine does not run here."""
    database = new_database(tmp_path)
    with registered_here(tmp_path):
        spec = load_campaign("shape", dict(UNDER_TEST))
        ground = survey(spec, shapes=tmp_path / "shapes")
        with database.write() as session:
            campaign_id = create_campaign(session, spec, ground)
        yield database, campaign_id
    database.close()


def dispatched(
    database: Database, campaign_id: int, device: str, *, can: bool = True
) -> list[dict[str, object]]:
    """The kernels that a baseline's job on a device is asked to time, by an engine that can or can't."""
    with database.write() as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.campaign.queue.dispatch.times_kernels", lambda engine: can)
        facts = read_facts(session, campaign_id)
        space = legal_here(facts.spec, facts.checkpoint, facts.cores).space
        experiment_id = dispatch_baseline(session, facts, space, device)
        data = session.scalars(select(Job.spec).where(Job.experiment_id == experiment_id)).one()
    return list(data.get("kernels", []))


def measured(database: Database, campaign_id: int, outcome: str, detail: dict[str, Json]) -> None:
    bandwidth = float(PROFILED["bf16"]["copy_bytes_per_s"])
    stages = [
        StageRecord(Stage.KERNELS, BEGAN, 31.0, outcome, detail),
        StageRecord(Stage.PROFILE, BEGAN, 2.0, "done", {"bandwidth_bytes_per_s": bandwidth}),
    ]
    measure_baseline(database, campaign_id, 5.24, stages, recorded_parts("bf16"))


def test_a_baseline_on_a_gpu_is_asked_for_every_kernel_with_a_few_formats(
    campaign: tuple[Database, int],
) -> None:
    kernels = dispatched(*campaign, "cuda:0")
    formats = list(dict.fromkeys((each[BITS], each[GROUP], each[SYMMETRIC]) for each in kernels))
    assert formats == [(4, 128, True), (4, 32, True), (8, 128, True), (4, 128, False)]
    first = [each[KERNEL] for each in kernels if (each[BITS], each[GROUP], each[SYMMETRIC]) == formats[0]]
    assert first == ["auto", "conch", "humming", "machete", "marlin", "triton"], "exllama takes float16 alone"


def test_a_baseline_on_a_processor_is_asked_for_none(campaign: tuple[Database, int]) -> None:
    assert dispatched(*campaign, "cpu") == []


def test_a_baseline_of_an_engine_that_can_not_is_asked_for_none(campaign: tuple[Database, int]) -> None:
    assert dispatched(*campaign, "cuda:0", can=False) == []
    assert [times_kernels(name) for name in ("vllm", "reference", "nobody")] == [True, False, False]


def test_a_campaign_may_do_without(tmp_path: Path) -> None:
    database = new_database(tmp_path)
    changes = {**UNDER_TEST, "baseline.time_kernels": False}
    with registered_here(tmp_path):
        spec = load_campaign("shape", changes)
        with database.write() as session:
            campaign_id = create_campaign(session, spec, survey(spec, shapes=tmp_path / "shapes"))
        assert dispatched(database, campaign_id, "cuda:0") == []
    database.close()


def test_what_kernels_took_is_told_and_decides_what_is_proposed(campaign: tuple[Database, int]) -> None:
    database, campaign_id = campaign
    measured(database, campaign_id, "done", {TIMINGS: recorded().data()})
    with database.read() as session:
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_KERNELS_TIMED])
    assert told.text == (
        "Kernels timed alone with this model's shapes and 1 row, ms a step in products of the layers: "
        "humming 1.98, marlin 2.11, auto (MacheteLinearKernel) 2.56, machete 2.56, triton 24.47; "
        "16 bits 3.70; refused: conch."
    )
    assert told.data["wall_s"] == 31.0
    reader = DeskReader(database, campaign_id)
    desk = reader.desk(reader.facts())
    assert desk.timed is not None
    drafts = [each for each in RulesProposer().propose(desk.view, 60) if KERNEL in each.candidate]
    view = desk.view
    best = min(drafts, key=lambda each: view.predict(view.incumbent, each.candidate).log_ratio_mean)
    assert best.candidate[KERNEL] == "humming"
    assert "Timed alone, humming multiplies this model's weights in" in best.rationale
    assert desk.view.refused(desk.space.with_change(best.candidate, {KERNEL: "conch"})) is not None


def test_a_timing_that_failed_is_told_and_the_campaign_goes_on_as_without(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    cause = "vLLM's Python has no module named torch."
    measured(database, campaign_id, "failed", {"kind": "crashed", "cause": cause})
    with database.read() as session:
        (told,) = events.read(session, kinds=[EventKind.CAMPAIGN_KERNELS_TIMED])
    assert told.text == f"Kernels could not be timed alone, and the campaign goes on without that: {cause}"
    reader = DeskReader(database, campaign_id)
    desk = reader.desk(reader.facts())
    assert desk.timed is None
    assert {each.candidate.get(KERNEL) for each in RulesProposer().propose(desk.view, 60)} <= {None, "auto"}
