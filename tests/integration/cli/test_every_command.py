"""Every command over a real database: text without escape codes, and one JSON document with the promised
fields."""

import json
import os
import re
import signal
import socket
import subprocess
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from db import events
from db.event_kinds import EventKind
from db.session import open_database
from experiments.telemetry.collector import COMMAND
from experiments.telemetry.keeping import kept
from experiments.telemetry.turns import FOLDER
from tests.history.awaiting import let_wait
from tests.history.campaign_history import TARGET
from tests.integration.cli.command import Autoinfer
from tests.new_database import database_url, new_database
from tests.waiting import PATIENCE_S, wait_for

READING = {
    "summary": {
        "headline",
        "best",
        "validating",
        "supported",
        "ruled_out",
        "surprised",
        "spent",
        "stopped_because",
        "how_it_came",
    },
    "queue": {"campaign", "items", "total", "limit", "offset"},
    "hypotheses": {"items", "total", "limit", "offset"},
    "experiments": {"items", "total", "limit", "offset"},
    "findings": {"items", "total", "limit", "offset"},
    "show C-1": {"id", "state", "hypotheses", "spent", "directives"},
    "show H-001": {"id", "claim", "predicted", "measured", "moves", "parents", "experiments"},
    "show E-0001": {"id", "verdict", "launches", "resolved_differences", "environments", "reproduce_command"},
    "show F-001": {"id", "claim", "scope", "strength", "evidence"},
    "show A-3fa9": {"digest", "kind", "bytes", "experiments"},
    "graph show": {"nodes", "edges"},
    "graph known serving.threads": {"question", "asked", "sentence", "sections"},
    "graph why-not H-002": {"question", "asked", "sentence", "sections"},
    "graph led-to F-001": {"question", "asked", "sentence", "sections"},
    "graph if-fell E-0001": {"question", "asked", "sentence", "sections"},
    "log": {"events", "last_id"},
    "campaign list": {"items", "total", "limit", "offset"},
    "config show": {"settings"},
    "config path": {"data_dir", "database_url", "settings_files"},
    "artifacts list": {"items", "total", "limit", "offset"},
    "artifacts size": {"root", "count", "bytes", "kinds"},
    "db upgrade": {"database", "revision", "upgraded"},
}


def test_a_summary_begins_with_how_it_came_to_that(with_history: Autoinfer) -> None:
    headline, *rest = with_history("summary").out.splitlines()
    assert headline.startswith("C-1 looks for what makes reference faster")
    lead = " ".join(rest[: rest.index("")])
    assert "Found first: After" in lead
    assert "with 1 test, H-001: One thread is faster, TPOT −10.0 % [−12.0, −8.0] (E-0001)." in lead
    assert lead.endswith("The whole story: autoinfer story C-1")


def test_a_summary_takes_its_campaign_as_reports_and_stories_do(with_history: Autoinfer) -> None:
    assert with_history("summary C-1").out == with_history("summary --campaign C-1").out
    told = with_history("summary C-2")
    assert (told.code, "C-2 does not exist" in told.err) == (2, True)


def test_a_campaigns_sheet_tells_its_budget_as_reports_do(with_history: Autoinfer) -> None:
    lines = with_history("show C-1").out.splitlines()
    told = with_history("report --format md").out
    (budget,) = (" ".join(each.split()[1:]) for each in lines if each.startswith("budget "))
    assert re.fullmatch(r"9 min 40 s(; .* spent, by the clock while it ran)?", budget)
    assert f"| Budget | {budget} |" in told


@pytest.mark.parametrize("line", READING)
def test_reading_commands_print_text_and_json(with_history: Autoinfer, line: str) -> None:
    text, document = with_history(line), with_history(f"{line} --json")
    assert (text.code, text.err) == (0, "")
    assert text.out.strip()
    keyed = [each for each in text.out.splitlines() if TARGET in each]
    assert [each for each in keyed if not each.startswith(("target's key ", f"hardware:{TARGET} "))] == []
    assert "\x1b" not in text.out  # no terminal, no escape codes
    assert (document.code, document.err) == (0, "")
    assert READING[line] <= set(document.json())


def test_the_doctor_prints_a_verdict_and_advice_for_every_check(autoinfer: Autoinfer) -> None:
    done = autoinfer("doctor --json")
    checks = {check["name"]: check for check in done.json()["checks"]}
    assert {
        "python",
        "cores",
        "memory",
        "disk",
        "data folder",
        "database",
        "noise profile",
        "rented machines",
        "gpu",
        "vllm",
        "torch",
        "transformers",
        "compiler",
        "reference model",
        "quantization",
        "language model",
    } == set(checks)
    assert all(check["verdict"] in ("ok", "warn", "fail") for check in checks.values())
    assert all(check["advice"] for check in checks.values() if check["verdict"] != "ok")
    assert done.code == (1 if any(check["verdict"] == "fail" for check in checks.values()) else 0)
    assert not autoinfer.data_dir.exists()  # looking changes nothing


