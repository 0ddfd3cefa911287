"""Whatever a command writes into the database is told in the log, and a command that looks writes nothing:
every command is walked."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from db.session import open_database
from experiments.reference_model.load import reference_model_path
from tests.history.awaiting import let_wait
from tests.integration.cli.command import Autoinfer
from tests.new_database import database_url
from tests.unit.cli.test_commands import LEAVES

WRITES: dict[str, tuple[tuple[str, ...], str]] = {
    "enqueue": (
        ("enqueue 'A draft of two tokens pays' --set drafting.method=ngram --set drafting.draft_tokens=2",),
        "hypothesis.proposed",
    ),
    "focus": (("focus threads",), "directive.given"),
    "boost": (("boost threads",), "directive.given"),
    "ban": (("ban threads",), "directive.given"),
    "cap": (("cap threads 3",), "directive.given"),
    "reserve": (("reserve threads 30%",), "directive.given"),
    "question": (("question H-7",), "directive.given"),
    "pin": (("pin H-7",), "directive.given"),
    "move": (("move H-7 --to 1",), "directive.given"),
    "approve": (("approve {waits}",), "directive.given"),
    "withdraw": (("withdraw H-7",), "hypothesis.withdrawn"),
    "note": (("note 'New driver' --stale threads",), "note.added"),
    "finding add": (("finding add 'One thread is enough here' --set serving.threads=1",), "finding.added"),
    "finding withdraw": (
        ("finding add 'One thread is enough here'", "finding withdraw {told}"),
        "finding.changed",
    ),
    "finding import": (("finding import {verdicts}",), "finding.imported"),
    "campaign pause": (("campaign pause",), "campaign.paused"),
    "campaign resume": (("campaign pause", "campaign resume"), "campaign.resumed"),
    "campaign stop": (("campaign stop",), "campaign.stopped"),
    "token new": (("token new laptop",), "access.given"),
    "token revoke": (("token new laptop", "token revoke laptop"), "access.revoked"),
    "budget set": (("budget set --day 10",), "budget.set"),
    "budget drop": (("budget set --day 10", "budget drop --day"), "budget.set"),
    "worker": (("worker --device cuda:7 --once",), "worker.started"),
}
"""Commands that write, with those that must run before, and the event that tells of the last."""

LOOKS = {
    "plan": "plan --hardware l4 --model qwen3.5-9b",
    "table list": "table list h200-9b",
    "summary": "summary",
    "report": "report",
    "story": "story",
    "queue": "queue",
    "hypotheses": "hypotheses",
    "experiments": "experiments",
    "findings": "findings",
    "finding export": "finding export",
    "answers": "answers",
    "show": "show E-0001",
    "graph known": "graph known serving.threads",
    "graph why-not": "graph why-not H-002",
    "graph led-to": "graph led-to F-001",
    "graph if-fell": "graph if-fell E-0001",
    "graph show": "graph show",
    "graph export": "graph export",
    "log": "log",
    "model": "model",
    "campaign list": "campaign list",
    "doctor": "doctor",
    "engines list": "engines list",
    "config show": "config show",
    "config path": "config path",
    "artifacts list": "artifacts list",
    "artifacts size": "artifacts size",
    "drafter show": "drafter show",
    "token list": "token list",
    "db upgrade": "db upgrade",
    "budget list": "budget list",
    "stop": "stop --remote",
    "reconcile": "reconcile",
}
"""Commands that only look, or find nothing to do, with a line of each."""

ELSEWHERE = {
    "run": "tests/integration/campaign, and tests/integration/compose as a process",
    "graph untested": "tests/unit/agent/asking/test_answers.py",
    "reproduce": "tests/integration/campaign/test_reproducing.py",
    "verify": "tests/integration/campaign/test_verifying.py",
    "promote": "tests/integration/cli/test_promote.py",
    "aa": "tests/integration/noise",
    "export": "tests/integration/campaign/test_recipe.py; writes no row",
    "build": "opens no database",
    "check": "tests/integration/campaign/test_recipe_check.py",
    "artifacts put": "tests/integration/cli/test_artifacts_put.py; opens no database",
    "judge": "opens no database",
    "replay": "opens no database",
    "table prepare": "opens no database",
    "table measure": "opens no database",
    "table export": "opens no database",
    "table archive": "opens no database",
    "table page": "opens no database",
    "table same": "opens no database",
    "dashboard": "tests/integration/dashboard/test_every_act_is_told.py",
    "mcp": "tests/integration/mcp/test_writing.py",
    "devices": "opens no database",
    "engines install": "opens no database",
    "reference train": "opens no database",
    "drafter train": "opens no database",
    "drafter score": "opens no database",
    "modal deploy": "opens no database",
    "modal status": "opens no database",
    "modal stop": "opens no database",
    "modal bill": "tests/integration/executors/modal/test_bill.py",
}
"""Commands that take minutes or open no database, and where what they write is looked at."""


def rows(autoinfer: Autoinfer) -> tuple[list[str], list[str]]:
    """All rows but the log's, and the kinds of the log's."""
    with sqlite3.connect(database_url(autoinfer.data_dir).removeprefix("sqlite:///")) as raw:
        others = [line for line in raw.iterdump() if not line.startswith('INSERT INTO "event"')]
        return others, [kind for (kind,) in raw.execute("SELECT kind FROM event ORDER BY id")]


def newest_finding(autoinfer: Autoinfer) -> str:
    """The label of the finding that was added last."""
    with sqlite3.connect(database_url(autoinfer.data_dir).removeprefix("sqlite:///")) as raw:
        return f"F-{raw.execute('SELECT max(id) FROM finding').fetchone()[0]}"


def a_file_of_verdicts(autoinfer: Autoinfer) -> Path:
    """Verdicts as another database would tell them: those of this one, a year earlier."""
    told = autoinfer("finding export --origin elsewhere").json()
    for verdict in told["verdicts"]:
        verdict["at"] = "2025-11-22T10:00:00+00:00"
    file = autoinfer.data_dir / "verdicts.json"
    file.write_text(json.dumps(told))
    return file


def the_packaged_model(autoinfer: Autoinfer) -> None:
    """Let the history's campaign be on a checkpoint that is there: what is legal on it is looked up."""
    with sqlite3.connect(database_url(autoinfer.data_dir).removeprefix("sqlite:///")) as raw:
        for _, column, kind, *_ in raw.execute("PRAGMA table_info(campaign)").fetchall():
            if kind in ("JSON", "TEXT"):
                model = str(reference_model_path())
                raw.execute(
                    f"UPDATE campaign SET {column} = replace({column}, '/models/reference', ?)", (model,)
                )


