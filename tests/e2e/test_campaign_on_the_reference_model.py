"""What a new user sees: a campaign on the packaged model on this CPU, and every number led back to samples.

The real engine, the real model, real processes; the user stops it when the first hypothesis is under test, so
that a slow machine takes longer and sees the same. It is the packaged campaign with fewer requests and
documents in every step; `make bench` runs that as it is packaged (`test_default_campaign`).
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from configs.campaign import load_campaign
from db.models import Experiment
from db.session import Database, open_database
from tests.integration.cli.command import Autoinfer, Ended
from tests.waiting import wait_for

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

COMMAND = [sys.executable, "-P", "-m", "cli"]
BUDGET = "20m"
PATIENCE_S = 600.0
FEWER = {
    "baseline.sweep": ["serving.threads"],
    "baseline.noise_launches": 2,
    "baseline.noise_blocks": 2,
    "plan.workload.prompt_tokens": 64,
    "plan.workload.new_tokens": 12,
    "plan.workload.prompts_per_block": 1,
    "plan.workload.evaluation_documents": 8,
    "plan.workload.evaluation_tokens_per_document": 128,
    "plan.workload.evaluation_items": 10,
    "plan.workload.drafting_new_tokens": 16,
    "plan.quick_blocks": 2,
    "plan.full_blocks": 2,
    "plan.full_pairs": 1,
}
"""Of the packaged campaign's figures."""


def autoinfer(data_dir: Path, *words: str) -> Ended:
    """Another command over the same data, beside the campaign or after it."""
    return Autoinfer(data_dir, limit_s=600)(shlex.join(words))


def document(data_dir: Path, *words: str) -> Any:
    ended = autoinfer(data_dir, *words, "--json")
    assert ended.code == 0, ended.err
    return ended.json()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


OWN = ["enqueue", "Four tokens pay", "--set", "drafting.method=mtp", "--set", "drafting.draft_tokens=4"]
"""What a user enqueues while the campaign runs, twice."""


@pytest.fixture(scope="module")
def both(data_dir: Path) -> tuple[dict[str, Any], list[Ended]]:
    """What a campaign says at its end, and what was said to a user who enqueued the same thing twice."""
    campaign = data_dir.parent / "fewer.yaml"
    campaign.write_text(load_campaign("default", FEWER).model_dump_json())  # which is YAML too
    command = [*COMMAND, "--data-dir", str(data_dir), "run", str(campaign), "--budget", BUDGET, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            wait_until(running, lambda: is_written(autoinfer(data_dir, "campaign", "list", "--json")))
            enqueued = [autoinfer(data_dir, *OWN, "--expect", "tpot=-10%") for _ in range(2)]
            assert enqueued[0].code == 0, enqueued[0].err
            # Else it is the machine that decides whether the first test is one that compiles for minutes.
            assert autoinfer(data_dir, "pin", "H-001").code == 0
            with closing(open_database(f"sqlite:///{data_dir / 'autoinfer.db'}")) as database:
                # Asking the command each time would take the campaign a fifth of its processor.
                wait_until(running, lambda: experiments(database) == 2)
            assert autoinfer(data_dir, "campaign", "stop").code == 0
            printed, complaints = running.communicate(timeout=600)
        finally:
            running.terminate()
    assert running.returncode == 0, complaints
    return json.loads(printed.splitlines()[-1]), enqueued


def is_written(listed: Ended) -> bool:
    """Whether the campaign is among those listed; the database is there a moment before it is."""
    return listed.code == 0 and bool(listed.json()["items"])


def experiments(database: Database) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(Experiment)) or 0


def wait_until(running: subprocess.Popen[str], happened: Callable[[], bool]) -> None:
    """Wait for it; the campaign must not end before."""

    def goes_on_and_happened() -> bool:
        assert running.poll() is None, running.stderr and running.stderr.read()
        return happened()

    wait_for(goes_on_and_happened, PATIENCE_S)


@pytest.fixture(scope="module")
def outcome(both: tuple[dict[str, Any], list[Ended]]) -> dict[str, Any]:
    return both[0]


def test_a_duplicate_of_an_earlier_hypothesis_is_refused_by_its_number(
    both: tuple[dict[str, Any], list[Ended]],
) -> None:
    first, second = both[1]
    assert first.code == 0, first.err
    label = re.search(r"H-\d+", first.out)
    assert label is not None
    assert second.code == 2
    assert label[0] in second.err
    assert "Traceback" not in second.err