def test_the_doctor_works_without_torch(autoinfer: Autoinfer, tmp_path: Path) -> None:
    # A core-only installation: the finder knows no torch and no transformers.
    (tmp_path / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "found = PathFinder.find_spec\n"
        "def find_spec(name, path=None, target=None):\n"
        "    hidden = name.partition('.')[0] in ('torch', 'transformers')\n"
        "    return None if hidden else found(name, path, target)\n"
        "PathFinder.find_spec = find_spec\n"
    )
    path = os.pathsep.join([str(tmp_path), autoinfer.environment()["PYTHONPATH"]])
    done = autoinfer.fresh("doctor --json", PYTHONPATH=path)
    checks = {check["name"]: check for check in done.json()["checks"]}
    assert checks["torch"]["verdict"] == "warn"
    assert "autoinfer[reference]" in checks["torch"]["advice"]


def test_an_experiments_samples_are_printed_when_asked_for(with_history: Autoinfer) -> None:
    samples = with_history("show E-0001 --samples --json").json()["samples"]
    assert len(samples) == 10
    told = {
        "arm",
        "launch",
        "stage",
        "block",
        "position",
        "item",
        "seq",
        "metric",
        "unit",
        "value",
        "used_by",
    }
    assert set(samples[0]) == told
    out = with_history("show E-0001 --samples").out
    (row,) = [line for line in out.splitlines() if "prompt-3" in line and "tpot" in line][:1]
    assert row.split()[0] in ("control", "candidate"), "a sample takes one line"


def test_the_verdict_and_its_way_back_are_on_the_experiments_page(with_history: Autoinfer) -> None:
    page = with_history("show e-1").out
    for part in (
        "serving.threads 2 → 1",
        "−10.0 % [−12.0, −8.0]",
        "4 launches",
        "The interval says so.",
        "median",
        "A-3fa9",
        "/logs/full.log",
        "Example CPU",
        "autoinfer reproduce E-0001",
    ):
        assert part in page


def test_what_a_user_wrote_is_never_taken_for_a_style(with_history: Autoinfer) -> None:
    assert "Eight threads [really] are faster." in with_history("hypotheses").out


@pytest.mark.parametrize("columns", ["30", "40", "80", "200"])
def test_nothing_is_cut_off_on_a_narrow_terminal(with_history: Autoinfer, columns: str) -> None:
    for line in ("experiments", "hypotheses", "queue", "findings", "show E-0001", "log", "doctor"):
        out = with_history(line, COLUMNS=columns).out
        assert "…" not in out
        if line in ("experiments", "hypotheses"):
            assert "inconclusive" in out


def test_colour_comes_only_where_it_is_wanted(with_history: Autoinfer) -> None:
    assert "\x1b[" in with_history("experiments", FORCE_COLOR="1").out
    assert "\x1b[3" not in with_history("experiments", FORCE_COLOR="1", NO_COLOR="1").out


def test_steering_is_stored_and_shown(with_history: Autoinfer) -> None:
    assert with_history("focus threads").code == 0
    given = with_history("ban dtype --json").json()
    assert given["directives"][0]["kind"] == "ban"
    directives = with_history("show C-1 --json").json()["directives"]
    assert [(each["kind"], each["lever"]) for each in directives] == [("focus", "threads"), ("ban", "dtype")]
    assert with_history("focus --clear").code == 0
    assert len(with_history("show C-1 --json").json()["directives"]) == 1


def test_a_pin_a_withdrawal_and_the_life_of_a_campaign(with_history: Autoinfer) -> None:
    assert with_history("pin H-7 --json").json() == {"hypothesis": "H-007", "pinned": True}
    assert with_history("pin H-7 --clear --json").json() == {"hypothesis": "H-007", "pinned": False}
    assert with_history("move H-7 --to 1 --json").json() == {"hypothesis": "H-007", "place": 1}
    assert with_history("move H-7 --clear").out.startswith("H-007 goes where its score puts it")
    assert "either a place or --clear" in with_history("move H-7").err
    assert with_history("withdraw H-7 --why enough --json").json()["state"] == "withdrawn"
    assert with_history("campaign pause --json").json()["state"] == "paused"
    assert with_history("campaign resume").out == (
        "C-1 is no longer paused, but no process drives it now.\nGo on with: autoinfer run --resume C-1\n"
    )
    assert with_history("campaign stop --json").json() == {
        "campaign": "C-1",
        "state": "stopped",
        "stopped_because": "the user stopped it",
        "driven": False,
        "go_on": None,
    }


