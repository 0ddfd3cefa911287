"""What a kernel compiles at each load is in every price of a test: the ranking's, an approval's, a plan's,
and the limit by which a job on rented machines is quoted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import insert
from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import Baseline
from agent.ground.drafter import space_of
from agent.ground.legal import Legal
from agent.plan.card import card_asked
from agent.plan.duration import KERNELS_S
from agent.plan.footing import Footing
from agent.plan.job_time import job_seconds, planned_seconds
from agent.plan.load_and_request import Stored
from agent.plan.model import find_model
from agent.plan.plan import Plan, make_plan
from agent.plan.price import prices_of
from agent.plan.stored_times import stored_times
from agent.ranking.values import Place
from agent.surrogate.cost_priors import PAIRS_PRIOR
from agent.surrogate.timed_kernels import TimedKernels
from configs.campaign import ApprovalSpec, CampaignSpec, load_campaign
from db.models import Campaign, Experiment, StageRun
from db.states import ExperimentKind, ExperimentState, StageOutcome
from experiments.engines.kernel_timings import KERNEL, KernelTimings
from experiments.executors.port import Executor
from experiments.job.kernel_timing import TIMINGS
from experiments.job.spec import AnyJob, TestJob
from experiments.measurement.judging import Outcome
from experiments.reference_model.load import reference_model_path
from experiments.remote.quoting import Price
from experiments.space.configuration import Configuration
from tests.history.campaign_history import History, a_full_history
from tests.recorded.kernel_timings import recorded
from tests.simulated.specs import a_test_job
from tests.unit.agent.test_desk import desk, queued, trial

SHAPE_S = 10.0
"""Seconds that a kernel compiles for a shape here."""

PAYS_FOR_ALL = "2000h"
"""A budget in which a test has all the pairs of its plan."""

PRODUCTS = 6
"""Of the layers; the head is not packed here."""

CARD = "modal:H100"
PACKED = {
    "quantization.method": "rtn",
    "quantization.bits": 4,
    "quantization.group_size": 128,
    "quantization.symmetric": True,
}


def compiled() -> KernelTimings:
    """The recorded timings, of which the engine's own choice and `humming` are compiled for each shape."""
    told = recorded()
    packed = [
        replace(each, parts=tuple(replace(part, first_call_s=SHAPE_S) for part in each.parts))
        if each.knobs[KERNEL] in ("auto", "humming")
        else each
        for each in told.packed
    ]
    return replace(told, packed=tuple(packed))


TIMED = TimedKernels(compiled())


def on_vllm(**more: object) -> CampaignSpec:
    return load_campaign(
        "default", {"engine": "vllm", "space": "vllm", "target": "cuda:0", "baseline.sweep": [], **more}
    )


SPACE = space_of(on_vllm())
BASELINE = SPACE.configuration({})


def packed(kernel: str) -> Configuration:
    return SPACE.with_change(BASELINE, {**PACKED, KERNEL: kernel})


def a_desk(timings: KernelTimings | None, *kernels: str) -> Desk:
    """A desk that asks before it tests, with packed weights by these kernels in its queue."""
    queue = [
        replace(queued(number, packed(kernel)), control=BASELINE)
        for number, kernel in enumerate(kernels, start=1)
    ]
    spec = on_vllm(budget=PAYS_FOR_ALL).model_copy(update={"approve_above": ApprovalSpec(wall_s=1.0)})
    facts = replace(desk(*queue).facts, spec=spec, baseline=BASELINE, naive=BASELINE)
    tpot_ms, ttft_ms = {BASELINE.digest: 8.0}, {BASELINE.digest: 40.0}
    measured = Baseline(tpot_ms, ttft_ms, (), 1.0, 1e12, load_s=6.0, kernel_timings=timings)
    return Desk(facts, Legal(SPACE), measured, ())


def place(timings: KernelTimings | None) -> Place:
    (only,) = a_desk(timings, "humming").ranking.places
    return only


