"""Targets: what is one, what serves it, and what is told where it is not there. No GPU is claimed here: the
driver's answers are a stand-in's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.campaign.beginning.create import create_campaign
from agent.campaign.beginning.survey import survey
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.resources.waiting import come_first, nobody_takes
from agent.ground.sweep import swept
from agent.ground.target import Target, check_serves, find_target
from agent.plan import begin
from agent.plan.begin import devices_told, known_times
from agent.plan.load_and_request import Stored
from cli.running.asked import campaign_asked
from configs.campaign import load_campaign
from configs.cpu import probe_cpu
from configs.errors import AutoinferError, UsageError
from configs.targets import check_one_device, devices_of, kind_of
from db import events, workers
from db.event_kinds import EventKind
from db.session import Database
from experiments.engines.reference.engine import ReferenceEngine
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.order import order_for
from experiments.space.loading import load_space
from experiments.telemetry.driver import NO_DRIVER
from experiments.telemetry.identity import DeviceIdentity, NoSuchDevice
from knowledge.queries.campaigns import campaign_detail
from tests.unit.agent.test_questions import database
from tests.unit.agent.test_start import job_of_the_baseline

__all__ = ["database"]  # the fixture

INVENTED = DeviceIdentity("NVIDIA Invented 9000", 24 * 10**9, 23 * 10**9, "9.0", "580.10", 13000)


@pytest.mark.parametrize(("target", "kind"), [("cpu", "cpu"), ("cuda:0", "cuda"), ("cuda:17", "cuda")])
def test_a_target_is_of_a_kind(target: str, kind: str) -> None:
    assert kind_of(target) == kind


@pytest.mark.parametrize("target", ["cuda", "gpu", "cuda:", "cuda:x", "cuda:01", "CPU", "cuda:0 ", "mps", ""])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match="There is no target"):
        kind_of(target)


def test_a_gpu_is_named_by_what_it_is_and_kept_without_what_is_free() -> None:
    found = find_target("cuda:0", lambda _: INVENTED)
    assert (found.key, found.memory_bytes) == ("cuda:NVIDIA Invented 9000:24 GB", 24 * 10**9)
    kept = found.as_found()
    assert kept is not None
    assert kept["driver"] == "580.10"
    assert "free_bytes" not in kept
    assert find_target("cpu").key == probe_cpu().target_key


def test_a_gpu_that_is_not_there_is_told_with_the_drivers_reason() -> None:
    def none(device: str) -> DeviceIdentity:
        raise NoSuchDevice(f"The driver shows no {device}.")

    with pytest.raises(AutoinferError, match="no cuda:3 to measure on: The driver shows no cuda:3") as caught:
        find_target("cuda:3", none)
    assert "--target cpu" in caught.value.hint
    assert "nvidia-smi" not in caught.value.hint


def test_where_no_driver_answers_it_is_said_how_one_would() -> None:
    def none(device: str) -> DeviceIdentity:
        raise NoSuchDevice(NO_DRIVER)

    with pytest.raises(AutoinferError, match="No NVIDIA driver answers") as caught:
        find_target("cuda:0", none)
    assert caught.value.hint.startswith(
        "Where there is one, nvidia-smi has to answer: install NVIDIA's driver, "
    )
    assert "docker run --gpus all" in caught.value.hint


def test_an_engine_without_campaigns_on_a_gpu_says_so() -> None:
    with pytest.raises(UsageError, match="engine reference has campaigns on cpu alone, not on cuda:0"):
        check_serves(ReferenceEngine(), "cuda:0")
    check_serves(ReferenceEngine(), "cpu")


def with_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "agent.campaign.beginning.survey.find_target",
        lambda device, **_: Target(device, probe_cpu(), INVENTED),
    )


def test_a_gpu_without_an_engine_for_it_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with_a_stand_in(monkeypatch)
    monkeypatch.setattr("agent.ground.target.names", lambda port: ["reference"])
    asked = campaign_asked("default", {"target": "cuda:0"})
    with pytest.raises(UsageError, match="No engine for cuda:0 is installed here: a GPU is served by vllm"):
        survey(asked.spec, asked.where)


def test_a_campaign_on_a_gpu_is_stored_with_its_device_and_its_jobs_wait_for_that_gpus_worker(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's own check is left out: the stand-in has no driver for it to find."""
    with_a_stand_in(monkeypatch)
    monkeypatch.setattr("agent.campaign.beginning.survey.check_serves", lambda engine, device: None)
    monkeypatch.setattr(ReferenceEngine, "check", lambda *_, **__: None)
    spec = load_campaign("default", {"target": "cuda:1"})
    with database.write() as session:
        campaign_id = create_campaign(session, spec, survey(spec))
    with database.read() as session:
        shown = campaign_detail(session, campaign_id)
        assert read_facts(session, campaign_id).target_key == "cuda:NVIDIA Invented 9000:24 GB"
    assert shown.target == "cuda:NVIDIA Invented 9000:24 GB"
    assert shown.gpu is not None
    assert (shown.gpu.name, shown.gpu.driver) == ("NVIDIA Invented 9000", "580.10")
    assert shown.hub is None
    assert job_of_the_baseline(database, campaign_id)["device"] == "cuda:1"
    with database.write() as session:
        workers.register(session, "someone", "desk", 1, "cuda:0")
        assert nobody_takes(session, campaign_id) == "cuda:1"
        workers.register(session, "another", "desk", 2, "cuda:1")
        assert nobody_takes(session, campaign_id) is None
        assert come_first(session, campaign_id, ("cuda:1",)) is None
        later = create_campaign(session, spec, survey(spec))
        told = come_first(session, later, ("cuda:1",))
        assert come_first(session, later, ("cuda:0", "cpu")) is None
    assert told is not None
    assert told.startswith("Before this campaign's first job come those of C-1 that wait or run")
    assert told.endswith("autoinfer campaign stop C-1")


