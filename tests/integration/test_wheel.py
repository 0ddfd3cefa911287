"""The wheel installs into a clean environment, brings its data, and its command answers without torch."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOP_LEVEL = ("agent", "cli", "configs", "dashboard", "db", "experiments", "knowledge")


def run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [*map(str, argv)]
    outcome = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)
    assert outcome.returncode == 0, f"{argv}\n{outcome.stdout}\n{outcome.stderr}"
    return outcome


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", "--no-compile", wheel, cwd=folder)
    return python


def test_the_wheel_holds_every_room_and_its_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for package in TOP_LEVEL:
        assert f"{package}/__init__.py" in names
        assert f"{package}/py.typed" in names
    assert "configs/packaged/campaigns/default.yaml" in names
    assert "experiments/reference_model/weights/model.safetensors" in names
    for file in ("config.json", "model.safetensors", "card.json", "README.md"):
        assert f"experiments/drafters/dflash/weights/{file}" in names
    assert any(name.startswith("db/migrations/versions/") for name in names)
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


@pytest.mark.timeout(600)
def test_it_answers_in_a_clean_environment_without_torch(clean_python: Path, tmp_path: Path) -> None:
    command = clean_python.parent / "autoinfer"
    assert "run" in run(command, "--help", cwd=tmp_path).stdout
    shown = run(command, "--data-dir", tmp_path / "data", "doctor", cwd=tmp_path).stdout
    assert "No campaign can run here without torch and transformers" in " ".join(shown.split())
    program = (
        "import importlib.metadata as m\n"
        f"owners = m.packages_distributions()\n"
        f"print(all(owners[p] == ['autoinfer'] for p in {TOP_LEVEL!r}))"
    )
    assert run(clean_python, "-c", program, cwd=tmp_path).stdout.strip() == "True"
