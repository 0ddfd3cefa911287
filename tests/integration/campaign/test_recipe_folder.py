"""The folder of a recipe: what a person reads, and scripts that say in a sentence what they lack."""

import json
import os
import subprocess
import venv
from pathlib import Path

import pytest

from agent.recipe.folder import BUILD, CHECK, README, REQUIREMENTS, SERVE, files_of
from agent.recipe.planning import CHECK_S
from agent.recipe.recipe import Build, Recipe
from configs.errors import EXIT_FAILURE, EXIT_OPEN, EXIT_USAGE
from configs.quantities import format_duration
from experiments.engines.serve_command import ServeCommand
from tests.integration.campaign.deployed import first

__all__ = ["first"]


def test_the_readme_names_the_limit_of_a_check_and_every_exit_code_of_it(first: tuple[Path, Recipe]) -> None:
    told = " ".join(files_of(first[1])[README].split())
    assert f"It measures for {format_duration(CHECK_S)} at most (`--within 15m` gives it longer)" in told
    for code, means in (
        (0, "the gain still holds"),
        (EXIT_FAILURE, "it does not, or the judge leaves it open"),
        (EXIT_USAGE, "there was nothing to check"),
        (EXIT_OPEN, "its time was up before that was settled"),
    ):
        assert f"- `{code}` where {means}" in told


def test_the_readme_says_before_all_else_that_a_fresh_run_does_not_agree(first: tuple[Path, Recipe]) -> None:
    against = ("A fresh run of E-0002, E-0009, does not agree: refuted now,\n# supported then.",)
    told = files_of(first[1], against)[README]
    assert told.index("E-0009") < told.index("It changes:")
    assert "\n\n**Check it before it is deployed**, with `./check.sh`. A fresh run of E-0002, E-" in told
    assert "\n#" not in told[: told.index("It changes:")], "a reason begins no heading"
    assert "before it is deployed" not in files_of(first[1])[README]


def test_a_name_with_the_end_of_a_line_in_it_runs_nothing(first: tuple[Path, Recipe], tmp_path: Path) -> None:
    recipe = first[1]
    words = ("true", "--model", "a 'b'\ntouch it; $(touch it)")
    named = recipe.model_copy(
        update={
            "model": words[2],
            "serve": recipe.serve.model_copy(update={"words": words, "shell": ServeCommand(words, "").shell}),
        }
    )
    (tmp_path / SERVE).write_text(files_of(named)[SERVE], encoding="utf-8")
    subprocess.run(["sh", SERVE], cwd=tmp_path, check=True)
    assert [each.name for each in tmp_path.iterdir()] == [SERVE]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search path with a Python that has no packages, and nothing of autoinfer."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    return f"{folder / 'bin'}:/usr/bin:/bin"


