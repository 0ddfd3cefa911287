"""What a user can get wrong gets one sentence, what to do, and an exit code; never a traceback."""

import os
import shutil
import sqlite3
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from cli.main import call
from configs.campaign import load_campaign
from db.session import open_database
from experiments.reference_model.load import reference_model_path
from tests.integration.cli.command import Autoinfer, Ended
from tests.new_database import new_database


def told(done: Ended, code: int, *words: str) -> None:
    assert done.code == code, done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.startswith("autoinfer: ")
    for word in words:
        assert word in done.err
    assert len(done.err.strip().splitlines()) <= 3


@pytest.mark.parametrize(
    "line",
    [
        "summary",
        "queue",
        "hypotheses",
        "experiments",
        "findings",
        "show E-1",
        "graph show",
        "graph known serving.threads",
        "graph untested",
        "log",
        "campaign list",
        "focus threads",
        "note hello",
        "worker --once",
        "reproduce E-1",
        "db upgrade",
        "enqueue claim --set serving.threads=1",
        "answers",
        "artifacts prune --unused-for 7d --jobs",
    ],
)
def test_no_database_at_all(autoinfer: Autoinfer, line: str) -> None:
    told(autoinfer(line), 1, "There is no database at", "autoinfer run")
    assert not autoinfer.data_dir.exists()  # asking makes nothing


def test_a_drafter_that_is_none(autoinfer: Autoinfer, tmp_path: Path) -> None:
    (tmp_path / "no-drafter").mkdir()
    (tmp_path / "no-drafter" / "config.json").write_text('{"model_type": "bert"}')
    line = "run levers --no-worker --no-dashboard --drafter"
    told(autoinfer(f"{line} {tmp_path}/nowhere"), 2, "There is no drafter at", "--drafter DIR")
    told(autoinfer(f"{line} {tmp_path}/no-drafter"), 2, "holds no drafter", "DFlashDraftModel")


def test_a_database_of_a_newer_version(with_history: Autoinfer) -> None:
    file = with_history.data_dir / "autoinfer.db"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    told(with_history("summary"), 1, "was written by a newer version of autoinfer", "Nothing was changed")
    told(with_history("db upgrade"), 1, "newer version")


def test_a_file_that_is_no_database(autoinfer: Autoinfer) -> None:
    autoinfer.data_dir.mkdir()
    file = autoinfer.data_dir / "autoinfer.db"
    file.write_text("my shopping list, which is longer than a header")
    told(autoinfer("summary"), 1, "is not a database")
    assert file.read_text().startswith("my shopping list")


def as_one_whom_modes_bind(command: Autoinfer) -> Autoinfer:
    """The command of a user whom a file's mode binds: root's without the capabilities that pass over it."""
    if os.geteuid() != 0:
        return command
    if shutil.which("setpriv") is None:
        pytest.skip("modes do not bind root, and there is no setpriv here that could bind it")
    taken = "-dac_override,-dac_read_search"
    return command.under("setpriv", f"--bounding-set={taken}", f"--inh-caps={taken}")


@pytest.mark.parametrize(
    ("locked", "words"),
    [
        ("autoinfer.db", ["The database", "may only be read", "Make the file", "writable"]),
        (".", ["The folder of", "may not be written to", "Make the folder writable"]),
    ],
)
def test_a_read_only_database_is_refused_for_writing(
    with_history: Autoinfer, locked: str, words: list[str]
) -> None:
    bound = as_one_whom_modes_bind(with_history)
    assert bound("note hello").code == 0
    path = with_history.data_dir / locked
    mode = path.stat().st_mode
    path.chmod(mode & ~0o222)
    try:
        told(bound("note hello"), 1, *words, "Nothing was changed.")
    finally:
        path.chmod(mode)


