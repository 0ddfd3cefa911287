"""The reference engine passes the suite of all engines, and does what it alone promises."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch

from configs.library_threads import THREADS_VARIABLE, compute_in_one_thread
from experiments.engines.port import NO_NUMBERS, GenerationRequest, Infeasible, Launch
from experiments.engines.reference.engine import ReferenceEngine
from experiments.job.evaluation import quality_values
from experiments.own_processes import children
from experiments.reference_model.load import reference_model_path
from experiments.scratch import HELD
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.checkpoints import LAYERS, VOCABULARY, tiny_model, write_checkpoint
from tests.integration.engines.conformance import (
    LAUNCH_AND_WAIT,
    EngineConformance,
    EngineSetting,
    begun,
    wait_until_gone,
)
from tests.integration.engines.near_ties import top_two_gap

KNOBS: dict[str, KnobValue] = {
    "serving.dtype": "float32",
    "serving.threads": 1,
    "serving.compile": "off",
}

NEAR_TIE = 1e-3
"""Gap of the two best logits within which compiled and eager arithmetic may choose differently; logits of the
tiny model spread over some tens."""


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory, inductor_folder: Path) -> EngineSetting:
    folder = tmp_path_factory.mktemp("reference-engine")
    (folder / "cache").mkdir()
    (folder / "cache" / "inductor").symlink_to(inductor_folder)
    return EngineSetting(
        engine=ReferenceEngine(),
        entry="experiments.engines.reference.engine:ReferenceEngine",
        knobs=KNOBS,
        checkpoint=write_checkpoint(folder / "checkpoint", tiny_model(layers=LAYERS[:2])),
        device="cpu",
        folder=folder,
        vocabulary=VOCABULARY,
        drafting={
            "drafting.method": "draft_model",
            "drafting.draft_tokens": 2,
            "drafting.drafter": str(folder / "checkpoint"),
        },
    )


class TestReferenceEngine(EngineConformance):
    def test_what_runs_is_as_configured_asked_of_the_process_and_nothing_of_it_stays(
        self, setting: EngineSetting, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache = setting.folder / "cache"
        orphan = cache / "launch-left"
        orphan.mkdir(parents=True)
        (orphan / HELD).touch()  # as a killed process leaves it: held by nobody
        before = set(cache.glob("launch-*"))
        monkeypatch.delenv(THREADS_VARIABLE, raising=False)
        compute_in_one_thread()
        launch = setting.launch(**{"serving.dtype": "bfloat16", "serving.threads": 2})
        try:
            resolved = launch.resolved()
            environment = psutil.Process(launch.pid).environ()
        finally:
            launch.close()
        assert resolved["dtype"] == "bfloat16"
        assert resolved["threads"] == 2, "though we compute in one"
        assert (environment["OMP_NUM_THREADS"], environment.get(THREADS_VARIABLE)) == ("2", None)
        assert resolved["compile"] == {"mode": "off", "used": False}
        assert resolved["attention"] == "sdpa"
        assert (resolved["gdn"], resolved["conv1d"]) == ("torch", "torch")
        assert resolved["layers"] == ["linear_attention", "full_attention"]
        assert set(cache.glob("launch-*")) <= before - {orphan}

    def test_a_request_without_an_answer_in_time_ends_the_process(self, setting: EngineSetting) -> None:
        before = children()
        launch = ReferenceEngine(request_timeout_s=0.2).launch(
            Configuration.of(KNOBS),
            setting.checkpoint,
            "cpu",
            setting.folder / "slow.log",
            setting.folder / "cache",
        )
        with pytest.raises(Infeasible, match="did not generate within") as told:
            launch.generate(setting.request(new_tokens=4000))
        assert told.value.kind == "timed_out"
        assert not begun(before)

    def test_what_goes_wrong_within_a_request_is_told_and_the_launch_goes_on(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        with pytest.raises(Infeasible, match="IndexError") as told:
            launch.generate(GenerationRequest("bad", (VOCABULARY + 5,), 2))
        assert told.value.kind == "crashed"
        assert len(launch.generate(setting.request(new_tokens=2)).token_ids) == 2

    @pytest.mark.bench_only  # in the suite such scores are refused in job/test_run_evaluation.py
    def test_a_checkpoint_that_computes_no_numbers_is_refused_as_that(
        self, setting: EngineSetting, tmp_path: Path
    ) -> None:
        model = tiny_model(layers=LAYERS[:2])
        torch.nn.init.constant_(model.model.norm.weight, float("nan"))
        launch = setting.engine.launch(
            Configuration.of(KNOBS),
            write_checkpoint(tmp_path / "broken", model),
            "cpu",
            tmp_path / "broken.log",
            setting.folder / "cache",
        )
        try:
            scores = launch.score([setting.document("a", 40)], [])
        finally:
            launch.close()
        with pytest.raises(Infeasible, match="computes no numbers: nll_bits of a came out as nan") as told:
            quality_values(*scores)
        assert told.value.kind == NO_NUMBERS

    @pytest.mark.bench_only
    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("mode", ["default", "cpp_wrapper"])
    def test_a_compiled_step_gives_the_eager_text_up_to_near_ties_and_is_built_once(
        self, setting: EngineSetting, launch: Launch, mode: str
    ) -> None:
        compiled = setting.launch(**{"serving.compile": mode})
        try:
            texts = {
                item: (
                    launch.generate(setting.request(item, new_tokens=32)).token_ids,
                    compiled.generate(setting.request(item, new_tokens=32)).token_ids,
                )
                for item in "abcdef"
            }
            scores, _ = compiled.score([setting.document("a", 180)], [])
            resolved = compiled.resolved()["compile"]
        finally:
            compiled.close()
        assert isinstance(resolved, dict)
        assert (resolved["mode"], resolved["used"]) == (mode, True)
        if mode == "default":
            assert (resolved["graphs"], resolved["graph_breaks"], resolved["recompilations"]) == (1, 0, 0)
        decoded = scores[-1]
        assert decoded.item == "decode:a"
        assert decoded.kl_nats == pytest.approx(0, abs=1e-5)
        assert decoded.top1_agreement == pytest.approx(1, abs=0.02)
        for item, (eager, tokens) in texts.items():
            pairs = zip(eager, tokens, strict=True)
            first = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
            if first is not None:
                context = setting.request(item).prompt_ids + eager[:first]
                assert top_two_gap(setting.checkpoint, context) < NEAR_TIE, (item, first)
        if mode == "cpp_wrapper":
            self.another_launch_finds_the_package(setting)

    def another_launch_finds_the_package(self, setting: EngineSetting) -> None:
        launch = setting.launch(**{"serving.compile": "cpp_wrapper"})
        resolved = launch.resolved()["compile"]
        launch.close()
        assert isinstance(resolved, dict)
        step = resolved["capacity_256"]
        assert isinstance(step, dict)
        assert step["package_reused"] is True
        packages = list((setting.folder / "cache" / "decode-steps").glob("*.pt2"))
        assert [package.stem for package in packages] == [step["package"]]
        headers = setting.folder / "cache" / "decode-steps" / "precompiled-headers"
        assert len(list(headers.glob("*.gch"))) == 2, "torch's headers, of the wrapper and of the kernels"


@pytest.mark.bench_only  # in the suite the parent of a launch that answers is killed (conformance.py)
def test_killing_the_parent_ends_a_launch_that_is_compiling(setting: EngineSetting, tmp_path: Path) -> None:
    told = {
        "engine": setting.entry,
        "knobs": KNOBS | {"serving.compile": "cpp_wrapper"},
        "checkpoint": str(setting.checkpoint),
        "device": setting.device,
        "log": str(tmp_path / "log"),
        "cache": str(tmp_path / "cold"),
    }
    with subprocess.Popen([sys.executable, "-c", LAUNCH_AND_WAIT, json.dumps(told)]) as parent:
        family = psutil.Process(parent.pid)
        names: set[str] = set()
        while not names & {"cc1plus", "g++"}:
            with suppress(subprocess.TimeoutExpired):
                parent.wait(timeout=0.1)
            assert parent.returncode is None
            names = set()
            for process in (processes := family.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    names.add(process.name())
        parent.kill()
    assert wait_until_gone({process.pid for process in processes}) == []


def test_a_compiler_that_fails_is_told_as_such(
    setting: EngineSetting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken-compiler"
    broken.write_text("#!/bin/sh\necho no such instruction >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(Infeasible, match="could not compile the decode step") as told:
        ReferenceEngine().launch(
            Configuration.of(KNOBS | {"serving.compile": "cpp_wrapper"}),
            setting.checkpoint,
            "cpu",
            tmp_path / "log",
            tmp_path / "cache",
        )
    assert told.value.kind == "build_failed"


def test_the_command_of_the_packaged_model_names_no_folder_and_serves_the_installation_s_own(
    tmp_path: Path,
) -> None:
    command = ReferenceEngine().serve_command(Configuration.of(KNOBS), reference_model_path(), "cpu")
    assert str(reference_model_path()) not in command.shell
    environment = {**os.environ, **command.environment, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        [sys.executable, *command.words[1:]],
        env=environment,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(f"{command.first_line}\n")
        server.stdin.flush()
        assert "weights_s" in json.loads(server.stdout.readline())["ok"]
        server.stdin.close()
