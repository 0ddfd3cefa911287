"""`autoinfer aa` as installed: what it refuses, and a series from the command to the report."""

import json
import os
import re
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.integration.cli.command import ROOT, Autoinfer, Ended
from tests.integration.cli.test_bad_input import told
from tests.simulated.campaign import registered_here, simulated_spec

pytestmark = pytest.mark.timeout(600)

MOST_S = 240.0
"""A series of 8 launches on a machine that does other things beside."""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("aa --launches 0", ["0 launches can't be put in pairs", "an even number from 2 to 10000"]),
        ("aa --launches 1", ["1 launch can't be put in pairs"]),
        ("aa --launches -4", ["-4 launches can't be put in pairs"]),
        ("aa --launches 7", ["7 launches can't be put in pairs"]),
        ("aa --launches 10002", ["more than the 10000", "Give --launches"]),
        (f"aa --launches {2**70}", ["more than the 10000"]),
        ("aa --launches many", ["many"]),
        ("aa --blocks 1", ["can't be timed in 1 blocks", "from 2 to 64"]),
        ("aa --blocks 65", ["can't be timed in 65 blocks"]),
        ("aa --target moon", ["no target 'moon'", "cuda:0"]),
        ("aa --engine nowhere", ["nowhere"]),
        ("aa --model /no/such/model", ["There is no checkpoint folder /no/such/model"]),
        ("aa --campaign nowhere", ["nowhere"]),
        ("aa --set serving.threads=0", ["serving.threads"]),
        ("aa --set nowhere=1", ["There is no knob 'nowhere'"]),
        ("aa --beside no-such-command", ["There is no command 'no-such-command' to run beside"]),
        ("aa --beside ''", ["--beside names no command"]),
        ("""aa --beside "'open" """, ["is no command", "Close the quotes"]),
        ("aa --beside 'sleep 60' --alone", ["--alone and --beside are two questions"]),
        ("aa --launches 2 --alone", ["2 launches are one pair", "--launches 4"]),
    ],
)
def test_what_it_cannot_measure_ends_with_two_and_begins_nothing(
    autoinfer: Autoinfer, line: str, words: list[str]
) -> None:
    told(autoinfer(line), 2, *words)
    assert campaigns(autoinfer) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("aa C-1", ["C-1 is no A/A series"]),
        ("aa C-99", ["C-99 does not exist"]),
        ("aa E-0001", ["'E-0001' names an experiment"]),
        ("aa C-1 --launches 4", ["A series that is shown is not measured", "--launches"]),
        ("aa C-1 --set serving.threads=1", ["A series that is shown is not measured", "--set"]),
    ],
)
def test_a_series_is_shown_by_its_label_and_nothing_else(
    with_history: Autoinfer, line: str, words: list[str]
) -> None:
    told(with_history(line), 2, *words)


def campaigns(autoinfer: Autoinfer) -> int:
    file = autoinfer.data_dir / "autoinfer.db"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as database:
        return int(database.execute("SELECT count(*) FROM campaign").fetchone()[0])


def measured(autoinfer: Autoinfer) -> int:
    with closing(sqlite3.connect(autoinfer.data_dir / "autoinfer.db", timeout=30)) as database:
        return int(database.execute("SELECT count(*) FROM noise_launch").fetchone()[0])


class OnSimulation:
    """The installed command with the simulated engine found as a package's."""

    def __init__(self, autoinfer: Autoinfer, folder: Path) -> None:
        with registered_here(folder):
            spec = simulated_spec(folder)
        document = spec.model_dump(mode="json")
        (folder / "simulated.yaml").write_text(yaml.safe_dump(document))
        self.autoinfer = Autoinfer(autoinfer.data_dir, limit_s=MOST_S)
        self.words = f"aa --campaign {folder / 'simulated.yaml'}"
        self.environment = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(folder / "site")))}

    def __call__(self, line: str) -> Ended:
        return self.autoinfer(line, **self.environment)


@pytest.fixture
def simulation(autoinfer: Autoinfer, tmp_path: Path) -> OnSimulation:
    return OnSimulation(autoinfer, tmp_path)


