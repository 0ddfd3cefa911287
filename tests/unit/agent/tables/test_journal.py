"""A journal is only added to, survives a kill in the middle of a line, and tells what is left."""

import gzip
from pathlib import Path

import pytest

from agent.tables.grid import load_digest
from agent.tables.journal import Journal, Measured, read_journal
from configs.errors import AutoinferError, PermissionRefused
from experiments.space.configuration import KnobValue

HERE = {"name": "a GPU", "engine_version": "1"}
SCOPE = ("a GPU", "1", "engine")


def failure(kind: str, workload: str | None = None) -> dict[str, object]:
    return {
        "kind": "failure",
        "load": "L",
        "workload": None if workload is None else {"key": workload},
        "failure": {"kind": kind},
        "identity": HERE,
    }


def cell(workload: str, **more: object) -> dict[str, object]:
    return {"kind": "cell", "load": "L", "workload": {"key": workload}, "identity": HERE, **more}


def test_a_line_that_was_cut_is_skipped_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t" / "measured.jsonl"
    Journal(path, HERE).add("begin", {"n": 1})
    with path.open("ab") as file:
        file.write(b'{"kind":"cell","ident')
    Journal(path, HERE).add("begin", {"n": 2})
    assert [line["n"] for line in read_journal(path)] == [1, 2]


def test_every_line_has_the_identity_and_that_of_its_device(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", {"git_revision": "abc"})
    journal.add("load", {"load": "L"}, {"name": "a GPU"})
    (line,) = read_journal(tmp_path / "j")
    assert line["identity"] == {"git_revision": "abc", "name": "a GPU"}


def test_a_packed_journal_is_read_too(tmp_path: Path) -> None:
    Journal(tmp_path / "j.jsonl", HERE).add("begin", {})
    packed = tmp_path / "j.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "j.jsonl").read_bytes()))
    assert len(list(read_journal(packed))) == 1


def test_a_load_has_the_name_of_its_configuration_whatever_it_was_called_when_it_was_measured(
    tmp_path: Path,
) -> None:
    first: dict[str, KnobValue] = {"serving.threads": 1}
    other = {**first, "quantization.method": "rtn", "quantization.keep": "none"}
    path = tmp_path / "j"
    journal = Journal(path, HERE)
    for name, configuration in (("once", first), ("of-old", other)):
        load = {"load": name, "configuration": configuration, "stored_as": "bfloat16"}
        of = {"model": "m", "weights": "checkpoint", "control": "once", "workload": {"key": "a"}}
        journal.add("cell", {**load, **of})
    control, cell = read_journal(path)
    assert control["load"] == load_digest("m", "checkpoint", "bfloat16", first) == cell["control"]
    assert control["control"] == control["load"]
    without = {name: value for name, value in other.items() if name != "quantization.keep"}
    assert cell["load"] == load_digest("m", "checkpoint", "bfloat16", without)
    assert Measured([control, cell], SCOPE).cell_is_over(cell["load"], "a")


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j").write_text('{"a": 1}\n')
    with pytest.raises(AutoinferError, match="Line 1"):
        list(read_journal(tmp_path / "j"))


def test_a_folder_that_may_not_be_written_is_told(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        (tmp_path / "probe").mkdir()
    except PermissionError:
        with pytest.raises(PermissionRefused):
            Journal(tmp_path / "t" / "j", HERE)
    else:
        pytest.skip("this user may write anywhere")
    finally:
        tmp_path.chmod(0o700)


def test_a_measured_cell_is_over_and_one_measured_beside_a_load_for_comparing_is_not() -> None:
    measured = Measured([cell("a"), cell("b", same={"repeat": 0})], SCOPE)
    assert measured.cell_is_over("L", "a")
    assert not measured.cell_is_over("L", "b")


def test_a_cell_is_over_when_as_many_launches_as_are_wanted_have_served_it() -> None:
    once = [{**cell("a"), "launch": "1"}, {**cell("a"), "launch": "1"}]
    assert not Measured(once, SCOPE, launches=2).cell_is_over("L", "a")
    assert Measured([*once, {**cell("a"), "launch": "2"}], SCOPE, launches=2).cell_is_over("L", "a")
    assert Measured([failure("illegal", "a")], SCOPE, launches=2).cell_is_over("L", "a")


def test_a_refusal_is_for_good_and_a_crash_is_tried_once_more() -> None:
    assert Measured([failure("unsupported")], SCOPE).load_is_over("L")
    assert not Measured([failure("crashed")], SCOPE).load_is_over("L")
    assert Measured([failure("crashed")] * 2, SCOPE).load_is_over("L")
    assert Measured([failure("illegal", "a")], SCOPE).cell_is_over("L", "a")
    assert not Measured([failure("illegal", "a")], SCOPE).load_is_over("L")


def test_what_another_gpu_or_engine_measured_does_not_count() -> None:
    assert not Measured([cell("a")], ("another GPU", "1")).cell_is_over("L", "a")
    assert not Measured([cell("a")], ("a GPU", "2", "engine")).cell_is_over("L", "a")


def test_what_was_measured_in_the_engine_s_process_is_not_taken_for_what_is_asked_over_http() -> None:
    asked = {**cell("a"), "identity": {**HERE, "asked_over": "http"}}
    over_http = ("a GPU", "1", "http")
    assert not Measured([cell("a")], over_http).cell_is_over("L", "a")
    assert Measured([asked], over_http).cell_is_over("L", "a")
    assert not Measured([asked], SCOPE).cell_is_over("L", "a")


def test_a_cell_of_same_that_fails_for_good_counts_for_itself_and_for_what_goes_on_beside() -> None:
    crash = failure("crashed", "a") | {"same": {"beside": "nothing loads", "repeat": 0}}
    assert not Measured([crash], SCOPE).same_is_over("L", "a", "nothing loads")
    measured = Measured([crash, crash], SCOPE)
    assert measured.same_is_over("L", "a", "nothing loads")
    assert not measured.same_is_over("L", "a", "another loads")
    assert not measured.cell_is_over("L", "a")
    assert not measured.load_is_over("L")
