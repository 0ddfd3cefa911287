"""What the GPU did while launches were timed is on the experiment's page, in its JSON and its sheet.

The readings are those of a real H200, from the packaged recording; throttling, of which it has none, is
invented.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from cli.sheets.experiment import print_experiment
from configs.settings import Settings
from dashboard.app import create_app
from db.models import Experiment
from db.states import Arm, ExperimentState, VerdictOutcome
from experiments.measurement.gpu_block import PUT_OFF_BESIDE, TIMED_AGAIN_BESIDE, gpu_during
from knowledge.queries.measured.experiment_detail import experiment_detail
from knowledge.queries.measured.gpu_blocks import gpu_blocks
from tests.history.campaign_history import History, add_launch
from tests.integration.dashboard.experiment_pages import client
from tests.unit.measurement.test_gpu_block import of_the_recording

__all__ = ["client"]

HEAT = "heat, by the hardware"
CALM = {**gpu_during(of_the_recording(slice(0, 20)), 5000), "repeated": []}
AGAIN = {**CALM, "repeated": [{**CALM, "throttled": HEAT}]}
HOT = {**CALM, "throttled": HEAT, "repeated": [{**CALM, "throttled": HEAT}] * 2}


GUEST = "process 7 (train.py) holds 30.0 GB"


def environment(*gpus: object, guest: str = "") -> dict[str, object]:
    blocks = [{"block": at, "during": {"gpu": gpu}} for at, gpu in enumerate(gpus)]
    if guest:
        blocks[0]["during"] |= {TIMED_AGAIN_BESIDE: [guest, guest]}  # type: ignore[operator]
    return {"blocks": blocks}


DISTURBED = f"1 block was measured again, for something else was on the GPU: {GUEST}."


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    found = History(tmp_path_factory.mktemp("gpu"))
    judged = found.judge(found.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    with found.database.write() as session:
        experiment = session.get_one(Experiment, judged.experiment_id)
        add_launch(session, experiment, Arm.CONTROL, "quick", {}, [], environment(CALM, AGAIN, guest=GUEST))
        add_launch(session, experiment, Arm.CANDIDATE, "quick", {}, [], environment(CALM, HOT))
        plan = {**experiment.plan, "workload": {"concurrency": 16}}
        session.execute(update(Experiment).where(Experiment.id == experiment.id).values(plan=plan))
    yield found
    found.close()


def test_the_page_tells_clocks_power_energy_and_what_was_repeated(client: TestClient) -> None:
    html = unescape(client.get("/experiments/E-0001").text)
    assert "What the GPU did meanwhile" in html
    assert "1,980\u202fMHz" in html
    assert html.count("1 of 2") == 2
    assert f"Launch 0 of the control: it throttled ({HEAT})." in html
    assert f"Launch 0 of the candidate: it throttled ({HEAT}); in 1 of the blocks in every attempt" in html
    assert f"Launch 0 of the control: {DISTURBED}" in html
    assert "Launch 0 of the candidate: 1 block was" not in html
    assert "Output tokens per second" in html


@pytest.mark.parametrize("lowest", [1755.0, 1980.0])
def test_the_lowest_and_the_highest_clock_are_told_where_they_differ(tmp_path: Path, lowest: float) -> None:
    found = History(tmp_path)
    judged = found.judge(found.propose({"serving.threads": 1}), VerdictOutcome.SUPPORTED)
    clock = {**CALM, "sm_mhz": {"median": 1980.0, "min": lowest, "max": 1980.0}}
    with found.database.write() as session:
        experiment = session.get_one(Experiment, judged.experiment_id)
        add_launch(session, experiment, Arm.CONTROL, "quick", {}, [], environment(clock))
    app = create_app(Settings(data_dir=tmp_path), found.database)
    html = unescape(TestClient(app, base_url="http://127.0.0.1").get("/experiments/E-0001").text)
    assert "1,980\u202fMHz" in html
    assert ("1,755" in html, "[1,980" in html) == (lowest < 1980, False)
    found.close()


def test_its_json_has_the_figures_of_each_launch(client: TestClient) -> None:
    control, candidate = client.get("/experiments/E-0001.json").json()["gpu_blocks"]
    assert (control["blocks"], control["repeated"], control["throttled"]) == (2, 1, 0)
    assert (candidate["blocks"], candidate["repeated"], candidate["throttled"]) == (2, 1, 1)
    assert candidate["causes"] == [HEAT]
    assert (control["disturbed"], control["guests"]) == (1, [GUEST])
    assert (control["put_off"], control["measured_again"]) == (0, 1)
    assert (candidate["disturbed"], candidate["guests"]) == (0, [])
    assert control["power_w"] == pytest.approx(CALM["power_w"])
    assert control["energy_j_per_output_token"] == pytest.approx(CALM["energy_j_per_output_token"])
    assert control["sm_mhz_min"] <= control["sm_mhz"] <= control["sm_mhz_max"]
    assert control["memory_mhz"] is None


WHO = "process 8 (notebook)"


@pytest.mark.parametrize(
    ("beside", "disturbed", "told"),
    [
        ([{PUT_OFF_BESIDE: [WHO]}], 1, "1 block was put off"),
        ([{TIMED_AGAIN_BESIDE: [WHO]}, {TIMED_AGAIN_BESIDE: [WHO]}], 2, "2 blocks were measured again"),
        (
            [{PUT_OFF_BESIDE: [WHO], TIMED_AGAIN_BESIDE: [WHO]}, {}, {PUT_OFF_BESIDE: [WHO]}],
            2,
            "1 block was put off and 1 block was both put off and measured again",
        ),
        (
            [{PUT_OFF_BESIDE: [WHO], TIMED_AGAIN_BESIDE: [WHO]}],
            1,
            "1 block was both put off and measured again",
        ),
        (
            [{PUT_OFF_BESIDE: [WHO]}, {TIMED_AGAIN_BESIDE: [WHO]}],
            2,
            "1 block was put off and 1 block was measured again",
        ),
        ([{"measured_again_beside": [WHO]}], 1, "1 block was put off or measured again"),
        (
            [{PUT_OFF_BESIDE: [WHO]}, {"measured_again_beside": [WHO]}],
            2,
            "1 block was put off and 1 block was put off or measured again",
        ),
        (
            [{PUT_OFF_BESIDE: "?"}, {TIMED_AGAIN_BESIDE: []}, {PUT_OFF_BESIDE: [WHO]}],
            1,
            "1 block was put off",
        ),
    ],
)
def test_a_block_put_off_is_told_from_one_measured_again_where_that_was_recorded(
    beside: list[dict[str, object]], disturbed: int, told: str
) -> None:
    blocks = [{"block": at, "during": {"gpu": CALM} | each} for at, each in enumerate(beside)]
    found = gpu_blocks(Arm.CONTROL, 0, "quick", 1, {"blocks": blocks})
    assert found is not None
    assert found.disturbed == disturbed
    assert found.disturbed_told == f"{told}, for something else was on the GPU: {WHO}."


def test_the_sheet_has_them_too(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    with history.database.read() as session:
        print_experiment(experiment_detail(session, 1))
    told = " ".join(capsys.readouterr().out.split())
    assert "What the GPU did meanwhile" in told
    assert "1 of 2" in told
    assert f"control 0: {DISTURBED}" in told
    assert "candidate 0: 1 block" not in told


@pytest.mark.parametrize(
    "stored", [{}, {"blocks": 3}, {"blocks": [3, {"during": 3}, {"during": {"gpu": None}}]}]
)
def test_a_cpu_and_what_is_not_understood_have_no_row(stored: dict[str, object]) -> None:
    assert gpu_blocks(Arm.CONTROL, 0, "quick", 1, stored) is None


def test_a_gpu_that_tells_nothing_has_a_row_of_blanks() -> None:
    found = gpu_blocks(Arm.CONTROL, 0, "quick", 1, environment({"throttled": None, "power_w": "?"}))
    assert found is not None
    assert (found.blocks, found.power_w, found.sm_mhz, found.causes) == (1, None, None, ())


def test_what_the_device_is_to_blame_for_says_nothing_of_the_configuration(
    history: History, client: TestClient
) -> None:
    failed = history.start_testing(history.propose({"serving.threads": 4}))
    with history.database.write() as session:
        experiment = session.get_one(Experiment, failed)
        experiment.state, experiment.failure_kind = ExperimentState.FAILED, "device_busy"
        experiment.failure = "2.0 GiB of cuda:0 are taken by python3 (process 7)."
    html = unescape(client.get(f"/experiments/E-{failed:04d}").text)
    assert "Device busy: 2.0\u202fGiB" in html or "Device busy: 2.0 GiB" in html
    assert "This says nothing of the configuration, so its hypothesis waits again." in html
