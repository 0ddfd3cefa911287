"""What every engine must do (see `experiments.engines.port`): a suite to inherit from.

    class TestMine(EngineConformance):
        @pytest.fixture(scope="class")
        def setting(self, tmp_path_factory): return EngineSetting(...)

Everything runs the real engine: real processes, a real checkpoint.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from experiments.engines.port import (
    DECODE_ITEM_PREFIX,
    Engine,
    GenerationRequest,
    GenerationTrace,
    Infeasible,
    Launch,
    ScoringDocument,
    ScoringTask,
)
from experiments.own_processes import begun_beside, children, runs
from experiments.scratch import HELD
from experiments.space.configuration import Configuration, KnobValue
from tests.waiting import PATIENCE_S

LAUNCH_AND_WAIT = """
import json, sys, time
from importlib import import_module
from pathlib import Path
import psutil
from experiments.space.configuration import Configuration
told = json.loads(sys.argv[1])
module, name = told["engine"].split(":")
engine = getattr(import_module(module), name)()
launch = engine.launch(Configuration.of(told["knobs"]), Path(told["checkpoint"]), told["device"],
                       Path(told["log"]), Path(told["cache"]))
print(json.dumps([child.pid for child in psutil.Process().children(recursive=True)]), flush=True)
time.sleep(600)
"""
"""A parent that launches and then does nothing until it is killed."""


@dataclass(frozen=True)
class EngineSetting:
    """An engine and what to launch; `entry` is its entry point, `module:name`."""

    engine: Engine
    entry: str
    knobs: dict[str, KnobValue]
    checkpoint: Path
    device: str
    folder: Path
    vocabulary: int
    drafting: dict[str, KnobValue] | None = None
    """Knobs that make the engine draft for this checkpoint; None where it can't."""
    at_once: int = 1
    """Most requests at once that it serves with these knobs."""

    def launch(self, **knobs: KnobValue) -> Launch:
        configuration = Configuration.of(self.knobs | knobs)
        return self.engine.launch(
            configuration, self.checkpoint, self.device, self.folder / "launch.log", self.folder / "cache"
        )

    def request(self, item: str = "a", tokens: int = 40, new_tokens: int = 24) -> GenerationRequest:
        prompt = tuple((ord(item[0]) * 31 + place * place * 7) % self.vocabulary for place in range(tokens))
        return GenerationRequest(item, prompt, new_tokens)

    def document(self, item: str, tokens: int) -> ScoringDocument:
        return ScoringDocument(item, self.request(item, tokens).prompt_ids, 3 * tokens)


def begun(before: Set[int]) -> set[int]:
    """The processes that were begun since the children were `before`, by their numbers."""
    return {process.pid for process in begun_beside(before)}


def wait_until_gone(pids: set[int]) -> list[psutil.Process]:
    """Those that are still there after a while; a zombie waits for its parent and does nothing any more."""
    processes = []
    for pid in pids:
        try:
            processes.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    return [process for process in alive if runs(process)]


def left_files(setting: EngineSetting, temporary: Path) -> set[Path]:
    """What lies among the system's temporary files, and the folders of launches below the cache."""
    launches = (path for path in (setting.folder / "cache").glob("*") if (path / HELD).exists())
    return {*temporary.iterdir(), *launches}


def at_once(traces: Sequence[GenerationTrace]) -> list[int]:
    """How many requests were under way when each of them started, it among them."""
    return [sum(each.start_s <= trace.start_s < each.end_s for each in traces) for trace in traces]


