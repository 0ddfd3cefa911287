import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cli.health import checks
from cli.health.check_result import Check, Verdict
from cli.health.database_checks import check_database
from db.session import Database, open_database
from experiments.torch_build import TORCH_VERSION, TorchBuild
from tests.unit.cli.test_gpu_checks import CARD, NONE, driver


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


def found_of(url: str) -> dict[str, Check]:
    return {each.name: each for each in check_database(url)}


def test_a_database_that_is_none_yet_is_no_fault_and_a_wrong_one_is(tmp_path: Path) -> None:
    none = found_of(f"sqlite:///{tmp_path / 'a.db'}")
    assert {each.verdict for each in none.values()} == {Verdict.OK}
    assert "none yet" in none["noise profile"].found
    (tmp_path / "b.db").write_text("something else entirely, long enough")
    for url in (f"sqlite:///{tmp_path / 'b.db'}", "mysql://x/y"):
        wrong = found_of(url)
        assert wrong["database"].verdict is Verdict.FAIL
        for name in ("noise profile", "rented machines"):
            assert (wrong[name].verdict, "not known" in wrong[name].found) == (Verdict.WARN, True)
    assert not (tmp_path / "a.db").exists()


def test_the_database_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, opened = f"sqlite:///{tmp_path / 'a.db'}", []
    open_database(url, create=True, upgrade=True).close()

    def counted(*asked: str) -> Database:
        opened.append(asked)
        return open_database(*asked)

    monkeypatch.setattr("db.session.open_database", counted)
    assert {each.verdict for each in check_database(url)} == {Verdict.OK}
    assert opened == [(url,)]


def test_without_a_compiler_it_warns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert checks.check_compiler(tmp_path).verdict is Verdict.WARN
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    assert checks.check_compiler(tmp_path).found == str(compiler)
    apart = checks.check_compiler(tmp_path / "my cache")
    assert (apart.verdict, apart.advice[:23]) == (Verdict.WARN, "Set AUTOINFER_CACHE_DIR")


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert checks.installed("no_such_package_at_all") is None
    assert checks.installed("pytest")


def test_a_check_with_something_to_mend_says_what_to_do(tmp_path: Path) -> None:
    from configs.settings import Settings

    for check in checks.run_checks(Settings(data_dir=tmp_path)):
        assert bool(check.advice) == (check.verdict is not Verdict.OK), check


@pytest.mark.parametrize(
    ("cuda", "driver_knows", "said"),
    [(None, 13000, "a build for CPUs"), ("13.0", 12080, "is too old for it"), ("13.0", 13000, None)],
)
def test_a_pytorch_here_that_can_t_rank_layers_on_the_gpu_is_told(
    cuda: str | None, driver_knows: int, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "installed", lambda package: TORCH_VERSION)
    monkeypatch.setattr(checks, "torch_build", lambda python: TorchBuild(python, TORCH_VERSION, cuda))
    found = checks.check_torch(driver(replace(CARD, cuda_driver=driver_knows)))
    assert found.verdict is (Verdict.OK if said is None else Verdict.WARN)
    assert said is None or (said in found.found and "on a GPU no layers are ranked" in found.found)
    assert said is None or f"{sys.executable} -m pip install 'torch==" in found.advice
    assert checks.check_torch(NONE).verdict is Verdict.OK
