from pathlib import Path

import pytest

from cli import checks
from cli.check_result import Verdict


def test_a_data_folder_that_can_be_made_is_ok_and_is_not_made(tmp_path: Path) -> None:
    found = checks.check_data_dir(tmp_path / "a" / "b")
    assert found.verdict is Verdict.OK
    assert "made at the first run" in found.found
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_of_the_data_folder_fails(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    found = checks.check_data_dir(tmp_path / "data" / "inner")
    assert found.verdict is Verdict.FAIL
    assert "--data-dir" in found.advice


def test_a_database_that_is_none_yet_is_no_fault_and_a_wrong_one_is(tmp_path: Path) -> None:
    assert checks.check_database(f"sqlite:///{tmp_path / 'a.db'}").verdict is Verdict.OK
    (tmp_path / "b.db").write_text("something else entirely, long enough")
    assert checks.check_database(f"sqlite:///{tmp_path / 'b.db'}").verdict is Verdict.FAIL
    assert checks.check_database("mysql://x/y").verdict is Verdict.FAIL
    assert not (tmp_path / "a.db").exists()


def test_without_a_compiler_it_warns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert checks.check_compiler().verdict is Verdict.WARN
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    assert checks.check_compiler().found == str(compiler)


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert checks.installed("no_such_package_at_all") is None
    assert checks.installed("pytest")


def test_a_check_with_something_to_mend_says_what_to_do(tmp_path: Path) -> None:
    from configs.settings import Settings

    for check in checks.run_checks(Settings(data_dir=tmp_path)):
        assert bool(check.advice) == (check.verdict is not Verdict.OK), check


def test_a_machine_without_a_noise_profile_is_no_fault(tmp_path: Path) -> None:
    found = checks.check_noise(f"sqlite:///{tmp_path / 'a.db'}")
    assert found.verdict is Verdict.OK
    assert "none yet" in found.found
    assert checks.check_noise("mysql://x/y").verdict is Verdict.OK  # the database's own check tells why