def test_the_quote_of_an_approval_and_the_rankings_price_both_count_it() -> None:
    before, after = place(None), place(compiled())
    assert before.most_s is not None
    assert after.most_s is not None
    compiles_s = PRODUCTS * SHAPE_S
    expected = (after.cost_s - before.cost_s) / compiles_s
    most = (after.most_s - before.most_s) / compiles_s
    assert 1 < expected < 1 + PAIRS_PRIOR, "the look at the quality, and what follows where it holds"
    plan = load_campaign("default").plan
    assert most == pytest.approx(1 + 1 + plan.full_pairs + plan.validation_pairs + 1), "every load of all"


def test_what_a_later_process_takes_is_the_price_where_one_was_asked() -> None:
    told = compiled()
    asked = [
        replace(each, parts=(replace(each.parts[0], again_s=SHAPE_S / 20), *each.parts[1:]))
        for each in told.packed
    ]
    found = TimedKernels(replace(told, packed=tuple(asked)))
    configuration = {**PACKED, KERNEL: "humming"}
    assert TIMED.compiles_s(configuration) == PRODUCTS * SHAPE_S
    assert found.compiles_s(configuration) == pytest.approx(PRODUCTS * SHAPE_S / 20)
    slower = [
        replace(each, parts=(replace(each.parts[0], again_s=2 * SHAPE_S), *each.parts[1:]))
        for each in told.packed
    ]
    assert TimedKernels(replace(told, packed=tuple(slower))).compiles_s(configuration) == PRODUCTS * SHAPE_S


def test_what_a_test_compiled_is_not_learnt_as_the_price_of_one_that_compiles_nothing() -> None:
    ready, slow = packed("marlin"), packed("humming")
    compiles_s = PRODUCTS * SHAPE_S
    cost = a_desk(compiled()).beliefs.cost
    (look_s,) = cost.expected_s([slow], [0.0])
    (whole_s,) = cost.expected_s([slow], [1.0])
    screened = trial(1, BASELINE, slow, Outcome.REFUTED)
    screened = replace(screened, lever="quantization", effect_log=None, cost_s=look_s)
    timed = replace(screened, effect_log=-0.1, cost_s=whole_s)
    for after in (cost.after(screened), cost.after(timed)):
        (slow_s,), (ready_s,) = (after.expected_s([each], [0.0]) for each in (slow, ready))
        assert slow_s - ready_s == pytest.approx(compiles_s)
    # what was built is there for both; the rest is as it was before
    (then_s,) = cost.after(screened).expected_s([ready], [0.0])
    assert then_s == pytest.approx(cost.priors.screen_s)


def test_the_seconds_of_a_job_on_rented_machines_count_it_at_each_load() -> None:
    model = find_model("qwen3.5-9b")
    kernel = {**PACKED, KERNEL: "humming"}

    def more_s(control: dict[str, object], candidate: dict[str, object], **how: object) -> float:
        job = a_test_job(candidate, control, engine="vllm", **how)  # type: ignore[arg-type]
        with_, without = (job_seconds(job, CARD, model, each) for each in (Stored(timed=TIMED), Stored()))
        return (with_ - without) / (PRODUCTS * SHAPE_S)

    plan = a_test_job().plan
    loads = 1 + plan.full_pairs + plan.validation_pairs + 1
    assert more_s({}, kernel) == pytest.approx(loads)
    assert more_s(kernel, kernel) == pytest.approx(loads), "both arms load at the same time"
    assert more_s(kernel, kernel, at_once=1) == pytest.approx(2 * loads)
    assert more_s({}, {**PACKED, KERNEL: "marlin"}) == more_s({}, {}) == 0.0


def planned(stored: Stored, **knobs: object) -> Plan:
    model, card = find_model("qwen3.5-9b"), card_asked("h100")
    return make_plan(on_vllm(), model, card, dict(knobs) or None, stored=stored)  # type: ignore[arg-type]