def test_every_command_is_walked_here_or_said_to_be_elsewhere() -> None:
    assert {*WRITES, *LOOKS, *ELSEWHERE, "artifacts prune"} == set(LEAVES)
    assert len(WRITES) + len(LOOKS) + len(ELSEWHERE) + 1 == len(LEAVES), "none is in two of them"


@pytest.mark.parametrize("command", WRITES)
def test_a_command_that_writes_is_told_in_the_log(with_history: Autoinfer, command: str) -> None:
    database = open_database(database_url(with_history.data_dir))
    (waits,) = let_wait(database, 1)
    database.close()
    the_packaged_model(with_history)
    *before, line = WRITES[command][0]
    for each in before:
        assert with_history(each).code == 0
    stored, told = rows(with_history)
    given = {
        "waits": waits,
        "told": newest_finding(with_history),
        "verdicts": a_file_of_verdicts(with_history),
    }
    done = with_history(line.format(**given))
    assert done.code == 0, done.err
    now_stored, now_told = rows(with_history)
    assert now_stored != stored, "it wrote nothing"
    assert now_told[: len(told)] == told, "the log is only added to"
    assert WRITES[command][1] in now_told[len(told) :]


@pytest.mark.parametrize("command", LOOKS)
def test_a_command_that_looks_writes_nothing(with_history: Autoinfer, command: str) -> None:
    stored = rows(with_history)
    done = with_history(LOOKS[command])
    assert done.code in (0, 1, 2), done.err
    assert "Traceback" not in done.err
    assert rows(with_history) == stored


def test_what_is_deleted_is_told_in_the_log(with_history: Autoinfer) -> None:
    folder = with_history.data_dir / "artifacts" / ("0" * 64)
    folder.mkdir(parents=True)
    (folder / "left").write_bytes(b"x" * 100)
    os.utime(folder, (0, 0))
    _, told = rows(with_history)
    assert with_history("artifacts prune --unused-for 1d --dry-run").code == 0
    assert rows(with_history)[1] == told, "nothing was deleted"
    assert with_history("artifacts prune --unused-for 1d").code == 0
    assert not folder.exists()
    assert rows(with_history)[1] == [*told, "artifact.pruned"]
