"""`autoinfer judge` as a user calls it: a file, standard input, JSON, refusals, the examples of its page."""

import gzip
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.command import ROOT, Autoinfer, command_words
from tests.unit.agent.judge.csv_tables import HEADER, Measured, as_csv, changed

PAGE = (ROOT / "docs" / "judge-command.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "docs" / "examples" / "times.csv"
GAIN = Measured(effect_log=math.log(0.9))
PROMISED = {"verdict", "effect", "interval", "launches", "samples", "reason", "scope", "e_value"}


@pytest.fixture
def times(tmp_path: Path) -> Path:
    file = tmp_path / "times.csv"
    file.write_bytes(EXAMPLE.read_bytes())
    return file


def test_the_example_of_the_page_is_drawn_as_it_says() -> None:
    rows = [changed(row, value=f"{float(row[5]):.3f}")[:6] for row in GAIN.rows()]
    assert EXAMPLE.read_bytes() == as_csv(rows, HEADER[:6])


def test_a_verdict_as_text_and_as_json(autoinfer: Autoinfer, times: Path) -> None:
    text, document = autoinfer("judge times.csv"), autoinfer("judge times.csv --json")
    assert (text.code, text.err, document.code, document.err) == (0, "", 0, "")
    found = document.json()
    assert set(found) >= PROMISED
    assert text.out.startswith("supported (latency only)\n")
    assert " ".join(text.out.split()).endswith(found["reason"])
    assert found["verdict"] == "supported"
    assert found["interval"][0] < -0.1 < found["interval"][1] < -0.03
    assert not autoinfer.data_dir.exists()  # nothing is stored


def test_standard_input_is_judged_as_the_file_is(autoinfer: Autoinfer, times: Path) -> None:
    done = subprocess.run(
        [*command_words(), "judge", "-", "--json"],
        input=times.read_bytes(),
        env=autoinfer.environment(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.decode() == autoinfer("judge times.csv --json").out


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "The file is empty"),
        ("packed.csv.gz", gzip.compress(EXAMPLE.read_bytes()), "packed (gzip)"),
        ("one.csv", as_csv(Measured(launches=1).rows()), "Only one launch of each arm"),
        ("nan.csv", EXAMPLE.read_bytes() + b"control,9,0,p0,tpot_ms,nan\n", "is not finite"),
        ("latin.csv", EXAMPLE.read_bytes() + b"control,9,0,\xe9,tpot_ms,1\n", "is not UTF-8"),
        ("there/", None, "is a folder"),
        ("nowhere.csv", None, "There is no file"),
    ],
)
def test_what_cant_be_judged_gets_one_sentence_and_what_to_do(
    autoinfer: Autoinfer, tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    (tmp_path / "there").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    text, document = autoinfer(f"judge {name}"), autoinfer(f"judge {name} --json")
    assert (text.code, document.code) == (2, 2)
    assert text.out == document.out == ""
    assert words in text.err
    assert "Traceback" not in text.err
    assert len(text.err.strip().splitlines()) == 2
    assert words in document.error["error"]
    assert document.error["hint"]


def test_standard_input_that_the_shell_closed_is_told(autoinfer: Autoinfer) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m cli judge - <&-', sys.executable],
        env=autoinfer.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("autoinfer: Standard input is closed.")


@pytest.mark.parametrize("line", re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)[0].splitlines())
def test_the_examples_of_the_page_run(autoinfer: Autoinfer, times: Path, line: str) -> None:
    with gzip.open(times.with_name("times.csv.gz"), "wb") as packed:
        packed.write(times.read_bytes())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=times.parent,
        env=autoinfer.environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "supported" in done.stdout