def test_what_waits_is_approved_all_or_none_and_taken_back(with_history: Autoinfer) -> None:
    database = open_database(database_url(with_history.data_dir))
    first, second = let_wait(database, 1, 2)
    database.close()
    told = with_history(f"approve {first} H-5")
    assert told.code == 2
    assert "H-005 is testing; only what waits in the queue can be approved." in told.err
    term = "of what is expected to take more than 10 min; now H-006, H-007"
    assert term in with_history("show C-1").out
    assert len(with_history("queue --awaiting --json").json()["items"]) == 2, "none was approved"

    assert with_history(f"approve {first} {second}").out.startswith(
        f"{first} may be tested when its turn comes (expected to take 12 min 30 s, and 40 min if all of its "
    )
    assert with_history("queue --awaiting").out == "Nothing in C-1 waits for your approval.\n"
    assert "given (event " in with_history(f"show {first}").out
    again = with_history(f"approve {first} --json").json()["hypotheses"][0]
    assert (again["hypothesis"], again["approved"], again["quote"]["waits"]) == (first, True, False)

    assert with_history(f"approve {first} --clear").out.startswith(f"{first} is no longer approved and waits")
    assert "waits for yours: expected to take 12 min 30 s" in with_history(f"show {first}").out
    assert "more than 5 min" in with_history(f"approve {first} --up-to 5m").err
    assert "has no meaning beside --clear" in with_history(f"approve {second} --clear --up-to 5m").err


def test_where_nothing_waits_nothing_is_approved(with_history: Autoinfer) -> None:
    told = with_history("approve H-7")
    assert told.code == 2
    assert "H-007 does not wait for approval: C-1 asks for no approval." in told.err


def test_a_note_makes_findings_stale(with_history: Autoinfer) -> None:
    assert with_history("note 'New driver' --stale threads --json").json()["stale"] == ["F-001"]
    assert "stale" in with_history("findings").out


def test_the_graph_is_shown_around_a_label_as_every_question_takes_one(with_history: Autoinfer) -> None:
    shown = with_history("graph show f-1")
    assert shown.code == 0
    assert "H-001" not in shown.out, "two steps away"
    assert {"F-001", "E-0001"} <= set(shown.out.split())
    assert shown.out == with_history("graph show --around F-001").out
    assert "H-001" in with_history("graph show F-001 --depth 2").out
    assert with_history("graph show knob:serving.threads --json").json()["nodes"]["knob"] == 1


def test_the_graph_is_written_to_a_file(with_history: Autoinfer, tmp_path: Path) -> None:
    assert with_history("graph export --format graphml --output g.graphml").code == 0
    assert (tmp_path / "g.graphml").read_text().startswith("<?xml")
    assert with_history("graph export --output g.json --json").json()["format"] == "json"
    assert "nodes" in json.loads((tmp_path / "g.json").read_text())


def test_artifacts_are_pruned_by_age(autoinfer: Autoinfer) -> None:
    folder = autoinfer.data_dir / "artifacts" / ("0" * 64)
    folder.mkdir(parents=True)
    (folder / "left").write_bytes(b"x" * 100)
    assert autoinfer("artifacts prune --unused-for 1d --json").json()["deleted"] == []
    os.utime(folder, (0, 0))
    assert autoinfer("artifacts prune --unused-for 1d --dry-run --json").json()["freed_bytes"] == 100
    assert folder.exists()
    assert autoinfer("artifacts prune --unused-for 1d --json").json()["deleted"] == ["0" * 64]
    assert not folder.exists()


def test_global_options_stand_before_or_after_the_command(with_history: Autoinfer, tmp_path: Path) -> None:
    url = database_url(with_history.data_dir)
    elsewhere = {"AUTOINFER_DATA_DIR": str(tmp_path / "elsewhere")}
    before = with_history(f"--db {url} campaign list --json", **elsewhere)
    after = with_history(f"campaign list --json --db={url}", **elsewhere)
    assert before.json()["total"] == after.json()["total"] == 1


def test_a_setting_tells_that_it_came_from_the_command_line(autoinfer: Autoinfer, tmp_path: Path) -> None:
    shown = autoinfer(f"config show --json --data-dir {tmp_path / 'mine'}").json()["settings"]
    assert (shown["data_dir"]["origin"], shown["data_dir"]["place"]) == ("command line", "--data-dir")
    assert shown["lease_s"]["origin"] == "default"
    assert all(setting["about"] for setting in shown.values())