OWN = ("python", "-m", "experiments.engines.reference.server")
"""What serves with the reference engine."""


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        (SERVE, OWN, "autoinfer is not installed for the command python: README.md says how it is."),
        (SERVE, ("vllm", "serve"), "vllm is not installed here: README.md says how it is."),
        (CHECK, OWN, "autoinfer is not installed here: README.md says how it is."),
        (BUILD, OWN, "autoinfer is not installed here: README.md says how it is."),
    ],
)
def test_a_script_whose_environment_lacks_what_it_needs_says_so_in_a_sentence(
    first: tuple[Path, Recipe], tmp_path: Path, bare: str, script: str, words: tuple[str, ...], said: str
) -> None:
    built = Build(digest="a" * 64, kind="checkpoint", inputs={}, tool_versions={}, bytes=1)
    serve = first[1].serve.model_copy(update={"words": words, "shell": ServeCommand(words, "").shell})
    recipe = first[1].model_copy(update={"serve": serve, "builds": (built,)})
    (tmp_path / script).write_text(files_of(recipe)[script], encoding="utf-8")
    line = ["/bin/sh", script]
    ran = subprocess.run(line, cwd=tmp_path, env={"PATH": bare}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (EXIT_USAGE, "", f"{said}\n")


def test_a_server_whose_checkpoint_is_not_built_says_how_it_is(
    first: tuple[Path, Recipe], tmp_path: Path
) -> None:
    built = Build(digest="a" * 64, kind="checkpoint", inputs={}, tool_versions={}, bytes=1)
    serve = first[1].serve.model_copy(update={"words": ("true",), "shell": "true"})
    recipe = first[1].model_copy(update={"serve": serve, "builds": (built,)})
    (tmp_path / SERVE).write_text(files_of(recipe)[SERVE], encoding="utf-8")
    line = ["/bin/sh", SERVE]
    ran = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (
        EXIT_USAGE,
        "The checkpoint is not here yet: build it with ./build.sh\n",
    )
    (tmp_path / "checkpoint").mkdir()
    assert subprocess.run(line, cwd=tmp_path, check=False).returncode == 0


@pytest.mark.parametrize("on_its_line", [False, True], ids=["as a word", "in its first line"])
def test_a_server_says_that_a_model_of_the_machine_that_measured_is_not_on_this_one(
    first: tuple[Path, Recipe], tmp_path: Path, on_its_line: bool
) -> None:
    model = tmp_path / "a 'model'"
    words = ("true",) if on_its_line else ("true", str(model))
    line = json.dumps({"checkpoint": str(model), "threads": 2}) if on_its_line else None
    told = {"words": words, "first_line": line, "shell": ServeCommand(words, "", line).shell}
    recipe = first[1].model_copy(update={"serve": first[1].serve.model_copy(update=told)})
    (tmp_path / SERVE).write_text(files_of(recipe)[SERVE], encoding="utf-8")
    script = ["/bin/sh", SERVE]
    ran = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    copy = (
        "the place of your copy in serve.sh." if on_its_line else "your copy: RECIPE_MODEL=FOLDER ./serve.sh"
    )
    said = f"{model} is not here: copy it there from where this was measured, or name {copy}\n"
    assert (ran.returncode, ran.stderr) == (EXIT_USAGE, said)
    model.mkdir()
    assert subprocess.run(script, cwd=tmp_path, check=False).returncode == 0


def test_a_server_takes_the_model_from_where_a_variable_says(
    first: tuple[Path, Recipe], tmp_path: Path
) -> None:
    copy = tmp_path / "my 'copy'"
    words = ("printf", r"%s\n", "/nowhere/a 'model'", "--served-model-name", "a model")
    told = {"words": words, "first_line": None, "environment": {}, "shell": ServeCommand(words, "").shell}
    recipe = first[1].model_copy(update={"serve": first[1].serve.model_copy(update=told)})
    (tmp_path / SERVE).write_text(files_of(recipe)[SERVE], encoding="utf-8")
    script, told_of = ["/bin/sh", SERVE], {**os.environ, "RECIPE_MODEL": str(copy)}
    ran = subprocess.run(script, cwd=tmp_path, env=told_of, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (EXIT_USAGE, f"{copy} is not here")
    copy.mkdir()
    ran = subprocess.run(script, cwd=tmp_path, env=told_of, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()) == (0, [str(copy), *words[3:]])


@pytest.mark.parametrize("revision", ["c" * 40, None])
def test_autoinfer_is_named_with_its_version_and_revision_and_the_one_command_that_installs_it(
    first: tuple[Path, Recipe], revision: str | None
) -> None:
    recipe = first[1].model_copy(
        update={
            "machine": {"git_revision": revision},
            "versions": {"autoinfer": "0.7", "torch": "2.13.0+cpu"},
        }
    )
    files = files_of(recipe)
    at = "" if revision is None else f"@{revision}"
    assert f"    pip install 'git+file:///PATH/TO/autoinfer{at}'\n" in files[README]
    which = "version 0.7" if revision is None else f"version 0.7, revision {revision}"
    assert f"What measured was {which}." in files[README]
    comments = ["# autoinfer itself comes from its repository: see README.md", f"# {which}"]
    assert files[REQUIREMENTS].splitlines() == [*comments, "torch==2.13.0"]