class EngineConformance:
    @pytest.fixture
    def temporary(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        """Where a test's processes keep temporary files; its path is short, as names of sockets must be."""
        with tempfile.TemporaryDirectory() as folder:
            monkeypatch.setenv("TMPDIR", folder)
            monkeypatch.setattr(tempfile, "tempdir", folder)
            yield Path(folder)

    @pytest.fixture(scope="class")
    @classmethod
    def launch(cls, setting: EngineSetting) -> Iterator[Launch]:
        launch = setting.launch()
        yield launch
        launch.close()

    def test_a_launch_tells_its_configuration_and_how_long_it_took(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        assert launch.configuration == Configuration.of(setting.knobs)
        assert launch.load_s > 0

    def test_a_generation_has_exactly_the_tokens_asked_for_at_increasing_times(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        trace = launch.generate(setting.request(new_tokens=24))
        assert len(trace.token_ids) == len(trace.token_times_s) == 24
        assert trace.token_times_s[0] > 0
        assert all(before <= after for before, after in pairwise(trace.token_times_s))
        assert trace.tpot_ms > 0
        assert all(0 <= token < setting.vocabulary for token in trace.token_ids)

    def test_two_tokens_are_enough_for_a_generation(self, setting: EngineSetting, launch: Launch) -> None:
        assert len(launch.generate(setting.request(new_tokens=2)).token_ids) == 2

    def test_a_generation_ends_with_the_first_token_that_is_to_end_it(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        request = setting.request(new_tokens=24)
        whole = launch.generate(request).token_ids
        last = max(range(24), key=lambda place: whole.index(whole[place]))
        ended = launch.generate(replace(request, stop_ids=(whole[last], setting.vocabulary - 1)))
        assert ended.token_ids == whole[: last + 1]
        assert len(ended.token_times_s) == last + 1
        served = launch.serve([replace(request, stop_ids=(whole[0],))], 1)
        assert [trace.token_ids for trace in served] == [whole[:1]]

    def test_the_same_request_gives_the_same_tokens_whatever_came_between(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        first = launch.generate(setting.request("a"))
        other = launch.generate(setting.request("b", tokens=17))
        again = launch.generate(setting.request("a"))
        assert first.token_ids == again.token_ids
        assert len(set(first.token_ids)) > 4, "the checkpoint's text is too dull to tell anything"
        assert other.token_ids != first.token_ids

    def test_requests_in_a_closed_loop_give_the_tokens_of_each_alone_on_one_clock(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        requests = [setting.request(item, tokens=30) for item in "abc"]
        alone = [launch.generate(request) for request in requests]
        traces = launch.serve(requests, 1)
        assert [trace.token_ids for trace in traces] == [trace.token_ids for trace in alone]
        for before, after in pairwise(traces):
            assert before.start_s < before.end_s <= after.start_s

    def test_more_requests_at_once_than_it_serves_are_refused(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        with pytest.raises(Infeasible, match=str(setting.at_once + 1)) as told:
            launch.serve([setting.request()], setting.at_once + 1)
        assert told.value.kind == "illegal"

    def test_requests_at_once_overlap_and_each_is_whole(self, setting: EngineSetting, launch: Launch) -> None:
        if setting.at_once == 1:
            pytest.skip("this engine serves one request at a time")
        requests = [setting.request(item, tokens=30, new_tokens=16) for item in "abcdefg"]
        traces = launch.serve(requests, setting.at_once)
        assert [len(trace.token_ids) for trace in traces] == [16] * len(requests)
        assert max(at_once(traces)) == setting.at_once
        for trace in traces:
            assert trace.token_times_s[0] > 0
            assert all(before <= after for before, after in pairwise(trace.token_times_s))

    def test_what_runs_is_told_as_json_and_stays_the_same(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        before = dict(launch.resolved())
        launch.generate(setting.request())
        assert before
        assert json.loads(json.dumps(before)) == before
        assert before["engine"] == setting.engine.name
        assert before.keys() == launch.resolved().keys()

    def test_scores_come_for_each_document_and_task_by_name(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        documents = [setting.document("a", 100), setting.document("b", 30), setting.document("c", 100)]
        right = launch.generate(setting.request("d", tokens=20, new_tokens=3)).token_ids
        wrong = (*right[:2], (right[2] + 1) % setting.vocabulary)
        prompt = setting.request("d", tokens=20).prompt_ids
        tasks = [ScoringTask("right", prompt, right), ScoringTask("wrong", prompt, wrong)]
        scores, graded = launch.score(documents, tasks)
        by_name = {score.item: score for score in scores}
        assert [score.item for score in scores][:3] == ["a", "b", "c"]
        assert all(by_name[document.item].text_bytes == document.text_bytes for document in documents)
        assert all(score.nll_bits > 0 for score in scores)
        assert {task.item: task.correct for task in graded} == {"right": True, "wrong": False}

    def test_a_launch_agrees_with_the_reference_it_wrote(
        self, setting: EngineSetting, launch: Launch, tmp_path: Path
    ) -> None:
        documents = [setting.document("a", 100), setting.document("b", 30)]
        written, _ = launch.score(documents, [], write_reference=tmp_path / "reference")
        compared, _ = launch.score(documents, [], reference=tmp_path / "reference")
        assert [score.nll_bits for score in written] == [score.nll_bits for score in compared]
        for score in compared:
            assert score.kl_nats == pytest.approx(0, abs=1e-3)
            # decode steps compute the same by other kernels, which may turn a near-tie of some 35 tokens
            turned = 0.1 if score.item.startswith(DECODE_ITEM_PREFIX) else 0.02
            assert score.top1_agreement == pytest.approx(1, abs=turned)

    def test_without_drafting_a_generation_has_no_steps_and_there_is_nothing_to_check(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        assert launch.generate(setting.request()).step_tokens == ()
        with pytest.raises(Infeasible, match="draft") as told:
            launch.check_drafting([setting.request()])
        assert told.value.kind == "illegal"

    def test_drafting_is_told_step_by_step_and_checked_to_be_lossless(
        self, setting: EngineSetting, launch: Launch
    ) -> None:
        if setting.drafting is None:
            pytest.skip("this engine does not draft")
        requests = [setting.request("a"), setting.request("b", tokens=17)]
        drafting = setting.launch(**setting.drafting)
        try:
            traces = [drafting.generate(request) for request in requests]
            checks = drafting.check_drafting(requests)
            again = drafting.generate(requests[0])
            parts = drafting.profile(requests[0])
            scores, _ = drafting.score([setting.document("a", 100)], [])
            resolved = dict(drafting.resolved())
        finally:
            drafting.close()
        most = int(setting.drafting.get("drafting.draft_tokens", 1)) + 1
        for request, trace, check in zip(requests, traces, checks, strict=True):
            assert len(trace.token_ids) == len(trace.token_times_s) == request.new_tokens
            assert all(before <= after for before, after in pairwise(trace.token_times_s))
            assert all(1 <= tokens <= most for tokens in trace.step_tokens)
            assert sum(trace.step_tokens[:-1]) < request.new_tokens - 1 <= sum(trace.step_tokens)
            assert (check.item, check.divergences) == (request.item, 0)
            assert 0 < check.positions <= request.new_tokens
            assert check.near_ties <= check.positions
            assert check.near_tie_logits >= 0
            assert sum(check.step_tokens) >= request.new_tokens - 1
        assert again.token_ids == traces[0].token_ids
        kinds = {part.kind for part in parts}
        assert "draft" in kinds
        assert kinds & {"verify", "gdn_state"}, "verifying is told whole, or by its kernels"
        assert all(score.nll_bits > 0 for score in scores)
        assert json.loads(json.dumps(resolved)) == resolved
        assert resolved["drafting"] != launch.resolved()["drafting"]

    def test_close_ends_every_process_leaves_no_file_and_may_be_called_twice(
        self, setting: EngineSetting, temporary: Path
    ) -> None:
        before, files_before = children(), left_files(setting, temporary)
        launch = setting.launch()
        started = begun(before)
        assert started
        launch.close()
        launch.close()
        assert wait_until_gone(started) == []
        assert left_files(setting, temporary) == files_before
        with pytest.raises(Infeasible):
            launch.generate(setting.request())

    def test_a_launch_that_is_not_ready_in_time_is_ended(self, setting: EngineSetting) -> None:
        before = children()
        log, cache = setting.folder / "late.log", setting.folder / "cache"
        with pytest.raises(Infeasible, match="within") as told:
            setting.engine.launch(
                Configuration.of(setting.knobs), setting.checkpoint, setting.device, log, cache, 0.01
            )
        assert told.value.kind == "timed_out"
        assert wait_until_gone(begun(before)) == []

    def test_a_process_that_dies_is_told_in_a_sentence(self, setting: EngineSetting) -> None:
        before = children()
        launch = setting.launch()
        try:
            for pid in begun(before):
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(Infeasible) as told:
                launch.generate(setting.request())
        finally:
            launch.close()
        assert told.value.kind == "crashed"
        assert "signal 9" in told.value.cause
        assert "\n" not in told.value.cause

    def test_killing_the_parent_leaves_no_process_and_what_files_it_left_the_next_launch_deletes(
        self, setting: EngineSetting, temporary: Path
    ) -> None:
        before = left_files(setting, temporary)
        told = {
            "engine": setting.entry,
            "knobs": setting.knobs,
            "checkpoint": str(setting.checkpoint),
            "device": setting.device,
            "log": str(setting.folder / "orphan.log"),
            "cache": str(setting.folder / "cache"),
        }
        with subprocess.Popen(
            [sys.executable, "-c", LAUNCH_AND_WAIT, json.dumps(told)], stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            pids = set(json.loads(parent.stdout.readline()))
            parent.kill()
        assert pids
        assert wait_until_gone(pids) == []
        with pytest.raises(Infeasible):  # as it is not ready in time
            setting.engine.launch(
                Configuration.of(setting.knobs),
                setting.checkpoint,
                setting.device,
                setting.folder / "late.log",
                setting.folder / "cache",
                0.01,
            )
        assert left_files(setting, temporary) == before

    def test_a_missing_checkpoint_is_refused_before_anything_starts(
        self, setting: EngineSetting, tmp_path: Path
    ) -> None:
        before = children()
        for act in (self.check, self.start):
            with pytest.raises(Infeasible, match="nowhere") as told:
                act(setting, tmp_path / "nowhere")
            assert told.value.kind == "checkpoint"
        assert not begun(before)

    @pytest.mark.parametrize("damage", ["cut short", "no weights", "no config", "another type"])
    def test_a_broken_checkpoint_is_refused_in_a_sentence(
        self, setting: EngineSetting, tmp_path: Path, damage: str
    ) -> None:
        folder = tmp_path / "broken"
        shutil.copytree(setting.checkpoint, folder)
        weights, config = next(folder.glob("*.safetensors")), folder / "config.json"
        match damage:
            case "cut short":
                weights.write_bytes(weights.read_bytes()[:-100])
            case "no weights":
                weights.unlink()
            case "no config":
                config.unlink()
            case "another type":
                config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "gpt2"}))
        with pytest.raises(Infeasible, match=str(folder)) as told:
            self.check(setting, folder)
        assert told.value.kind == "checkpoint"
        assert told.value.cause.endswith(".")
        assert "\n" not in told.value.cause

    def check(self, setting: EngineSetting, checkpoint: Path) -> None:
        setting.engine.check(Configuration.of(setting.knobs), checkpoint, setting.device)

    def start(self, setting: EngineSetting, checkpoint: Path) -> None:
        log, cache = setting.folder / "refused.log", setting.folder / "cache"
        setting.engine.launch(Configuration.of(setting.knobs), checkpoint, setting.device, log, cache)
