"""What was measured of further workloads is told beside the verdict: on the page, its JSON, the sheet and the
report; and what is read of an experiment otherwise is as it would be without."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from agent.campaign.known.judged_time import JUDGED_S
from agent.campaign.known.reading_facts import read_facts
from agent.plan.stored_times import stored_times
from cli.sheets.experiment import print_experiment
from configs.campaign_plan import PlanSpec
from dashboard.report.html import as_html
from dashboard.report.markdown import as_markdown
from db.models import Campaign, Experiment, NoiseLaunch
from db.states import Arm as StoredArm
from db.states import ExperimentKind, VerdictOutcome
from experiments.job.result import JobResult, StageRecord
from experiments.measurement.evidence import (
    ALL_REQUESTS,
    UNMEASURED,
    WORKLOADS,
    Arm,
    Json,
    LaunchRecord,
    Metric,
    Sample,
    Stage,
)
from experiments.measurement.plan import FurtherWorkload
from experiments.recording import load_launches, record_result
from experiments.space.configuration import Configuration
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.further import LEAST_PAIRS, NOT_JUDGED, further_workloads, metric_view
from knowledge.queries.present.now_run import steps_of
from knowledge.report.gathering import report
from tests.history.campaign_history import BASE, History
from tests.integration.dashboard.experiment_pages import client
from tests.simulated.specs import a_test_job

__all__ = ["client"]

WIDE = FurtherWorkload(
    concurrency=16, prompt_tokens=512, new_tokens=32, prompts_per_block=16, warmup_requests=16
)
LOST = FurtherWorkload(
    concurrency=64, prompt_tokens=2048, new_tokens=32, prompts_per_block=64, warmup_requests=1
)
CHANGED = Configuration.of({**BASE, "serving.threads": 1})
CAUSE = "2.0 GiB were missing for the cache."
PAIRS = LEAST_PAIRS
FURTHER_S = 40.0


def samples(arm: Arm, index: int, mark: str = "") -> tuple[Sample, ...]:
    """Two requests of a block, of which the candidate's take nine tenths, a little less in later pairs."""
    share = 1.0 if arm is Arm.CONTROL else 0.9 - 0.01 * index
    times = ((Metric.TTFT_MS, 50.0), (Metric.TPOT_MS, 10.0), (Metric.ITL_MS, 10.0), (Metric.E2EL_MS, 360.0))
    each = [(f"{mark}{item}", metric, ms * share) for item in "ab" for metric, ms in times]
    each.append((f"{mark}{ALL_REQUESTS}", Metric.OUTPUT_TOKENS_PER_S, 1000.0 / share))
    return tuple(Sample(0, 0, item, seq, metric, value) for seq, (item, metric, value) in enumerate(each))


def launches(stage: Stage, mark: str = "") -> tuple[LaunchRecord, ...]:
    return tuple(
        LaunchRecord(
            arm,
            index,
            stage,
            (BASE if arm is Arm.CONTROL else CHANGED).digest,
            {"engine": "simulated"},
            {"machine": {"host": "simulated"}, "blocks": []},
            99.0 if stage is Stage.FURTHER else 1.5,
            samples(arm, index, mark),
        )
        for index in range(PAIRS)
        for arm in Arm
    )


def result(*, further: bool) -> JobResult:
    failed: list[Json] = [{"arm": "candidate", "workload": LOST.key, "launch": 0, "cause": CAUSE}]
    asked = [each.model_dump() for each in (WIDE, LOST)]
    now = datetime.now(UTC).isoformat()
    told = StageRecord(Stage.FURTHER, now, FURTHER_S, "done", {WORKLOADS: asked, UNMEASURED: failed})
    return JobResult(
        launches=launches(Stage.FULL),
        further=launches(Stage.FURTHER, f"{WIDE.key}: ") if further else (),
        stages=(told,) if further else (),
    )


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """E-1 has further workloads, E-2, of the same launches, has none."""
    found = History(tmp_path_factory.mktemp("further"))
    spec = a_test_job(dict(CHANGED), dict(BASE))
    for threads, further in ((1, True), (4, False)):
        judged = found.judge(found.propose({"serving.threads": threads}), VerdictOutcome.SUPPORTED, samples=0)
        with found.database.write() as session:
            experiment = session.get_one(Experiment, judged.experiment_id)
            experiment.wall_s = 100.0 + FURTHER_S * further
            record_result(session, experiment.id, 2, spec, result(further=further))
    yield found
    found.close()


def test_both_arms_and_the_paired_change_are_told_of_each_metric(history: History) -> None:
    with history.database.read() as session:
        wide, lost = further_workloads(session, (1,))[1]
        assert further_workloads(session, (2,)) == {}
    assert [each.metric for each in wide.metrics] == [
        "ttft_ms", "tpot_ms", "itl_ms", "e2el_ms", "output_tokens_per_s",
    ]  # fmt: skip
    told = {each.metric: each for each in wide.metrics}
    tpot, tokens = told["tpot_ms"], told["output_tokens_per_s"]
    assert (tpot.control, tpot.candidate) == (10.0, pytest.approx(8.9))
    assert (tpot.pairs, tokens.pairs) == (PAIRS, PAIRS)
    assert tpot.change == pytest.approx((0.9 * 0.89 * 0.88) ** (1 / 3) - 1)
    assert tpot.low is not None
    assert tpot.high is not None
    assert tpot.low < tpot.change < tpot.high < 0  # type: ignore[operator]
    assert tokens.change == pytest.approx(1 / (1 + tpot.change) - 1)  # type: ignore[operator]
    assert tokens.change_words.startswith("+12.4 % [+")
    assert (lost.metrics, len(lost.failures)) == ((), 1)
    assert CAUSE in lost.failures[0]