def test_a_series_is_measured_told_and_shown_again(simulation: OnSimulation) -> None:
    done = simulation(f"{simulation.words} --launches 4 --blocks 2")
    assert done.code == 0, done.err
    assert "C-1 measures 4 launches" in done.out
    assert re.search(r"^pair 2 of 2: E-0002, tpot_ms \d+\.\d\d, second seat ", done.out, re.MULTILINE)
    for line in ("launches vary by", "noise profile", "first look", "seats are alike"):
        assert line in done.out
    shown = simulation("aa C-1 --json")
    assert shown.code == 0, shown.err
    document = shown.json()
    assert (document["launches"], document["state"]) == (4, "stopped")
    assert document["profile"] == {**document["profile"], "launches": 4, "degrees_of_freedom": 2}
    assert "E-0002" in simulation("experiments").out
    assert "A/A pair" in simulation("experiments").out
    samples = simulation("show E-0001 --samples --json")
    assert samples.code == 0, samples.err
    assert "4 launches" in simulation("doctor").out
    assert simulation("summary").code == 2  # it is no campaign of hypotheses
    told(simulation("summary --campaign C-1"), 2, "C-1 is an A/A series", "autoinfer aa C-1")
    assert "autoinfer aa C-1" in simulation("show C-1").out


@pytest.mark.bench_only  # in the suite a series is interrupted and gone on with in noise/test_series.py
def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(simulation: OnSimulation) -> None:
    line = f"{simulation.words} --launches 8 --blocks 2"
    running = simulation.autoinfer.start(line, **simulation.environment)
    assert running.stdout is not None
    for said in running.stdout:
        if said.startswith("pair 1 of 4"):
            running.send_signal(signal.SIGINT)
            break
    rest = running.stdout.read()
    running.communicate()
    assert running.returncode == 130
    assert "what was measured is kept" in rest
    kept = measured(simulation.autoinfer)
    assert 2 <= kept < 8
    done = simulation(f"{line} --json")
    assert done.code == 0, done.err
    document = done.json()
    assert (document["series"], document["launches"]) == ("C-1", 8)
    assert measured(simulation.autoinfer) == 8
    again = simulation(f"{simulation.words} --launches 2 --blocks 2 --json").json()
    assert (again["series"], again["profile"]["launches"]) == ("C-2", 10)


def test_a_command_beside_is_measured_against_none_and_may_be_autoinfer_itself(
    simulation: OnSimulation,
) -> None:
    itself = f"{sys.executable} -P -m cli config show > /dev/null && exec sleep 300"
    done = simulation(f"""{simulation.words} --launches 8 --blocks 2 --beside "sh -c '{itself}'" --json""")
    assert done.code == 0, done.err
    document = done.json()
    assert document["condition"] == "beside"
    assert document["beside"][0].endswith("/sh")
    assert document["contrast"]["level_log"]["n"] == 2
    assert document["profile"]["launches"] == 4


def test_a_command_that_ends_by_itself_is_told(simulation: OnSimulation) -> None:
    done = simulation(f"{simulation.words} --launches 8 --blocks 2 --beside true")
    assert done.code == 1
    assert "Pair 2 could not be measured" in done.err
    assert "ended with exit code 0" in done.err
    assert "Traceback" not in done.err
    assert measured(simulation.autoinfer) == 2


@pytest.mark.bench_only
def test_the_reference_engine_is_measured(autoinfer: Autoinfer) -> None:
    running = autoinfer.start("aa --launches 2 --blocks 2 --json")
    out, err = running.communicate(timeout=MOST_S)
    assert running.returncode == 0, err
    document = json.loads(out)
    assert (document["launches"], document["engine"], document["model"]) == (2, "reference", "reference")
    assert document["requests_a_launch"]["measured"] == 4
    assert document["profile"]["degrees_of_freedom"] == 1
    assert 0 < document["launch_sd_log"]["value"] < 1
    assert document["judged"]["experiments"]["supported"]["count"] == 0