@pytest.mark.parametrize(("capability", "said"), [("8.6", True), ("9.0", False)])
def test_a_campaign_says_before_it_begins_which_kernels_its_sweep_passes_over(
    capability: str, said: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU is made up; the engine's own check is left out, for it has no driver to find it by."""
    gpu = replace(INVENTED, compute_capability=capability)
    monkeypatch.setattr(
        "agent.campaign.beginning.survey.find_target", lambda device, **_: Target(device, probe_cpu(), gpu)
    )
    monkeypatch.setattr(VllmEngine, "check", lambda *_, **__: None)
    asked = campaign_asked("default", {"target": "cuda:0"})
    note = survey(asked.spec, asked.where).note or ""
    assert ("passes over serving.gdn_prefill_backend=triton: On compute capability 8.6" in note) is said


def test_a_campaign_says_before_it_begins_what_can_t_be_quantized_on_its_gpu(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU is made up, and so is a Python whose PyTorch is a build for CPUs."""
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ncase "$*" in *version.py*) echo \'{"version": "2.13.0+cpu", "cuda": null}\' ;; '
        '*) echo \'{"llmcompressor": "0.14.0.1"}\' ;; esac\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv("AUTOINFER_QUANTIZE_PYTHON", str(python))
    monkeypatch.setattr(VllmEngine, "check", lambda *_, **__: None)
    on_cpu = survey(campaign_asked("levers", {}).spec)
    with_a_stand_in(monkeypatch)
    asked = campaign_asked("levers", {"target": "cuda:0"})
    ground = survey(asked.spec, asked.where)
    why = f"Quantizing on cuda:0 can't be: PyTorch 2.13.0+cpu at {python} is a build for CPUs; install one"
    told = f"No hypothesis that quantizes can be tested yet: {why}"
    assert told in (ground.warning or "")
    assert "can be tested yet" not in (on_cpu.warning or "")
    with database.write() as session:
        create_campaign(session, asked.spec, ground)
        (started,) = events.read(session, kinds=[EventKind.CAMPAIGN_STARTED])
    assert told in started.text


def test_on_a_gpu_a_packaged_campaign_is_served_by_the_gpus_engine_unless_one_is_named() -> None:
    asked = campaign_asked("levers", {"target": "cuda:0"}).spec
    assert (asked.engine, asked.space) == ("vllm", "vllm")
    assert asked.baseline.sweep == {"serving.gdn_prefill_backend": ("auto", "triton")}
    space = load_space(asked.space)
    first, *others = space.crossing(space.configuration({}), asked.baseline.sweep)
    assert first == space.configuration({})
    assert [each["serving.gdn_prefill_backend"] for each in others] == ["triton"]
    assert asked.questions == load_campaign("levers").questions
    named = campaign_asked("levers", {"target": "cuda:0", "engine": "mine", "space": "levers"}).spec
    assert (named.engine, named.space) == ("mine", "levers")
    assert campaign_asked("levers", {"target": "cpu"}).spec == load_campaign("levers")
    assert campaign_asked("levers", {"engine": "reference"}).spec == load_campaign("levers")


@pytest.mark.parametrize(
    ("name", "options", "lengths"),
    [
        ("default", {}, (128, 32)),
        ("default", {"target": "cuda:0"}, (512, 128)),
        ("default", {"target": "cuda:0,cuda:1", "engine": "vllm"}, (512, 128)),
        ("default", {"target": "modal:H100!"}, (512, 128)),
        ("default", {"target": "modal:cpu"}, (128, 32)),
        ("default", {"target": "cuda:0", "plan.workload.new_tokens": 16}, (512, 16)),
        ("levers", {"target": "cuda:0"}, (128, 32)),
        ("like: default", {"target": "cuda:0"}, (128, 32)),
    ],
)
def test_a_campaign_that_nobody_wrote_asks_for_longer_requests_on_a_gpu(
    name: str, options: dict[str, object], lengths: tuple[int, int], tmp_path: Path
) -> None:
    if name.startswith("like"):
        (tmp_path / "own.yaml").write_text(f"{name}\nname: own\n")
        name = str(tmp_path / "own.yaml")
    workload = campaign_asked(name, options).spec.plan.workload
    assert (workload.prompt_tokens, workload.new_tokens) == lengths
    assert workload.concurrency == 1


def test_a_file_that_is_like_a_packaged_campaign_goes_to_a_gpu_as_that_does_but_for_its_own_word(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("like: levers\nname: mine\n")
    asked = campaign_asked(str(file), {"target": "cuda:0"}).spec
    assert asked.model_copy(update={"name": "levers"}) == campaign_asked("levers", {"target": "cuda:0"}).spec
    named = campaign_asked(str(file), {"engine": "vllm"}).spec
    assert named.model_copy(update={"name": "levers"}) == campaign_asked("levers", {"engine": "vllm"}).spec
    file.write_text("like: levers\nname: mine\nspace: reference\n")
    assert campaign_asked(str(file), {"target": "cuda:0"}).spec.space == "reference"


def test_a_packaged_campaign_for_an_engine_that_is_named_is_in_that_engines_space() -> None:
    on_a_gpu = campaign_asked("levers", {"target": "cuda:0", "engine": "vllm"}).spec
    assert on_a_gpu == campaign_asked("levers", {"target": "cuda:0"}).spec
    for options in ({"engine": "vllm"}, {"engine": "vllm", "target": "cpu"}):
        asked = campaign_asked("levers", options).spec
        assert (asked.target, asked.engine, asked.space) == ("cpu", "vllm", "vllm")
        space = load_space(asked.space)
        default = space.configuration({})
        assert swept(space, default, asked.baseline.sweep) == (default,)
        order_for(default, "checkpoint", asked.target, 1)


def test_a_file_of_the_users_own_keeps_its_engine_on_a_gpu(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(load_campaign("default").model_dump(mode="json")))
    assert campaign_asked(str(file), {"target": "cuda:0"}).spec.engine == "reference"
    assert campaign_asked(str(file), {"engine": "vllm"}).spec.space == load_campaign("default").space


def test_without_earlier_runs_nothing_is_known_of_times(database: Database) -> None:
    with database.read() as session:
        found = known_times(session, "cpu:x", None, "reference", load_campaign("default").plan.workload)
    assert found == Stored(same_model=False)


def identities(**given: DeviceIdentity) -> Callable[[str], DeviceIdentity]:
    """A stand-in's answers by number: `_0=INVENTED`; the driver shows no other device."""

    def identity(device: str) -> DeviceIdentity:
        try:
            return given[f"_{device.partition(':')[2]}"]
        except KeyError:
            raise NoSuchDevice(f"The driver shows no {device}.") from None

    return identity


def test_several_devices_of_one_kind_are_one_target_in_the_order_they_are_named() -> None:
    found = find_target("cuda:1,cuda:0", identities(_0=INVENTED, _1=replace(INVENTED, free_bytes=1)))
    assert found.devices == ("cuda:1", "cuda:0")
    assert found.key == "cuda:NVIDIA Invented 9000:24 GB"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "NVIDIA Other"}, "NVIDIA Invented 9000 with 24 GB and NVIDIA Other with 24 GB"),
        ({"memory_bytes": 48 * 10**9}, "9000 with 24 GB and NVIDIA Invented 9000 with 48 GB"),
        ({"compute_capability": "8.9"}, "compute capability 9.0 and 8.9"),
        ({"driver": "581.1"}, "driver 580.10 and 581.1"),
    ],
)
def test_devices_that_differ_are_refused_with_what_differs(change: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=f"cuda:0 and cuda:1 differ: .*{told}") as caught:
        find_target("cuda:0,cuda:1", identities(_0=INVENTED, _1=replace(INVENTED, **change)))
    assert "cuda:all" in caught.value.hint


