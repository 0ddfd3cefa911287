"""The steps that make an environment that quantizes; pip itself is stood in for."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from configs.errors import AutoinferError
from experiments.environment_making import LOG_NAME
from experiments.stages.quantize.environment import REQUIREMENT
from experiments.stages.quantize.install import install, torch_wanted
from experiments.torch_build import CPU_INDEX
from tests.simulated.installing import InstallSteps, of_torch

ROOT = Path(__file__).parents[3]

OF_CPUS, OF_GPUS = of_torch("2.13.0+cpu"), of_torch("2.13.0")


def steps_of(torch: str = OF_GPUS, version: str = '"0.14.0.1"') -> InstallSteps:
    return InstallSteps({"llmcompressor": version, "torch": '"2.13.0"'}, torch)


def test_the_pins_are_those_of_the_makefile_and_of_what_ranks_layers() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["quantize"] == [REQUIREMENT]
    torch = next(each for each in extras["reference"] if each.startswith("torch=="))
    for for_cpu, build in ((True, "+cpu"), (False, "+cu130"), (False, "")):
        wanted = Requirement(torch_wanted(for_cpu=for_cpu, platform="linux"))
        assert wanted.specifier.contains(torch.removeprefix("torch==") + build)


def test_each_build_of_pytorch_is_asked_for_so_that_the_other_can_t_come() -> None:
    for_cpus = Requirement(torch_wanted(for_cpu=True, platform="linux")).specifier
    for_gpus = Requirement(torch_wanted(for_cpu=False, platform="linux")).specifier
    assert not for_cpus.contains("2.13.0")
    assert not for_gpus.contains("2.13.0+cpu")
    assert Requirement(torch_wanted(for_cpu=True, platform="darwin")).specifier.contains("2.13.0")


def test_the_build_for_cpus_comes_from_its_index_alone_and_before_all_else(tmp_path: Path) -> None:
    steps, folder = steps_of(OF_CPUS), tmp_path / "quantize"
    found = install(folder, for_cpu=True, run=steps)
    assert (found.python, found.version) == (folder / "bin" / "python", "0.14.0.1")
    assert (found.torch.version, found.torch.cuda) == ("2.13.0+cpu", None)
    torch, rest = steps.pips(folder)
    assert torch[-4:] == ["--no-deps", "--extra-index-url", CPU_INDEX, "torch==2.13.0+cpu"]
    assert rest[-2:] == ["llmcompressor==0.14.*", "torch==2.13.0+cpu"]
    assert CPU_INDEX not in rest


def test_the_build_for_gpus_is_that_of_the_package_index(tmp_path: Path) -> None:
    steps = steps_of()
    found = install(tmp_path / "quantize", for_cpu=False, run=steps)
    assert found.torch.cuda == "13.0"
    (only,) = steps.pips(tmp_path / "quantize")
    assert only[-2:] == ["llmcompressor==0.14.*", "torch==2.13.0,!=2.13.0+cpu"]
    assert CPU_INDEX not in only


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (steps_of(version="null"), "there is no llmcompressor at"),
        (steps_of(torch="null"), "there is no PyTorch at"),
        (steps_of(torch=OF_CPUS), r"PyTorch 2\.13\.0\+cpu at .* is a build for CPUs"),
    ],
)
def test_what_pip_did_not_bring_is_told_with_the_log(tmp_path: Path, steps: InstallSteps, words: str) -> None:
    with pytest.raises(AutoinferError, match=words) as told:
        install(tmp_path / "quantize", for_cpu=False, run=steps)
    assert str(tmp_path / "quantize" / LOG_NAME) in told.value.hint
