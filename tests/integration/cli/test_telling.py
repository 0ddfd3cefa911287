"""What is told on the terminal when a campaign begins, and while it runs."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from agent.campaign.learning.outcome import campaign_outcome
from agent.proposers.user import PROPOSER as USER
from cli.running.telling import Teller, naive_words, saved_words
from configs.campaign import load_campaign
from db import events
from db.event_kinds import EventKind
from db.models import Event, Hypothesis
from db.session import open_database
from db.states import HypothesisState
from knowledge.acts import steering
from knowledge.latency_only import FASTEST
from knowledge.queries.spent.saved_time import SavedView
from tests.history.campaign_history import History, a_full_history
from tests.integration.cli.command import Autoinfer
from tests.new_database import database_url


@pytest.mark.parametrize(("budget", "told"), [("1s", "1 s"), ("90m", "1 h 30 min"), ("8h", "8 h")])
def test_the_header_names_the_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str, told: str
) -> None:
    history = a_full_history(tmp_path)
    Teller(history.database, 1, quiet=False).header(load_campaign("default", {"budget": budget}), "here.db")
    history.close()
    printed = " ".join(capsys.readouterr().out.split())
    limits = "worth having: 3 % less TPOT; quality: bits per byte at most +1 %, tasks at most −2 points"
    assert f"{limits}; budget {told} workload: 1 request at once of 128 + 32 tokens everything" in printed


def test_the_header_calls_the_metric_as_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = a_full_history(tmp_path)
    spec = load_campaign("default", {"plan.metric": "e2el_ms"})
    Teller(history.database, 1, quiet=False).header(spec, "here.db")
    history.close()
    assert "worth having: 3 % less end-to-end latency; " in capsys.readouterr().out


def test_the_header_says_what_is_to_be_known_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = a_full_history(tmp_path)
    teller = Teller(history.database, 1, quiet=False)
    teller.header(load_campaign("default"), "here.db", warning="The baseline is above the budget.")
    history.close()
    assert "\nThe baseline is above the budget.\n" in capsys.readouterr().out


def test_only_the_agents_own_proposals_are_withdrawn_without_a_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = a_full_history(tmp_path)
    teller = Teller(history.database, 1, quiet=False)
    with history.database.write() as session:
        waiting = session.scalars(select(Hypothesis).where(Hypothesis.state == HypothesisState.QUEUED)).all()
        users, agents = waiting[0].id, waiting[1].id
        waiting[0].proposer = USER
        steering.withdraw_proposal(session, users, "On the baseline it is the same as H-001.")
        steering.withdraw_proposal(session, agents, "H-001 is the best now.")
    teller.tell_new()
    history.close()
    printed = capsys.readouterr().out
    assert "was withdrawn: On the baseline it is the same as H-001." in printed
    assert "H-001 is the best now" not in printed


def test_what_begins_is_told_with_its_claim_and_why_it_goes_before_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    history = a_full_history(tmp_path)
    teller = Teller(history.database, 1, quiet=False)
    data = {
        "experiment_id": 9,
        "claim": "One layer less is faster.",
        "why_now": "taken before H-001, which does not pay",
    }
    with history.database.write() as session:
        events.append(session, EventKind.HYPOTHESIS_PREREGISTERED, "…", "H-002", 1, data)
    teller.tell_new()
    history.close()
    told = "E-0009  tests H-002: One layer less is faster; taken before H-001, which does not pay"
    assert told in capsys.readouterr().out


def test_a_stage_whose_result_was_there_is_told_as_that_and_not_as_begun_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    history = a_full_history(tmp_path)
    teller = Teller(history.database, 1, quiet=False)
    started, finished = EventKind.STAGE_STARTED, EventKind.STAGE_FINISHED
    with history.database.write() as session:
        for turn, kind, text, outcome in (
            (0, started, "quantize the checkpoint.", None),
            (1, finished, "quantize the checkpoint, reused after 0.2 s.", "reused"),
            (2, started, "time both.", None),
            (3, finished, "time both, done after 20 s.", "done"),
        ):
            told = {"stage": "any", "attempt": 2, "turn": turn} | ({"outcome": outcome} if outcome else {})
            events.append(session, kind, f"E-0002: {text}", "E-0002", 1, told)
    teller.tell_new()
    history.close()
    said = [line.split("E-0002")[1].strip() for line in capsys.readouterr().out.splitlines()]
    assert said == ["quantize the checkpoint, reused after 0.2 s.", "time both."]


@pytest.mark.parametrize(
    ("by_clock", "words"),
    [
        (True, "7 min 40 s by the clock by stopping early, of an estimated 11 min 17 s for the whole plans"),
        (
            False,
            "7 min 40 s of 11 min 17 s of planned launch time, in which launches side by side count each, by "
            "stopping early",
        ),
    ],
)
def test_what_stopping_early_saved_says_of_what_time_it_is(by_clock: bool, words: str) -> None:
    early = SavedView(experiments=2, by_clock=by_clock, spent_s=217.0, planned_s=677.0, saved_s=460.0)
    assert saved_words(early.model_dump()) == words
    assert saved_words(SavedView().model_dump()) is None


BASELINE = {"configuration": {"serving.dtype": "float32"}, "sweep_tpot_ms": 6.0}
BOTH = "took 1.50× the baseline's time in the sweep (9.00 against 6.00 ms a token)"


@pytest.mark.parametrize(
    ("naive", "words"),
    [
        ({"configuration": {"serving.dtype": "float32"}, "sweep_tpot_ms": 6.1}, "is the baseline"),
        ({"configuration": {"serving.dtype": "bfloat16"}, "sweep_tpot_ms": 9.0}, BOTH),
        ({"configuration": {"serving.dtype": "bfloat16"}, "sweep_tpot_ms": None}, "did not run"),
    ],
)
def test_the_engines_own_default_is_told_by_what_ran_side_by_side(naive: dict[str, Any], words: str) -> None:
    assert naive_words(naive, BASELINE) == words


def test_the_engines_own_default_is_told_on_the_metric_that_the_campaign_is_about() -> None:
    naive = {"configuration": {"serving.dtype": "bfloat16"}, "sweep_tpot_ms": 9.0, "ttft_ms": 20.0}
    told = naive_words(naive, {**BASELINE, "ttft_ms": 80.0}, "ttft_ms")
    assert told == "took 0.25× the baseline's time in the sweep (20.00 against 80.00 ms to the first token)"


@pytest.mark.parametrize(("note", "deploys"), [(None, True), (FASTEST, False)])
def test_the_end_names_what_writes_what_to_deploy_but_of_made_up_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], note: str | None, deploys: bool
) -> None:
    history = a_full_history(tmp_path)
    with history.database.read() as session:
        outcome = {**campaign_outcome(session, 1), "best": {"experiment": "E-0001", "note": note}}
    Teller(history.database, 1, quiet=False).result(outcome)
    history.close()
    told = capsys.readouterr().out
    assert "Confirm: autoinfer reproduce E-0001" in told
    assert ("Deploy: autoinfer export C-1 --recipe" in told) is deploys


def written_at(history: History, first: int, *days: str) -> None:
    """Put events from `first` on onto these days, each at noon in UTC."""
    with history.database.write() as session:
        for event, day in enumerate(days, start=first):
            session.get_one(Event, event).at = datetime.fromisoformat(f"{day}T12:00:00+00:00")


def test_a_campaign_that_runs_over_midnight_says_which_day_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = a_full_history(tmp_path)
    teller = Teller(history.database, 1, quiet=False)
    with history.database.write() as session:
        first, *_ = [events.append(session, EventKind.CAMPAIGN_PAUSED, each, "C-1", 1) for each in "abc"]
    written_at(history, first, "2101-05-05", "2101-05-06", "2101-05-06")
    teller.tell_new()
    history.close()
    lines = [line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["2101-05-05 UTC", "a", "2101-05-06 UTC", "b", "c"]


def test_the_log_says_which_day_its_hours_are_of(tmp_path: Path, with_history: Autoinfer) -> None:
    history = History(tmp_path / "other", open_database(database_url(with_history.data_dir)))
    written_at(history, 1, "2101-05-06", "2101-05-06", "2101-05-07")
    history.close()
    lines = with_history("log --since 0 --limit 3").out.splitlines()
    found = [line.strip() for line in lines if re.fullmatch(r"\s+\d{4}-\d\d-\d\d UTC", line)]
    assert found == ["2101-05-06 UTC", "2101-05-07 UTC"]
    assert lines[0].strip() == "2101-05-06 UTC", "what stands first has a day too"