def test_all_gpus_are_those_of_the_kind_of_the_first_that_can_be_measured() -> None:
    other = replace(INVENTED, name="NVIDIA Other")
    known = identities(_0=INVENTED, _1=other, _3=INVENTED)
    found = find_target("cuda:all", known, lambda: ("cuda:0", "cuda:1", "cuda:2", "cuda:3"))
    assert found.devices == ("cuda:0", "cuda:3")
    with pytest.raises(AutoinferError, match="There is no cuda:0 to measure on"):
        find_target("cuda:all", identities(), lambda: ())


def test_a_named_device_that_is_missing_is_told_unless_a_campaign_goes_on_without_it() -> None:
    known = identities(_1=INVENTED)
    with pytest.raises(AutoinferError, match="There is no cuda:0 to measure on"):
        find_target("cuda:0,cuda:1", known)
    assert find_target("cuda:0,cuda:1", known, without_missing=True).devices == ("cuda:1",)
    with pytest.raises(AutoinferError, match="There is no cuda:0 to measure on"):
        find_target("cuda:0,cuda:2", known, without_missing=True)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("cuda:0,cuda:0", "names cuda:0 twice"),
        ("cpu,cuda:0", "puts the processor beside GPUs"),
        ("cuda:0,", "There is no target ''"),
        ("cuda:0, cuda:1", "There is no target ' cuda:1'"),
        ("cuda:all,cuda:0", "There is no target 'cuda:all'"),
    ],
)
def test_what_is_no_list_of_devices_is_refused(target: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        devices_of(target)


def test_a_series_measures_on_one_device() -> None:
    for target in ("cuda:0,cuda:1", "cuda:all"):
        with pytest.raises(UsageError, match="An A/A series measures on one device"):
            check_one_device(target, "An A/A series")
    check_one_device("cuda:1", "An A/A series")


def test_a_plan_says_which_devices_take_part() -> None:
    several = Target("cuda:0", probe_cpu(), INVENTED, ("cuda:1",))
    (told,) = devices_told(several)
    assert told.startswith("The baseline is measured on cuda:0; then cuda:0 and cuda:1 have one test each")
    assert devices_told(Target("cuda:0", probe_cpu(), INVENTED)) == ()


def test_a_plan_says_what_the_others_do_while_the_baseline_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(begin, "shares_here", lambda devices: dict.fromkeys(devices, frozenset(range(4))))
    (told,) = devices_told(Target("cuda:0", probe_cpu(), INVENTED, ("cuda:1",)))
    assert told == (
        "The baseline is measured on cuda:0, while the others build what is known to be loaded first; then "
        "cuda:0 and cuda:1 have one test each at a time, each with 4 of this machine's processors to itself."
    )


def test_a_rented_target_is_of_the_kind_that_it_has_and_no_device_of_this_machine() -> None:
    assert kind_of("modal:H100!") == "cuda"
    assert kind_of("modal:cpu") == "cpu"
    with pytest.raises(UsageError, match="A series measures on this machine, and modal:H100! is a rented"):
        check_one_device("modal:H100!", "A series")


@pytest.mark.parametrize(
    ("name", "options", "raised"),
    [
        ("default", {}, False),
        ("default", {"model": "reference", "seed": 3, "target": "cpu"}, False),
        ("default", {"plan.workload.concurrency": 16}, True),
        ("default", {"plan.workload.concurrency": 1}, False),
        ("shape", {"target": "cuda:1,cuda:2"}, False),
        ("default", {"target": "cuda:0"}, True),
        ("default", {"model": "qwen3.5-4b"}, True),
        ("default", {"engine": "vllm"}, True),
        ("shape", {"model": "qwen3.5-27b"}, True),
        ("default", {"target": "cuda:0", "budget": "10m"}, False),
        ("default", {"target": "modal:L4", "budget_usd": 5.0}, False),
    ],
)
def test_a_packaged_budget_holds_where_the_campaign_was_written_for(
    name: str, options: dict[str, object], raised: bool
) -> None:
    assert campaign_asked(name, options).raises_budget is raised


@pytest.mark.parametrize(("name", "target"), [("shape", "cpu"), ("shape", "modal:cpu")])
def test_a_packaged_campaign_for_a_gpu_says_on_a_cpu_what_it_is_for_and_what_to_run_instead(
    name: str, target: str
) -> None:
    with pytest.raises(UsageError) as refused:
        campaign_asked(name, {"target": target})
    assert refused.value.message == (
        "The packaged campaign shape is made for a GPU, where it asks what is fastest for a model by its "
        f"shape alone with the engine vllm; {target} is no GPU."
    )
    assert f"autoinfer run --target {target}" in str(refused.value.hint)
    assert "autoinfer run shape --target cuda:0" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("shape", {"target": "cpu", "engine": "vllm"}),  # who names the engine means it
        ("shape", {"target": "cuda:1"}),
        ("default", {"target": "cpu"}),
        ("levers", {"target": "cuda:0"}),
    ],
)
def test_a_packaged_campaign_goes_where_it_is_made_for_and_where_its_engine_is_named(
    name: str, options: dict[str, object]
) -> None:
    assert campaign_asked(name, options).spec.target == options["target"]


def test_the_budget_of_a_file_holds_wherever_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("like: default\nname: own\n")
    assert not campaign_asked(str(file), {"target": "cuda:0"}).raises_budget