def test_a_plan_counts_it_for_the_configuration_that_is_asked_about() -> None:
    kernel = {"quantization.method": "rtn", KERNEL: "humming"}
    before, after = (planned(each, **kernel).first_verdict for each in (Stored(), Stored(timed=TIMED)))
    assert after.baseline_s == pytest.approx(before.baseline_s - KERNELS_S), "they are not timed again"
    assert after.least_test_s - before.least_test_s == pytest.approx(PRODUCTS * SHAPE_S)
    assert after.most_test_s - before.most_test_s > 2 * PRODUCTS * SHAPE_S
    told = "1 min more at each wait for loads, for what kernels compile, as they did when timed alone here"
    assert told in after.basis
    assert told not in before.basis
    plain = [planned(stored).first_verdict for stored in (Stored(timed=TIMED), Stored())]
    assert len({(each.least_test_s, each.most_test_s) for each in plain}) == 1, "16 bits"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """A baseline whose first timing came to something and whose last one failed."""
    found = a_full_history(tmp_path_factory.mktemp("history"))
    with found.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        found_there = {**campaign.spec["found"], "checkpoint": str(reference_model_path())}
        campaign.spec = {**campaign.spec, "found": found_there}
        one = session.get_one(Experiment, 1)
        baseline = Experiment(
            campaign_id=campaign.id,
            kind=ExperimentKind.BASELINE,
            state=ExperimentState.RUNNING,
            target=campaign.target,
            control_configuration_id=one.control_configuration_id,
            plan={},
        )
        session.add(baseline)
        session.flush()
        for detail in ({TIMINGS: compiled().data()}, {"kind": "crashed", "cause": "No torch."}, None):
            session.execute(
                insert(StageRun).values(
                    experiment_id=baseline.id,
                    attempt=1,
                    stage="kernels",
                    started_at=datetime(2026, 11, 25, tzinfo=UTC),
                    outcome=None if detail is None else StageOutcome.DONE,
                    detail=detail,
                )
            )
    yield found
    found.close()


def known(session: Session, **other: str) -> TimedKernels | None:
    campaign = session.get_one(Campaign, 1)
    ours = {"target": campaign.target, "fingerprint": campaign.model_fingerprint, "engine": "reference"}
    asked = ours | other
    workload = load_campaign("default").plan.workload  # kernels are timed whatever is asked
    return stored_times(session, asked["target"], asked["fingerprint"], asked["engine"], workload).timed


def test_the_newest_timing_of_this_target_model_and_engine_is_found(history: History) -> None:
    with history.database.read() as session:
        found = known(session)
        assert found is not None
        assert found.compiles_s({**PACKED, KERNEL: "humming"}) == PRODUCTS * SHAPE_S
        others = [{"target": "cuda:another"}, {"fingerprint": "0" * 64}, {"engine": "vllm"}]
        assert [known(session, **each) for each in others] == [None] * 3


def test_a_job_of_a_campaign_is_planned_with_what_its_baseline_timed(history: History) -> None:
    with history.database.read() as session:
        fingerprint = session.get_one(Campaign, 1).model_fingerprint
        plain, packed = (
            a_test_job(each, engine="reference", model_fingerprint=fingerprint, model="reference")
            for each in ({}, {**PACKED, KERNEL: "humming"})
        )
        one, other = (planned_seconds(session, each, CARD) for each in (plain, packed))
    assert one is not None
    assert other is not None
    loads = 1 + plain.plan.full_pairs + plain.plan.validation_pairs + 1
    assert other - one == pytest.approx(loads * PRODUCTS * SHAPE_S)


@dataclass(frozen=True)
class Noting(Footing):
    """Notes what is to be quoted."""

    jobs: list[AnyJob] = field(default_factory=list)

    def price(self, session: Session | None, executor: Executor, job: AnyJob, target: str) -> Price:
        self.jobs.append(job)
        return Price(1.0, 2.0, 1, 2, "noted")


def test_a_test_that_quantizes_is_quoted_with_the_format_and_kernel_that_it_would_have() -> None:
    spec = on_vllm(target=CARD)
    footing = Noting(find_model("qwen3.5-9b"), "", CARD)
    prices_of(None, spec, footing, executor=None)  # type: ignore[arg-type]
    tests = [dict(each.candidate) for each in footing.jobs if isinstance(each, TestJob)]
    quantizes = next(each for each in tests if each.get("quantization.method") != "none")
    assert (quantizes["quantization.bits"], quantizes[KERNEL]) == (4, "auto")
    assert TIMED.compiles_s(quantizes) == PRODUCTS * SHAPE_S
    assert dict(space_of(spec).configuration({})) in tests