def test_what_the_user_pinned_is_tested_first(data_dir: Path, outcome: dict[str, Any]) -> None:
    first = next(row for row in document(data_dir, "experiments")["items"] if row["id"] == "E-0002")
    assert (first["hypothesis"], first["outcome"] is None) == ("H-001", False)


def test_a_campaign_ends_with_one_object_that_says_everything(outcome: dict[str, Any]) -> None:
    assert outcome["campaign_id"] == "C-1"
    assert outcome["stopped_because"] == "stopped by the user"
    assert outcome["baseline"]["tpot_ms"] > 0
    assert outcome["baseline"]["ttft_ms"] > 0
    assert 0.5 < outcome["baseline"]["bits_per_byte"] < 2
    assert outcome["naive"]["tpot_ms"] > 0
    assert outcome["best"]["speedup"] >= 1
    assert sum(outcome["hypotheses"].values()) >= 1
    assert outcome["spent"]["experiments"] >= 2
    assert outcome["events"] > 10


def test_the_baseline_is_no_slower_than_the_naive_default(outcome: dict[str, Any]) -> None:
    baseline, naive = outcome["baseline"], outcome["naive"]
    assert baseline["sweep_tpot_ms"] <= naive["sweep_tpot_ms"]
    assert baseline["tpot_ms"] <= naive["tpot_ms"]


def test_every_verdict_is_shown_with_its_reason_and_its_samples(
    data_dir: Path, outcome: dict[str, Any]
) -> None:
    judged = [row for row in document(data_dir, "experiments")["items"] if row["outcome"] is not None]
    assert len(judged) == sum(outcome["hypotheses"].values())
    for row in judged:
        shown = document(data_dir, "show", row["id"], "--samples")
        assert shown["verdict"]["reason"]
        if shown["verdict"]["samples"]:
            assert "tpot_ms" in json.dumps(shown["samples"])


def test_the_log_tells_the_story_in_order(data_dir: Path, outcome: dict[str, Any]) -> None:
    told = document(data_dir, "log", "--since", "0", "--limit", "1000")["events"]
    kinds = [event["kind"] for event in told]
    assert kinds[0] == "campaign.started"
    assert kinds.index("campaign.baseline") < kinds.index("campaign.stopped")


def test_a_report_of_it_is_whole_and_what_there_is_to_deploy_is_written_or_refused(
    data_dir: Path, outcome: dict[str, Any]
) -> None:
    told = document(data_dir, "report")
    assert told["baseline"] == outcome["baseline"]["configuration"]
    assert len([each for each in told["trials"] if each["outcome"]]) == sum(outcome["hypotheses"].values())
    assert all(each["holds"] for each in told["seals"])
    assert told["machines"][0]["packages"]["torch"]
    assert {each["experiment"] for each in told["samples"]} >= {"E-0001"}
    assert "## 15 Raw samples" in autoinfer(data_dir, "report", "--format", "md").out

    folder = data_dir.parent / "deploy"
    exported = autoinfer(data_dir, "export", "--recipe", "--to", str(folder))
    if outcome["best"]["experiment"] is None:
        assert exported.code == 2
        assert "Nothing of C-1 beats its baseline" in exported.err
    else:
        assert exported.code == 0, exported.err
        recipe = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))
        assert recipe["configuration"] == outcome["best"]["configuration"]
        assert recipe["experiment"] == outcome["best"]["experiment"]


def test_the_summary_and_the_graph_speak_of_it(data_dir: Path, outcome: dict[str, Any]) -> None:
    assert "baseline" in autoinfer(data_dir, "summary").out.lower()
    graph = document(data_dir, "graph", "export")
    assert any("H-001" in json.dumps(node) for node in graph["nodes"])


def test_a_user_s_hypothesis_on_an_unknown_knob_is_refused_by_its_name(
    data_dir: Path, outcome: dict[str, Any]
) -> None:
    refused = autoinfer(
        data_dir, "enqueue", "Layers are free", "--set", "pruning.nonsense=1", "--expect", "tpot=-10%"
    )
    assert refused.code == 2
    assert "pruning.nonsense" in refused.err
    assert "Traceback" not in refused.err