def test_a_locked_database(
    with_history: Autoinfer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, so that the command gives up at once and not after `BUSY_TIMEOUT_S`."""
    monkeypatch.setattr("db.session.open_database", partial(open_database, busy_timeout_s=0.05))
    connection = sqlite3.connect(with_history.data_dir / "autoinfer.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        code = call(["--data-dir", str(with_history.data_dir), "note", "hello"])
        said = capsys.readouterr()
        told(Ended(code, said.out, said.err), 1, "keeps the database", "locked")
        assert with_history("summary").code == 0  # reading goes on beside a writer
    finally:
        connection.rollback()
        connection.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("show H-99", ["H-099 does not exist; the last is H-007.", "autoinfer hypotheses"]),
        ("show E-99", ["E-0099 does not exist; the last is E-0005.", "autoinfer experiments"]),
        ("show F-99", ["F-099 does not exist; the last is F-003."]),
        ("show C-99", ["C-99 does not exist; the last is C-1."]),
        ("show A-beef", ["No artifact", "beef"]),
        ("show D-1", ["D-1 does not exist; there is no directive yet."]),
        ("show nonsense", ["'nonsense' is not a label.", "C-1 (campaign)"]),
        ("show H-1 --samples", ["--samples belongs to an experiment"]),
        ("summary --campaign H-1", ["'H-1' names a hypothesis, but a campaign is wanted here."]),
        ("summary --campaign C-9", ["C-9 does not exist; the last is C-1."]),
        ("pin E-1", ["names an experiment", "hypothesis is wanted"]),
        ("pin H-1", ["H-001 is supported; only what waits in the queue can be pinned."]),
        ("withdraw H-5", ["H-005 is testing"]),
        ("withdraw H-6 --why ''", ["The reason is empty."]),
        (f"withdraw H-6 --why {'x' * 501}", ["The reason has 501 characters, and 500 are the most."]),
        ("withdraw H-6 --why a\x1bb", ["The reason holds characters that are no text."]),
        ("stop --remote --why ''", ["The reason is empty."]),
        ("reproduce H-1", ["names a hypothesis, but an experiment is wanted"]),
        ("reproduce E-5", ["E-0005", "verdict"]),
        ("log --since yesterday", ["--since is an event's id, a whole number, not 'yesterday'."]),
        ("log --since -3", ["--since is an event's id"]),
        ("log --since 9223372036854775808", ["--since is an event's id", "9223372036854775807"]),
        (f"log --since {'9' * 5000}", ["--since is an event's id"]),
        ("log --limit 99999999999999999999", ["--limit", "99999999999999999999"]),
        ("queue --offset 99999999999999999999", ["--offset", "99999999999999999999"]),
        ("artifacts prune --unused-for 99999999999d", ["longer than a hundred years"]),
        ("note \udcff", ["Word 2 of the command", "is not text in utf-8"]),
        ("summary --campaign C-\udcff", ["Word 3 of the command"]),
        ("--db sqlite:////tmp/\udcff.db summary", ["is not text in utf-8"]),
        (
            "log --kind experiment.judgd",
            ["There is no kind of event 'experiment.judgd'.", "experiment.judged"],
        ),
        ("hypotheses --state suported", ["--state cannot be 'suported'.", "supported"]),
        ("experiments --outcome good", ["--outcome cannot be 'good'.", "supported"]),
        ("findings --status old", ["--status cannot be 'old'.", "stale"]),
        ("hypotheses --limit 0", ["--limit", "0"]),
        ("hypotheses --limit many", ["--limit", "many"]),
        ("focus", ["Which lever?", "autoinfer focus LEVER"]),
        ("focus thread", ["There is no lever 'thread' in C-1.", "threads"]),
        ("ban --clear", ["There is no ban to lift in C-1."]),
        ("note ''", ["The note is empty."]),
        (f"note {'x' * 2001}", ["The note has 2001 characters, and 2000 are the most.", "name the file"]),
        ("note hello --stale quantum", ["No finding that still holds has to do with 'quantum'"]),
        ("campaign resume", ["C-1 is running, not paused."]),
        ("campaign stop C-7", ["C-7 does not exist; the last is C-1."]),
        ("graph show --around H-77", ["H-077 is not in the graph."]),
        ("graph show H-77", ["H-077 is not in the graph."]),
        ("graph show F-1 --around F-2", ["F-1 and --around F-2 name a node each.", "graph show F-1"]),
        ("graph show --around x:y", ["x:y is not in the graph."]),
        (
            "graph export --format xml",
            ["'xml' is not one of 'json', 'graphml'."],
        ),
        ("graph known serving.thread", ["There is no knob 'serving.thread'.", "serving.threads"]),
        ("graph known serving.threads --on H200", ["Nothing is known of hardware with 'H200'"]),
        ("graph why-not H-77", ["H-077 does not exist; the last is H-007."]),
        ("graph why-not serving.threads=many", ["serving.threads"]),
        ("graph why-not ''", ["Nothing was named."]),
        ("graph led-to C-1", ["names a campaign"]),
        ("graph led-to X-1", ["'X-1' is not a label."]),
        ("graph if-fell F-99", ["F-099 does not exist"]),
        ("graph untested --campaign C-7", ["C-7 does not exist; the last is C-1."]),
        ("note hello --stale", ["'--stale' requires an argument", "See: autoinfer note --help"]),
        ("--data-dir here note hello --stale", ["See: autoinfer note --help"]),
        ("campaign pause --campaign", ["See: autoinfer campaign pause --help"]),
        ("run --budget 0", ["--budget 0: '0' is not a duration.", "such as 90s"]),
        ("run --budget=-5m", ["'-5m' is not a duration.", "such as 90s"]),
        ("run --seed -1", ["--seed -1: it must be at least 0."]),
        ("run --min-effect 300%", ["--min-effect 300%: it must be below 100%."]),
        ("artifacts prune --unused-for long", ["'long' is not a duration.", "90s"]),
        ("artifacts prune", ["--unused-for"]),
        ("enqueue claim --set serving.thread=1", ["serving.thread"]),
        (
            "enqueue claim --set quantization.group_size=32",
            ["no knob 'quantization.group_size' in the space reference", "levers", "autoinfer run levers"],
        ),
        ("enqueue claim --set serving.threads=3", ["serving.threads", "3"]),
        ("enqueue claim --set serving.threads", ["serving.threads"]),
        ("enqueue claim", ["--set"]),
        ("enqueue claim --set serving.threads=1 --expect tpot", ["'tpot' is not an effect.", "tpot=-10%"]),
        ("enqueue claim --set serving.threads=1 --expect tpot=10%", ["is no improvement", "tpot=-10%"]),
        ("enqueue claim --set serving.threads=1 --expect tpot=-10", ["'-10' is not a percentage."]),
        ("enqueue claim --set serving.threads=1 --metric speed", ["No claim can be on the metric 'speed'."]),
        ("enqueue claim --set serving.threads=1 --metric nll_bit", ["nll_bits?"]),
        ("reference train", ["--output"]),
        ("reference train --output . --minutes 1 --steps 1", ["--minutes and --steps cannot both hold."]),
        ("reference train --output .", [". is not an empty folder."]),
        ("reference train --output weights --device moon", ["There is no device 'moon' here.", "cpu"]),
        ("drafter train --out drafter --device moon", ["There is no device 'moon' here.", "cpu"]),
        ("worker --executor moon", ["There is no executor 'moon'.", "local"]),
        ("worker --device moon --once", ["There is no device 'moon'.", "cpu, cuda or cuda:NUMBER"]),
        ("worker --device cuda: --once", ["There is no device 'cuda:'."]),
        ("worker --device '' --once", ["There is no device ''."]),
        ("summry", ["There is no command 'summry'; did you mean summary?"]),
        ("import lab.json", ["There is no command 'import'; did you mean finding import?"]),
        ("why-not H-001", ["There is no command 'why-not'; did you mean graph why-not?"]),
        ("summary --frobnicate", ["--frobnicate", "autoinfer summary --help"]),
        ("summary extra", ["extra"]),
        ("--db mysql://x/y summary", ["mysql"]),
        ("--db nonsense summary", ["'nonsense' is not a database URL."]),
        ("--config nowhere.toml summary", ["There is no settings file", "nowhere.toml"]),
        ("--db", ["--db"]),
    ],
)
def test_what_cannot_be_accepted_ends_with_two(with_history: Autoinfer, line: str, words: list[str]) -> None:
    before = stored(with_history.data_dir)
    told(with_history(line), 2, *words)
    new = set(stored(with_history.data_dir)) - set(before)
    assert any("'hypothesis.refused'" in row for row in new) == (line in OUTSIDE_THE_SPACE)
    assert not [row for row in new if "'hypothesis.refused'" not in row and "sqlite_sequence" not in row]


OUTSIDE_THE_SPACE = (
    "enqueue claim --set serving.thread=1",
    "enqueue claim --set quantization.group_size=32",
    "enqueue claim --set serving.threads=3",
)
"""Lines that can be read and are refused by the campaign: its log tells of these."""


def stored(data_dir: Path) -> list[str]:
    """All tables with all rows, wherever they lie: in the file or in the log beside it."""
    connection = sqlite3.connect(f"file:{data_dir / 'autoinfer.db'}?mode=ro", uri=True)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_write_that_stays_in_the_log_beside_the_file_counts_as_stored(with_history: Autoinfer) -> None:
    file = with_history.data_dir / "autoinfer.db"
    before, bytes_before = stored(with_history.data_dir), file.read_bytes()
    writing = sqlite3.connect(file)
    writing.execute("UPDATE campaign SET name = 'harmed'")
    writing.commit()
    assert stored(with_history.data_dir) != before
    assert file.read_bytes() == bytes_before, "so the file's own bytes would say nothing"
    writing.close()


def test_the_largest_id_is_still_an_id(with_history: Autoinfer) -> None:
    assert with_history("log --since 9223372036854775807").code == 0
    assert with_history("log --since 0 --limit 9223372036854775807").code == 0
    assert with_history("queue --offset 9223372036854775807").code == 0


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_a_worker_serves_a_device_by_its_name_in_pytorch(with_history: Autoinfer, device: str) -> None:
    done = with_history(f"worker --device {device} --once --json")
    assert done.code == 0, done.err
    assert done.json()["device"].endswith(f"/{device}")


@pytest.fixture
def begun(autoinfer: Autoinfer) -> Autoinfer:
    """The command over a campaign on the packaged model that waits for its baseline."""
    database = new_database(autoinfer.data_dir)
    spec = load_campaign("default")
    with database.write() as session:
        create_campaign(session, spec, survey(spec))
    database.close()
    return autoinfer


def test_contradictory_knobs_are_refused_with_the_condition(begun: Autoinfer) -> None:
    done = begun("enqueue claim --set pruning.layers_removed=2 --set pruning.method=none")
    told(done, 2, "only means something when pruning.method is depth, and it is none", "Set pruning.method")


def test_an_empty_queue_says_what_it_waits_for_and_the_same_hypothesis_again_is_refused(
    begun: Autoinfer,
) -> None:
    empty = begun("queue").out
    assert empty.startswith(
        "The queue of C-1 is empty: hypotheses are proposed once the baseline and its profile"
    )
    line = "enqueue claim --set serving.dtype=bfloat16 --expect tpot=-10%"
    assert begun(line).code == 0
    told(begun(line), 2, "H-001 claims the same change of the same control", "autoinfer show H-001")


def test_what_is_pinned_when_it_is_given_says_that_it_goes_ahead(begun: Autoinfer) -> None:
    done = begun("enqueue claim --set serving.dtype=bfloat16 --expect tpot=-10% --pin")
    assert "H-001 waits for the baseline, pinned ahead of what is not: claim" in done.out
    assert "pinned" not in begun("enqueue claim --set serving.threads=1 --expect tpot=-10%").out


def broken_checkpoint(folder: Path, file: str, content: bytes | None) -> Path:
    """A copy of the packaged model in which one file is replaced, or gone for None."""
    shutil.copytree(reference_model_path(), folder)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", None),
        ("config.json", b'{"model_type": '),
        ("model.safetensors", None),
        ("model.safetensors", b"\x08\x00\x00"),
        ("tokenizer.json", None),
        ("tokenizer.json", b"not JSON"),
    ],
)
def test_a_broken_checkpoint_begins_no_campaign(
    autoinfer: Autoinfer, tmp_path: Path, file: str, content: bytes | None
) -> None:
    folder = broken_checkpoint(tmp_path / "own", file, content)
    done = autoinfer(f"run --model {folder} --no-worker")
    told(done, done.code, file.removeprefix("model."), str(folder))
    assert done.code in (1, 2)
    assert autoinfer("campaign list --json").json()["items"] == []


@pytest.mark.parametrize(("rows", "words"), [(0, "lacks 1 of the"), (100, "has the shape (100,")])
@pytest.mark.parametrize("where", ["--target cpu", "--target modal:H100! --budget-usd 20"])
def test_a_checkpoint_of_whole_files_that_lacks_weights_begins_no_campaign_and_no_machine_is_rented_for_it(
    autoinfer: Autoinfer, tmp_path: Path, where: str, rows: int, words: str
) -> None:
    folder = Path(shutil.copytree(reference_model_path(), tmp_path / "own"))
    tensors = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.gate_proj.weight"
    if rows:
        tensors[name] = tensors[name][:rows].clone()
    else:
        del tensors[name]
    save_file(tensors, folder / "model.safetensors")
    done = autoinfer(f"run --model {folder} --no-worker {where}")
    told(done, 2, words, name, str(folder), "Put that right first; no campaign was begun.")
    assert autoinfer("campaign list --json").json()["items"] == []


@pytest.mark.parametrize("where", ["--target cpu", "--target modal:H100! --budget-usd 20"])
def test_weights_that_are_no_numbers_begin_no_campaign_and_no_machine_is_rented_for_them(
    autoinfer: Autoinfer, tmp_path: Path, where: str
) -> None:
    folder = Path(shutil.copytree(reference_model_path(), tmp_path / "own"))
    path, name = folder / "model.safetensors", "model.layers.0.mlp.gate_proj.weight"
    tensors = load_file(path)
    tensors[name][0, 0] = float("nan")
    save_file(tensors, path)
    done = autoinfer(f"run --model {folder} --no-worker {where}")
    told(done, 2, f"{name} in {path} holds 1 value of", "Put that right first; no campaign was begun.")
    assert autoinfer("campaign list --json").json()["items"] == []


def test_a_checkpoint_that_is_not_there_begins_no_campaign(autoinfer: Autoinfer) -> None:
    told(autoinfer("run --model /no/such/model"), 2, "There is no checkpoint folder /no/such/model.")
    assert autoinfer("campaign list --json").json()["items"] == []


def test_a_malformed_settings_file_is_named(with_history: Autoinfer) -> None:
    (with_history.data_dir / "autoinfer.toml").write_text("lease_s = 'soon'\n")
    told(with_history("config show"), 2, "lease_s", "autoinfer.toml")


def test_an_unknown_variable_is_named(with_history: Autoinfer) -> None:
    told(with_history("summary", AUTOINFER_LEASES="3"), 2, "AUTOINFER_LEASES", "AUTOINFER_LEASE_S")


@pytest.mark.parametrize(
    "line", ["graph export --output", "finding export --output", "report C-1 --to", "report --schema --to"]
)
def test_a_file_that_cannot_be_written_is_a_wrong_word_of_the_command(
    with_history: Autoinfer, line: str
) -> None:
    hint = "Name a file in a folder that is there."
    missing = "/proc/nothing/made.json can't be written: No such file or directory."
    told(with_history(f"{line} /proc/nothing/made.json"), 2, missing, hint)
    told(with_history(f"{line} ."), 2, ". can't be written: Is a directory.", hint)


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        ("show H-99 --json", 2, "H-099 does not exist; the last is H-007."),
        ("hypotheses --limit many --json", 2, "many"),
        ("nothing --json", 2, "There is no command 'nothing'"),
        ("--db sqlite:////tmp/surely/not/there.db summary --json", 1, "There is no database"),
    ],
)
def test_with_json_errors_are_json_on_standard_error(
    with_history: Autoinfer, line: str, code: int, word: str
) -> None:
    done = with_history(line)
    assert (done.code, done.out) == (code, "")
    assert word in done.error["error"]
    assert done.error["exit_code"] == code
    assert set(done.error) == {"error", "hint", "exit_code"}


def test_debug_shows_the_traceback_beside_the_sentence(with_history: Autoinfer) -> None:
    done = with_history("show H-99 --debug")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "autoinfer: H-099 does not exist" in done.err


def test_a_fault_of_our_own_is_told_without_a_traceback_too(with_history: Autoinfer, tmp_path: Path) -> None:
    with sqlite3.connect(with_history.data_dir / "autoinfer.db") as connection:
        connection.execute("UPDATE hypothesis SET state = 'bewildered' WHERE id = 1")
    connection.close()
    told(with_history("hypotheses"), 1, "by a fault of its own", "bewildered", "--debug")
