"""`docker-compose.yml`, `Dockerfile` and `.dockerignore` say what docs/compose.md promises."""

import json
import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from experiments.engines.vllm.environment import IN_IMAGES, NEWEST_TRIED, written
from tests.integration.compose.composed import (
    OURS,
    ROOT,
    compose,
    image_environment,
    program,
    project,
    service,
    stages,
    whole,
)

DIGEST = re.compile(r"[a-z]+:[0-9][0-9.]*-[a-z-]+@sha256:[0-9a-f]{64}")
"""An image by a whole version and the digest of it."""


def test_docker_compose_takes_the_file_with_and_without_a_gpu() -> None:
    for words in (("config", "--quiet"), ("--profile", "gpu", "config", "--quiet")):
        done = compose(*words)
        assert (done.returncode, done.stderr) == (0, "")
    without = compose("config", "--services").stdout.split()
    assert set(without) == {"database", "schema", "dashboard", "agent", "worker"}
    assert set(project()["services"]) == {"database", *OURS}


def test_what_is_wrong_in_it_would_be_found(tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text((ROOT / "docker-compose.yml").read_text().replace("read_only:", "readonly:", 1))
    done = subprocess.run(
        [program("docker-compose"), "--file", str(broken), "config", "--quiet"],
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    done = subprocess.run(
        [program("hadolint"), "--no-color", str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_every_image_is_named_by_version_and_digest() -> None:
    named = [line.split("=", 1)[1] for line in stages()[""] if line.startswith("ARG ")]
    named.append(service("database")["image"])
    assert len(named) == 3
    assert all(DIGEST.fullmatch(each) for each in named), named
    taken = {line.split()[1] for name in stages() if name for line in stages()[name][:1]}
    assert taken - set(stages()) == {"${NODE_IMAGE}", "${PYTHON_IMAGE}"}, "all else are stages of it"


def test_nothing_runs_as_root_or_may_become_it() -> None:
    for name in ("runtime", "gpu", "default"):
        users = [line.split()[1] for line in whole(name) if line.startswith("USER ")]
        assert users[-1] == "10001:10001", name
    assert service("database")["user"] == "postgres"
    for name in ("database", *OURS):
        told = service(name)
        assert told.get("user", "") not in ("root", "0", "0:0")
        assert told["read_only"] is True, name
        assert told["cap_drop"] == ["ALL"], name
        assert told["security_opt"] == ["no-new-privileges:true"], name
        assert "privileged" not in told
        assert "cap_add" not in told


def test_every_service_that_stays_has_a_health_check_of_its_own_kind() -> None:
    checks = {name: service(name)["healthcheck"] for name in ("database", *OURS)}
    assert checks.pop("schema")["disable"] is True, "it ends"
    words = {name: " ".join(check["test"]) for name, check in checks.items()}
    assert "pg_isready --host 127.0.0.1" in words.pop("database")
    assert "python -m dashboard.health http://127.0.0.1:8420" in words.pop("dashboard")
    assert set(words.values()) == {"CMD nice -n 10 autoinfer doctor"}


def test_everything_waits_for_what_it_needs() -> None:
    assert service("schema")["depends_on"]["database"]["condition"] == "service_healthy"
    for name in OURS[1:]:
        needed = service(name)["depends_on"]
        assert {each: told["condition"] for each, told in needed.items()} == {
            "schema": "service_completed_successfully"
        }, name


def test_secrets_come_as_files_and_stand_in_no_variable_or_command() -> None:
    assert {name: told["file"] for name, told in project()["secrets"].items()} == {
        "database_password": str(ROOT / "secrets" / "database_password"),
        "dashboard_token": str(ROOT / "secrets" / "dashboard_token"),
    }
    for name in ("database", *OURS):
        told = service(name)
        for variable, value in told["environment"].items():
            if re.search("PASSWORD|TOKEN|SECRET|KEY", variable):
                assert value.startswith("/run/secrets/"), (name, variable)
        assert "@" not in told["environment"].get("AUTOINFER_DATABASE_URL", "").replace(
            "autoinfer@database", ""
        )
    with_token = [name for name in OURS if "dashboard_token" in str(service(name)["secrets"])]
    assert with_token == ["dashboard"], "nobody else has it"


def test_the_dashboard_is_open_to_this_machine_alone_unless_told_otherwise() -> None:
    (port,) = service("dashboard")["ports"]
    assert (port["host_ip"], port["published"], port["target"]) == ("127.0.0.1", "8420", 8420)
    assert [name for name in project()["services"] if service(name).get("ports")] == ["dashboard"]
    moved = compose("config", "--format", "json", DASHBOARD_ADDRESS="0.0.0.0", DASHBOARD_PORT="80").stdout
    assert '"host_ip": "0.0.0.0"' in moved
    assert '"published": "80"' in moved


def test_the_database_is_reached_from_inside_alone() -> None:
    assert project()["networks"]["inside"]["internal"] is True
    assert list(service("database")["networks"]) == ["inside"]


def test_what_is_stored_is_in_named_volumes() -> None:
    assert set(project()["volumes"]) == {"data", "database"}
    assert [(each["source"], each["target"]) for each in service("database")["volumes"]] == [
        ("database", "/var/lib/postgresql/data")
    ]
    for name in OURS:
        mounted = {each["target"]: each for each in service(name)["volumes"]}
        assert mounted["/data"]["source"] == "data"
        assert mounted["/models"]["read_only"] is True
    assert image_environment()["AUTOINFER_DATA_DIR"] == "/data"


def test_only_the_services_of_the_profile_have_a_gpu() -> None:
    for name in ("database", *OURS):
        has = "nvidia" in str(service(name).get("deploy", ""))
        assert has is name.startswith("gpu-"), name
        assert (service(name).get("profiles") == ["gpu"]) is has
    chosen = json.loads(compose("--profile", "gpu", "config", "--format", "json", GPU="3").stdout)
    for name in ("gpu-agent", "gpu-worker"):
        (device,) = chosen["services"][name]["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["device_ids"]) == ("nvidia", ["3"])


def test_variables_choose_the_campaign() -> None:
    command = service("agent")["command"]
    assert command[:5] == ["autoinfer", "run", "default", "--budget", "30m"]
    told = compose("config", "--format", "json", CAMPAIGN="levers", BUDGET="8h", MODEL="/models/mine").stdout
    for each in ('"levers"', '"8h"', '"/models/mine"'):
        assert each in told


def test_compiled_code_may_run_from_where_it_is_made() -> None:
    for name in OURS:
        assert any(re.match("/tmp:.*exec", each) for each in service(name)["tmpfs"]), name


def test_the_build_sees_what_the_wheel_is_made_of_and_nothing_secret() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "what is not named is left out"
    allowed = {line.removeprefix("!") for line in rules if line.startswith("!")}
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    needed = {each.removeprefix("/") for each in build["sdist"]["include"]} | {"pyproject.toml", "deploy"}
    assert allowed == needed
    assert all((ROOT / each).exists() for each in allowed)


def test_the_installed_extras_are_those_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = " ".join(stages()["build"])
    for name in ("reference", "postgresql", "quantize"):
        assert name in extras
        assert f'"{name}"' in text


def copied_from(stage: str, folder: str) -> str:
    """The stage whose folder is the stage's own, or that of the stage that it goes on from."""
    (named,) = (each for each in whole(stage) if re.fullmatch(rf"COPY --from=\S+ {folder} {folder}", each))
    return named.split()[1].removeprefix("--from=")


def test_the_image_for_gpus_quantizes_and_ranks_by_a_pytorch_for_gpus_and_the_other_has_no_cuda() -> None:
    """Both environments are copied from one stage: what quantizes sees the packages of the other."""
    by_stage = {
        name: {copied_from(name, folder) for folder in ("/opt/autoinfer", "/opt/quantize")}
        for name in ("runtime", "default", "gpu")
    }
    assert by_stage == {"runtime": {"build"}, "default": {"build"}, "gpu": {"build-gpu"}}
    for_cpus, for_gpus = " ".join(whole("build")), " ".join(stages()["build-gpu"])
    assert 'sys.exit(torch.version.cuda and "PyTorch came with CUDA' in for_cpus
    assert "FOR_GPUS" not in for_cpus
    assert 'pip install "$(/opt/autoinfer/bin/python -c' in for_gpus
    assert "from experiments.torch_build import FOR_GPUS" in for_gpus
    assert "PIP_EXTRA_INDEX_URL" not in for_gpus
    for python in ("/opt/autoinfer/bin/python", "/opt/quantize/bin/python"):
        assert f"{python} -c 'import sys, torch; sys.exit(not torch.version.cuda and" in for_gpus


def test_the_image_for_gpus_has_the_vllm_that_a_gpu_ran_last() -> None:
    """docs/vllm.md names the results of that version by pages that are there."""
    (pinned,) = (each for each in stages()["gpu"] if each.startswith("ARG VLLM_VERSION="))
    version = pinned.partition("=")[2]
    assert version == IN_IMAGES
    assert f"vLLM {version} (`--build-arg" in " ".join((ROOT / "docs/compose.md").read_text().split())
    assert f"With vLLM {written(NEWEST_TRIED)}".lower() in (ROOT / "docs/vllm.md").read_text().lower()


def test_the_entrypoint_can_be_run() -> None:
    assert (ROOT / "deploy" / "entrypoint.sh").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize("again", [False, True])
def test_secrets_are_made_once_and_are_different(tmp_path: Path, again: bool) -> None:
    command = ["make", "--silent", "--file", str(ROOT / "Makefile"), "compose-secrets"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "secrets"
    first = {path.name: path.read_text() for path in folder.iterdir()}
    assert set(first) == {"database_password", "dashboard_token"}
    assert len(set(first.values())) == 2
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in first.values())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    if again:
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        assert {path.name: path.read_text() for path in folder.iterdir()} == first