def test_following_the_log_shows_each_event_once_as_it_comes(with_history: Autoinfer) -> None:
    process = with_history.start("log --follow --since 0 --json", AUTOINFER_LOG_POLL_S="0.05")
    assert process.stdout is not None
    database = open_database(database_url(with_history.data_dir))
    try:
        with database.read() as session:
            last = events.last_id(session)
        seen = [json.loads(process.stdout.readline())["id"] for _ in range(last)]
        with database.write() as session:
            added = events.append(session, EventKind.NOTE_ADDED, "Something new.")
        line = json.loads(process.stdout.readline())
        assert seen == list(range(1, last + 1))
        assert (line["id"], line["text"]) == (added, "Something new.")
    finally:
        database.close()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert err == ""


def test_the_log_tells_the_first_moves_of_an_order_below_it(with_history: Autoinfer) -> None:
    moves = [f"H-00{n} {n + 1} → {n}: H-009 left the queue ahead of it" for n in (1, 2, 3, 4)]
    database = open_database(database_url(with_history.data_dir))
    with database.write() as session:
        data = {"order": [1], "told": moves}
        events.append(
            session,
            EventKind.QUEUE_RANKED,
            "Ranked 4 hypotheses; 1 entered and 4 moved",
            campaign_id=1,
            data=data,
        )
    database.close()
    _day, order, *below = with_history("log --limit 1").out.splitlines()
    assert order.endswith("Ranked 4 hypotheses; 1 entered and 4 moved")
    assert [each.strip() for each in below] == moves[:3]


def test_a_reader_that_goes_away_ends_the_command_quietly(with_history: Autoinfer) -> None:
    process = with_history.start("show E-0001 --samples --json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(timeout=PATIENCE_S) == 0


def test_a_terminal_without_unicode_gets_question_marks_and_no_crash(with_history: Autoinfer) -> None:
    done = with_history.fresh("experiments", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.code == 0
    assert "E-0001" in done.out


def test_the_version_is_that_of_the_distribution(autoinfer: Autoinfer) -> None:
    from importlib.metadata import version

    done = autoinfer.fresh("--version")
    assert (done.code, done.out) == (0, f"autoinfer {version('autoinfer')}\n")


def test_no_command_shows_the_help(autoinfer: Autoinfer) -> None:
    done = autoinfer.fresh("")
    assert done.code == 0
    assert "Run an autonomous campaign" in done.out


def test_a_worker_ends_when_asked_and_tells_how_many_jobs(with_history: Autoinfer) -> None:
    done = with_history("worker --once --json")
    assert done.code == 0, done.err
    assert done.json()["jobs_ended"] == 0


def interrupt_after(
    kind: EventKind, process: subprocess.Popen[str], data_dir: Path, end: signal.Signals = signal.SIGINT
) -> None:
    """Send Ctrl C, or what else is to end it, once the database tells of such an event, or the process has
    ended."""
    database = open_database(database_url(data_dir))
    try:
        for event in events.follow(database, 0, lambda: process.poll() is None):
            if event.kind == kind:
                break
    finally:
        database.close()
    process.send_signal(end)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=lambda each: each.name)
def test_a_campaign_ended_by_ctrl_c_or_a_service_manager_says_what_is_kept(
    autoinfer: Autoinfer, end: signal.Signals
) -> None:
    new_database(autoinfer.data_dir).close()
    process = autoinfer.start("run --no-worker --no-dashboard --json")
    interrupt_after(EventKind.WORKER_MISSING, process, autoinfer.data_dir, end)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    told = json.loads(out.splitlines()[-1])
    assert (told["campaign_id"], told["stopped_because"], told["baseline"]) == ("C-1", None, None)


def test_a_worker_ends_in_good_order_on_ctrl_c(with_history: Autoinfer) -> None:
    process = with_history.start("worker --json")
    interrupt_after(EventKind.WORKER_STARTED, process, with_history.data_dir)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["jobs_ended"] == 0


def test_a_worker_keeps_means_of_the_devices_of_its_host_where_no_dashboard_does(
    with_history: Autoinfer,
) -> None:
    process = with_history.start("worker --json")
    wait_for(lambda: has_read(process.pid) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    database = open_database(database_url(with_history.data_dir))
    with database.read() as session:
        means = kept(session, datetime.now(UTC) - timedelta(hours=1))
    database.close()
    assert (socket.gethostname(), "cpu") in {(each.host, each.device) for each in means}


def test_a_worker_of_pairs_with_a_command_beside_has_nothing_else_there(
    with_history: Autoinfer,
) -> None:
    assert with_history("worker --once --beside true").code == 0
    assert not (with_history.data_dir / FOLDER).exists()
    assert with_history("worker --once").code == 0
    assert (with_history.data_dir / FOLDER).exists()


def has_read(worker: int) -> bool:
    """Whether the process that reads the devices for a worker has told something."""
    with suppress(psutil.Error):
        for child in psutil.Process(worker).children():
            if COMMAND[-1] in child.cmdline() and child.io_counters().write_chars:
                return True
    return False
