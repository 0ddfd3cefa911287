"""Which environments are installed into, and what is told where pip fails."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from configs.errors import AutoinferError, UsageError
from experiments.environment_making import LOG_NAME, check_made_here, make_environment

WANTED = ["vllm>=0.26,<0.34"]


def environment_at(folder: Path, *, made_here: bool) -> Path:
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    for path in (python, folder / "pyvenv.cfg", *([folder / LOG_NAME] if made_here else [])):
        path.touch()
    return python


def test_an_environment_that_somebody_else_made_is_left_alone(tmp_path: Path) -> None:
    python = environment_at(tmp_path / "mine", made_here=False)
    with pytest.raises(UsageError, match=f"names {python}, which was not made here") as told:
        check_made_here(python, tmp_path / "engines/vllm/bin/python", "vllm_python", WANTED)
    assert told.value.hint == (
        f"Leave vllm_python out, for an environment in {tmp_path}/engines/vllm; or install there yourself: "
        f"{python} -m pip install --no-input --upgrade 'vllm>=0.26,<0.34'"
    )


@pytest.mark.parametrize("first", [(), ("--extra-index-url", "https://cpus", "torch==2.13.0+cpu")])
def test_what_is_told_to_run_there_is_what_an_install_runs(first: tuple[str, ...], tmp_path: Path) -> None:
    wanted, commands = ["vllm>=0.26,<0.34", "torch==2.13.0,!=2.13.0+cpu"], list[str]()

    def run(command: Sequence[str], log_path: Path) -> int:
        commands.append(shlex.join(command))
        return 0

    python = environment_at(tmp_path / "mine", made_here=False)
    make_environment(python.parent.parent, wanted, run, first=first)
    with pytest.raises(UsageError) as told:
        check_made_here(python, tmp_path / "engines/bin/python", "vllm_python", wanted, first=first)
    assert told.value.hint.endswith(f"; or install there yourself: {' && '.join(commands)}")
    assert len(commands) == 1 + bool(first)


def test_nothing_is_installed_beside_what_is_no_python(tmp_path: Path) -> None:
    """`/nope` would be an environment in `/`, whose Python is the system's."""
    with pytest.raises(UsageError) as told:
        check_made_here(tmp_path / "nope", tmp_path / "engines/vllm/bin/python", "vllm_python", WANTED)
    assert told.value.hint == f"Leave vllm_python out, for an environment in {tmp_path}/engines/vllm."


def test_one_s_own_and_a_place_where_nothing_is_yet_are_installed_into(tmp_path: Path) -> None:
    default = tmp_path / "engines/vllm/bin/python"
    made_here = environment_at(tmp_path / "made", made_here=True)
    for python in (default, environment_at(default.parent.parent, made_here=False), made_here):
        check_made_here(python, default, "vllm_python", WANTED)
    check_made_here(tmp_path / "larger/disk/bin/python", default, "vllm_python", WANTED)


def test_what_is_wanted_is_taken_anew_where_another_build_of_it_is_there(tmp_path: Path) -> None:
    """`torch==2.13.0` is content with the build that a driver is too old for, whatever index is named."""
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], log_path: Path) -> int:
        commands.append(command)
        return 0

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    make_environment(tmp_path, ["torch==2.13.0"], run)
    assert [command[-2:] for command in commands] == [["--upgrade", "torch==2.13.0"]]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "ERROR: Could not find a version (from versions: 0.26.0, 0.27.0)\n"
            "ERROR: No matching distribution found for vllm==0.27.99\n",
            "pip failed: No matching distribution found for vllm==0.27.99; the newest that it found is "
            "0.27.0.",
        ),
        (
            "ERROR: Could not find a version (from versions: none)\nERROR: No matching distribution found\n",
            "pip failed: No matching distribution found; it found no version at all, so it may not reach its "
            "package index.",
        ),
        ("ERROR: [Errno 28] No space left on device\n", "pip failed: [Errno 28] No space left on device."),
        ("Killed\n", "pip failed."),
    ],
)
def test_pip_s_last_error_is_told(said: str, told: str, tmp_path: Path) -> None:
    def run(command: Sequence[str], log_path: Path) -> int:
        with log_path.open("a", encoding="utf-8") as log:
            log.write(said if "pip" in command else "made\n")
        return int("pip" in command)

    with pytest.raises(AutoinferError) as failed:
        make_environment(tmp_path, ["vllm==0.27.99"], run)
    assert failed.value.message == f"vllm==0.27.99 was not installed: {told}"
    assert str(tmp_path / LOG_NAME) in failed.value.hint
