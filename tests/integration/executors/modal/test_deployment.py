"""Deploying, looking and ending, by the command line, through Modal's real client library."""

import json
import re
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from cli.main import call
from experiments.engines.vllm.environment import IN_IMAGES
from experiments.executors.modal import deployment
from experiments.executors.modal.client import boards
from experiments.executors.modal.executor import END_S, ModalExecutor
from experiments.executors.modal.prices import current_rates
from experiments.executors.modal.protocol import DEPLOYMENT, Deployment
from experiments.executors.port import RunState
from experiments.job.place import Place
from tests.integration.executors.conformance import SLOW
from tests.simulated.modal.places import QUICK, ModalPlace, modal_executor
from tests.simulated.modal.server import FakeModal
from tests.simulated.specs import a_test_job


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert call([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_deploy_puts_up_the_code_says_what_it_is_and_leaves_nothing_behind(
    fake: FakeModal, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    deployed = fake.published[fake.apps["autoinfer"]]
    before = dict(fake.functions)
    fake.mounted.clear()
    try:
        document = told(capsys, "modal", "deploy", "--startup", "7m")
        [function] = [fake.functions[each] for each in deployed.values()]
        assert function.module_name == "experiments.executors.modal.remote"
        assert function.implementation_name == "job"
        assert function.startup_timeout_secs == 420
        assert function.retry_policy.retries == 0
        assert {mount.mount_path for mount in function.volume_mounts} == {"/models", "/autoinfer"}
    finally:
        fake.functions.clear()
        fake.functions.update(before)
    assert document["version"] == 1
    assert document["vllm"] == f"vllm=={IN_IMAGES}"
    for needed in (
        "/root/experiments/executors/modal/remote.py",
        "/root/configs/packaged/campaigns/default.yaml",
        "/root/autoinfer-0.1.0.dist-info/METADATA",
        "/root/autoinfer-0.1.0.dist-info/entry_points.txt",
    ):
        assert needed in fake.mounted
    assert not [each for each in fake.mounted if "__pycache__" in each or "/tests/" in each]
    assert list(tmp_path.iterdir()) == []


def test_status_tells_what_runs_and_what_it_costs_and_stop_ends_all_of_it(
    place: ModalPlace, capsys: pytest.CaptureFixture[str]
):
    executor = place.executor()
    ref = executor.submit("runs", a_test_job(SLOW))
    place.wait_for(lambda: executor.poll(ref).state is RunState.RUNNING)
    document = told(capsys, "modal", "status")
    assert document["deployed"]
    assert document["takes_our_jobs"]
    [running] = document["running"]
    assert (running["call"], running["job"]) == (ref, "runs")
    assert document["usd_so_far"] == running["usd"] > 0
    assert call(["modal", "status"]) == 0
    said = capsys.readouterr().out
    assert "; 1 call runs." in said
    assert "Together" in said
    assert told(capsys, "modal", "stop")["cancelled"] == [ref]
    assert place.living(ref) == 0
    assert executor.poll(ref).state is RunState.CANCELLED, "so that nobody starts it again"
    assert not told(capsys, "modal", "status")["deployed"]
    assert told(capsys, "modal", "stop")["cancelled"] == []
    assert call(["modal", "status"]) == 0
    assert "There is no app 'autoinfer' on Modal. Deploy this version with" in capsys.readouterr().out


def test_an_app_of_another_version_is_told_with_what_to_do(
    fake: FakeModal, capsys: pytest.CaptureFixture[str]
):
    app_id = fake.apps["autoinfer"]
    there = fake.published[app_id]
    fake.published[app_id] = {"job_v7": next(iter(there.values()))}
    try:
        assert not told(capsys, "modal", "status")["takes_our_jobs"]
        assert call(["modal", "status"]) == 0
        assert "has job_v7, and this autoinfer calls job_v1" in capsys.readouterr().out
    finally:
        fake.published[app_id] = there


def test_a_quote_counts_the_start_up_that_was_deployed_and_the_usual_one_where_modal_does_not_tell(
    place: ModalPlace,
) -> None:
    job = a_test_job()
    usual = place.executor().quote(job, 600.0)
    assert usual.upper_bound_s == 600 + END_S + 2 * deployment.STARTUP_S
    boards().claims.put(
        DEPLOYMENT,
        Deployment(
            version=1, autoinfer="0", code="c", vllm="v", startup_s=300, deployed_at="2026-11-23"
        ).model_dump_json(),
    )
    closer = place.executor().quote(job, 600.0)
    assert closer.upper_bound_s == 600 + END_S + 2 * 300
    assert closer.upper_bound_usd < usual.upper_bound_usd


def test_a_changed_price_is_quoted_by_an_executor_that_asked_before_when_its_answer_is_old(
    place: ModalPlace,
):
    """A worker lives for weeks, and must not submit by the price of its first day."""
    folder = Place(artifacts_dir=place.folder, cache_dir=place.folder)
    executor = ModalExecutor(place.folder, folder, "modal:H100!", patience=QUICK, rates=current_rates)
    place.fake.rates = {"gpu_h100": "0.001", "cpu": "0.00001", "memory": "0.000002"}
    before = executor.quote(a_test_job())
    place.fake.rates["gpu_h100"] = "0.002"
    assert executor.quote(a_test_job()) == before, "it is not asked for each job"
    executor._patience = replace(QUICK, rates_s=0.0)
    after = executor.quote(a_test_job())
    assert after.upper_bound_usd > 1.5 * before.upper_bound_usd
    assert after.basis.startswith("7.95 USD an hour for H100!: Modal's rates for this workspace")


def test_a_plan_tells_the_prices_of_each_kind_of_job_as_modal_tells_them_and_calls_nothing(
    place: ModalPlace, capsys: pytest.CaptureFixture[str]
):
    place.fake.rates = {"gpu_h100": "0.002", "cpu": "0.00001", "memory": "0.000002"}
    data = str(place.folder / "data")
    words = ("--data-dir", data, "plan", "--model", "qwen3.5-9b", "--target", "modal:H100!", "--budget", "8h")
    document = told(capsys, *words)
    found = document["cost"]["rented"]
    assert found["usd_per_hour"] == pytest.approx(3600 * (0.002 + 8 * 0.00001 + 64 * 0.000002), rel=1e-6)
    assert "Modal's rates for this workspace" in found["basis"]
    bounds = {each["what"]: each["bound_usd"] for each in found["jobs"]}
    assert bounds["baseline"] < bounds["test"] < bounds["test that builds for quantization"]
    assert all(0 < each["expected_usd"] <= each["bound_usd"] for each in found["jobs"])
    assert document["cost"]["usd"] == found["campaign"]["expected_usd"] < found["campaign"]["most_usd"]
    assert call(list(words)) == 0
    text = capsys.readouterr().out
    for part in ("a job on modal:H100!", "a first verdict needs a budget of $", "the baseline and 15 tests"):
        assert part in text
    head = re.search(r"a job on modal:H100! +at most +in +expected +in\n", text)
    assert head, "each amount stands beside its time"
    assert re.search(r"\nbaseline +\$[\d.]+ +1 h 11 min +\$[\d.]+ +30 min *\n", text)
    assert len(place.fake.calls) == 0
    assert not (place.folder / "data").exists(), "planning makes nothing"


def test_a_plan_tells_packaged_prices_where_modal_does_not_answer(
    place: ModalPlace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from grpclib.const import Status

    place.fake.rates = {"gpu_l4": "0.0003", "cpu": "0.00001", "memory": "0.000002"}
    place.fake.refuse["WorkspaceBillingRates"] = [Status.UNAUTHENTICATED]
    document = told(capsys, "--data-dir", str(place.folder / "data"), "plan", "--target", "modal:L4")
    assert "packaged prices of" in document["cost"]["rented"]["basis"]


def test_a_refused_token_is_told_in_a_sentence(fake: FakeModal, capsys: pytest.CaptureFixture[str]):
    from grpclib.const import Status

    fake.refuse["AppGetOrCreate"] = [Status.UNAUTHENTICATED]
    assert call(["modal", "status"]) == 1
    assert "Modal does not accept the token" in capsys.readouterr().err


def test_without_modals_library_every_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path
):
    monkeypatch.setitem(__import__("sys").modules, "modal", None)
    assert call(["modal", "status"]) == 2
    assert "pip install 'autoinfer[modal]'" in capsys.readouterr().err
    modal_executor(tmp_path)  # making one asks for nothing


def test_the_fingerprint_of_the_code_does_not_change_by_itself():
    assert deployment.code_fingerprint() == deployment.code_fingerprint()
