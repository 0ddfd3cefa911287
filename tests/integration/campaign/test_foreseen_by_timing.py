"""What kernels timed alone with the baseline tell of a test's arms: none is lost to be confounded."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.known.reading_facts import read_facts
from db import events
from db.event_kinds import EventKind
from db.models import Experiment, Hypothesis
from db.session import Database
from db.states import HypothesisState
from experiments.engines.kernel_timings import KERNEL, KernelTimings
from experiments.job.kernel_timing import TIMINGS
from experiments.job.result import StageRecord
from experiments.measurement.evidence import Stage
from knowledge.queries.facts import campaign_facts
from knowledge.telling.summary import summarize
from tests.recorded.kernel_timings import CLASSES, STEP_US, STORED, recorded, timing
from tests.simulated.by_hand import BEGAN, measure_baseline
from tests.simulated.campaign import start
from tests.simulated.recorded_kernels import GROUP, next_one, propose, ranked

MACHETE, MARLIN = CLASSES["machete"], CLASSES["marlin"]

SPACE = f"""
name: packed
knobs:
  - {{name: quantization.method, lever: quantization, values: [none, awq], default: none, help: How.}}
  - name: quantization.bits
    lever: quantization
    values: [4]
    default: 4
    when: {{quantization.method: [awq]}}
    help: Bits of a weight.
  - name: {GROUP}
    lever: quantization
    values: [32, 64, 128]
    default: 128
    when: {{quantization.method: [awq]}}
    help: Weights that share a scale.
  - name: quantization.symmetric
    lever: quantization
    values: [true]
    default: true
    when: {{quantization.method: [awq]}}
    help: No zero points.
  - name: {KERNEL}
    lever: kernel
    values: [auto, machete, marlin]
    default: auto
    when: {{quantization.method: [awq]}}
    pins: {{linear_kernel: {{machete: {MACHETE}, marlin: {MARLIN}}}}}
    help: Which kernel multiplies packed weights, or the engine's own choice.
"""


def chosen_by_size(small: str = "marlin") -> KernelTimings:
    """Timings in which the engine chooses Machete for groups of 128 and `small` for groups of 32."""
    further = timing(STEP_US[small], {**STORED, GROUP: 32, KERNEL: "auto"}, CLASSES[small])
    told = recorded()
    return replace(told, packed=(*told.packed, further))


def begun(folder: Path, timings: KernelTimings | None) -> tuple[Database, int]:
    """A campaign whose baseline is measured, with these timings of kernels."""
    database, campaign_id = start(folder, space_text=SPACE, **{"baseline.sweep": []})
    detail = {} if timings is None else {TIMINGS: timings.data()}
    measure_baseline(database, campaign_id, 5.24, [StageRecord(Stage.KERNELS, BEGAN, 31.0, "done", detail)])
    return database, campaign_id


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[tuple[Database, int]]:
    database, campaign_id = begun(tmp_path, chosen_by_size())
    yield database, campaign_id
    database.close()


def test_the_first_test_that_would_be_confounded_is_asked_with_one_kernel_at_once(
    campaign: tuple[Database, int],
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        asked = propose(session, campaign_id, {GROUP: 128}, {GROUP: 32})
    anew = next_one(database, campaign_id, asked)
    assert anew is not None
    label, stands_for = (f"H-{number:03}" for number in (anew, asked))
    with database.read() as session:
        row, stands = session.get_one(Hypothesis, asked), session.get_one(Hypothesis, anew)
        would = f"linear_kernel is {MACHETE} in the control, {MARLIN} in the candidate"
        assert row.state is HypothesisState.CONFOUNDED
        assert row.state_reason == (
            "Not tested as it was asked, for it would be confounded by the kernels that were timed with "
            f"E-0001: {would}. {label} makes the claim anew, with {KERNEL} at marlin in both arms."
        ), "Machete refuses groups of 32, so it is the other corner"
        assert stands.rationale == (
            f"{stands_for} would be confounded by the kernels that were timed with E-0001: {would}. So it is "
            f"asked with {KERNEL} at marlin in both arms."
        )
        told = events.read(session, kinds=[EventKind.HYPOTHESIS_CONFOUNDED])
        assert [(each.text, each.data) for each in told] == [
            (row.state_reason, {"as": "E-0001", "anew": label})
        ]
        facts = read_facts(session, campaign_id)
        queued = next(each for each in facts.queue if each.id == anew)
        assert [(each[GROUP], each[KERNEL]) for each in (queued.control, queued.candidate)] == [
            (128, "marlin"),
            (32, "marlin"),
        ]
        assert not session.scalars(select(Experiment).where(Experiment.hypothesis_id == asked)).all()
        assert summarize(campaign_facts(session, campaign_id)).confounded.sentence == (
            f"No test was confounded. 1 would have been and was not tested as asked: {label} asks it with "
            "what differed alike in both arms."
        )
    reasons = {each.id: str(each.reason) for each in ranked(database, campaign_id)}
    assert f"makes the claim of {stands_for} anew, by what E-0001 told; " in reasons[label]
    assert next_one(database, campaign_id, anew) is None, "it is tested as it stands"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({GROUP: 128, KERNEL: "marlin"}, {GROUP: 32, KERNEL: "marlin"}, "one kernel is named in both"),
        ({GROUP: 128}, {GROUP: 128, KERNEL: "marlin"}, "the kernel is what is claimed"),
        ({GROUP: 128}, {GROUP: 32, KERNEL: "marlin"}, "the kernel is claimed with it"),
        ({GROUP: 128}, {GROUP: 64}, "groups of 64 were not timed"),
        ({"quantization.method": "none"}, {GROUP: 32}, "packing explains its kernel"),
    ],
)
def test_what_is_not_known_to_differ_beyond_the_claim_is_tested_as_asked(
    campaign: tuple[Database, int], before: dict[str, object], after: dict[str, object], why: str
) -> None:
    database, campaign_id = campaign
    with database.write() as session:
        asked = propose(session, campaign_id, before, after)
    assert next_one(database, campaign_id, asked) is None, why


@pytest.mark.parametrize("timings", [None, recorded(), chosen_by_size("machete")])
def test_without_timings_and_where_the_engine_chose_alike_it_is_tested_as_asked(
    tmp_path: Path, timings: KernelTimings | None
) -> None:
    database, campaign_id = begun(tmp_path, timings)
    with database.write() as session:
        asked = propose(session, campaign_id, {GROUP: 128}, {GROUP: 32})
    assert next_one(database, campaign_id, asked) is None
    database.close()