@pytest.mark.parametrize(
    ("unmeasured", "told"),
    [
        ([], ["A launch pair was ended before all was measured: {late}"] * 2),
        ([LOST], [None, "It could not be measured in the candidate's launch 0: {late}"]),
    ],
    ids=["which one is not known", "one of them"],
)
def test_a_stage_whose_time_was_up_is_told_in_a_sentence_where_it_was(
    tmp_path: Path, unmeasured: list[FurtherWorkload], told: list[str | None]
) -> None:
    late = "The stage further took longer than its limit of 1 h."
    asked: list[Json] = [each.model_dump() for each in (WIDE, LOST)]
    failed: list[Json] = [
        {"arm": "candidate", "workload": each.key, "launch": 0, "cause": late} for each in unmeasured
    ]
    detail = {WORKLOADS: asked, UNMEASURED: failed, "kind": "timed_out", "cause": late}
    stage = StageRecord(Stage.FURTHER, datetime.now(UTC).isoformat(), FURTHER_S, "timed_out", detail)
    history = History(tmp_path)
    judged = history.judge(history.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED, samples=0)
    with history.database.write() as session:
        spec, measured = a_test_job(dict(CHANGED), dict(BASE)), replace(result(further=True), stages=(stage,))
        record_result(session, judged.experiment_id, 2, spec, measured)
        failures = [each.failures for each in further_workloads(session, (1,))[1]]
    history.close()
    assert failures == [() if each is None else (each.format(late=late),) for each in told]


def test_fewer_pairs_than_say_how_they_vary_give_no_interval() -> None:
    arms = {StoredArm.CONTROL: {0: 10.0, 1: 10.0, 2: 10.0}, StoredArm.CANDIDATE: {0: 9.0, 1: 9.0}}
    told = metric_view(Metric.TPOT_MS, arms)
    assert (told.change, told.low, told.high, told.pairs) == (pytest.approx(-0.1), None, None, 2)
    assert told.change_words == "−10.0 %"
    alone = metric_view(Metric.TPOT_MS, {StoredArm.CONTROL: {0: 10.0}})
    assert (alone.control, alone.candidate, alone.change, alone.change_words) == (10.0, None, None, "—")


def test_the_page_and_its_json_tell_them_and_that_they_are_not_judged(client: TestClient) -> None:
    html = unescape(client.get("/experiments/E-0001").text)
    assert "Further workloads, not part of the verdict" in html
    assert NOT_JUDGED in html
    assert "16 requests at once of 512 + 32 tokens" in html
    assert CAUSE in html
    found = client.get("/experiments/E-0001.json").json()["further_workloads"]
    assert [each["workload"] for each in found] == [WIDE.key, LOST.key]
    assert found[0]["metrics"][1]["candidate"] == pytest.approx(8.9)
    assert "Further workloads" not in client.get("/experiments/E-0002").text


def test_its_raw_samples_say_of_which_workload_they_are(client: TestClient) -> None:
    found = client.get("/experiments/E-0001/samples.json?stage=further").json()
    assert found["total"] == PAIRS * 2 * 9
    assert all(each["item"].startswith(f"{WIDE.key}: ") for each in found["samples"])


def test_the_sheet_has_them_too(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    with history.database.read() as session:
        print_experiment(experiment_detail(session, 1))
    told = " ".join(capsys.readouterr().out.split())
    assert "Further workloads, not part of the verdict" in told
    assert "+12.4 %" in told
    assert CAUSE in told


def test_the_report_has_a_section_of_them(history: History) -> None:
    with history.database.read() as session:
        view = report(session, 1, datetime(2026, 11, 26, tzinfo=UTC))
    assert [each.experiment for each in view.further_workloads] == ["E-0001"]
    for text in (as_markdown(view), as_html(view)):
        assert "Further workloads, not part of any verdict" in unescape(text)
        assert "16 requests at once of 512 + 32 tokens" in unescape(text)
        assert CAUSE in unescape(text)


def test_whatever_else_is_read_of_an_experiment_is_as_without_them(history: History) -> None:
    with history.database.read() as session:
        one, two = (
            [each for each in load_launches(session, number) if each.resolved == {"engine": "simulated"}]
            for number in (1, 2)
        )
        assert one == two == list(launches(Stage.FULL))
        noise = (
            select(NoiseLaunch.experiment_id, func.count())
            .group_by(NoiseLaunch.experiment_id)
            .order_by(NoiseLaunch.experiment_id)
        )
        assert [tuple(row) for row in session.execute(noise)] == [(1, PAIRS), (2, PAIRS)]
        first, second = (experiment_detail(session, each) for each in (1, 2))
        assert [each.spreads for each in first.launches] == [each.spreads for each in second.launches]
        names = [[each.name for each in detail.resolved_differences] for detail in (first, second)]
        assert names[0] == names[1]
        assert list(session.scalars(select(JUDGED_S).order_by(Experiment.id))) == [100.0, 100.0]
        assert [each.cost_s for each in read_facts(session, 1).trials] == [100.0, 100.0]
        campaign = session.get_one(Campaign, 1)
        engine = str(campaign.spec["engine"])
        workload = PlanSpec.model_validate(campaign.spec["plan"]).workload
        stored = stored_times(session, campaign.target, campaign.model_fingerprint, engine, workload)
        assert (stored.test_s, stored.load_s) == (100.0, 1.5)


def test_while_they_are_measured_no_step_of_the_test_is_being_done() -> None:
    steps = {each.name: (each.done, each.now) for each in steps_of(ExperimentKind.TEST, {"quick"}, "further")}
    assert steps["Check"] == steps["Quick look"] == (True, False)
    assert not any(now for _, now in steps.values())
    assert steps["Full"] == (False, False)
