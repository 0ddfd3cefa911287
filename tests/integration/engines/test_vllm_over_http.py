"""A real vLLM, asked over its own HTTP server by a client process of its own: traces, drafts, and each end.

Skipped where no vLLM for CPUs is named (see `test_vllm_engine.py`). Everything here is real; a GPU is not.
"""

import asyncio
import os
import random
import shutil
import signal
import threading
import time
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import aiohttp
import pytest

from configs.asked_over import HTTP
from experiments.artifacts.store import ArtifactStore
from experiments.corpora.standard_library import held_out_documents
from experiments.engines.port import GenerationRequest, Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.http_client import prompt_of
from experiments.engines.vllm.launch import VllmLaunch
from experiments.engines.vllm.openai_app import SERVED_AS
from experiments.job.named import engine_for
from experiments.job.records import Records
from experiments.job.run import run_job
from experiments.job.seal import broken_seal, sealed
from experiments.measurement.evidence import Json, Metric, Stage
from experiments.measurement.judging import MeasurePair
from experiments.measurement.plan import Workload
from experiments.measurement.prompts import PromptSource, load_tokenizer
from experiments.measurement.random_words import random_words
from experiments.own_processes import children
from experiments.reference_model.load import reference_model_path
from experiments.space.configuration import Configuration, KnobValue
from tests.integration.engines.conformance import at_once, begun, wait_until_gone
from tests.integration.engines.test_vllm_engine import KNOBS, why_not
from tests.integration.engines.test_vllm_faults import (
    LONG,
    SHORT,
    LongerPrompts,
    cache,
    engine_core,
    nothing_is_left,
)
from tests.integration.job.running import a_place
from tests.recorded import vllm_requests
from tests.simulated.judges import StepsJudge
from tests.simulated.specs import a_test_job

__all__ = ["cache", "nothing_is_left"]  # the fixtures

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is one"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

TOLD_IN_S = 60
"""The limit of a request in a test in which one hangs."""


def launched(cache: Path, log: Path, engine: VllmEngine | None = None, **knobs: KnobValue) -> VllmLaunch:
    launch = (
        (engine or VllmEngine())
        .asked_over(HTTP)
        .launch(Configuration.of({**KNOBS, **knobs}), reference_model_path(), "cpu", log / "log", cache)
    )
    assert isinstance(launch, VllmLaunch)
    return launch


def cut_prompts(number: int) -> list[GenerationRequest]:
    """Prompts as a campaign has them."""
    source = PromptSource(load_tokenizer(reference_model_path()), held_out_documents())
    return source.block(Workload(prompt_tokens=96, new_tokens=2, prompts_per_block=number), 0, 0, 0)


def of_random_words(tokens: int) -> GenerationRequest:
    """A prompt as a shape and a table have them."""
    words = random_words(reference_model_path(), 4096)
    return GenerationRequest("words", tuple(random.Random(1).choices(words, k=tokens)), 2)


async def sent_for(address: str, requests: list[GenerationRequest]) -> list[Json]:
    """What the client sends for these prompts."""
    async with aiohttp.ClientSession(address) as session:
        return [await prompt_of(session, SERVED_AS, each) for each in requests]


def test_a_block_over_http_says_what_the_engine_says_and_many_are_under_way_and_close_ends_the_client(
    cache: Path, tmp_path: Path
) -> None:
    before = children()
    launch = launched(cache, tmp_path)
    try:
        alone = launch.serve(vllm_requests.requests(), 1)
        client = launch.client_pid
        together = launch.serve(vllm_requests.requests(), 2)
        said = launch.answer(vllm_requests.requests(), 1)
        stops = replace(vllm_requests.requests()[0], stop_ids=(said[0].token_ids[3],))
        ended = launch.serve([stops], 1)
        assert launch.client_pid == client, "one client for all blocks"
        with pytest.raises(Infeasible, match="refused the request") as refused:
            launch.serve([replace(SHORT, prompt_ids=(10**6,))], 1)
        assert refused.value.kind == "illegal"
        assert launch.serve([SHORT], 1), "what is refused ends nothing"
        assert launch.resolved()["asked_over"] == HTTP
        prepared = cut_prompts(5)
        launch.prepare(prepared)
        assert [len(trace.token_ids) for trace in launch.serve(prepared, 2)] == [2] * 5
        sent = asyncio.run(sent_for(launch.open_http(), [*cut_prompts(6), of_random_words(96)]))
    finally:
        launch.close()
    assert [type(each) for each in sent] == [str] * 7, "texts, as users send them"
    assert [each.token_ids for each in alone] == [each.token_ids for each in said]
    assert (max(at_once(alone)), max(at_once(together))) == (1, 2)
    for trace in (*alone, *together):
        assert len(trace.token_times_s) == len(trace.token_ids) == 16
        assert 0 < trace.token_times_s[0] < trace.token_times_s[-1]
        assert list(trace.token_times_s) == sorted(trace.token_times_s)
        assert trace.step_tokens == ()
    place = said[0].token_ids.index(said[0].token_ids[3])
    assert ended[0].token_ids == said[0].token_ids[: place + 1]
    assert wait_until_gone(begun(before)) == []


def test_with_drafts_the_steps_are_those_of_the_engine_whatever_its_server_joins(
    cache: Path, tmp_path: Path
) -> None:
    launch = launched(cache, tmp_path, **vllm_requests.DFLASH)
    try:
        asked = launch.serve(vllm_requests.drafted(), 2)
        alone = launch.serve(vllm_requests.drafted(), 1)
        said = launch.answer(vllm_requests.drafted(), 1)
    finally:
        launch.close()
    for trace in (*asked, *alone):
        assert 1 + sum(trace.step_tokens) == len(trace.token_ids) == 32
    for trace, of_engine in zip(alone, said, strict=True):
        assert trace.token_ids == of_engine.token_ids
        assert trace.step_tokens[:-1] == of_engine.step_tokens[:-1]
        assert trace.step_tokens[-1] <= of_engine.step_tokens[-1]
        assert max(trace.step_tokens) > 1, "no draft stood"
        ends = {place - 1 for place in accumulate((1, *trace.step_tokens))}
        times_s = trace.token_times_s
        chunks = {place for place in range(31) if times_s[place] != times_s[place + 1]}
        assert chunks <= ends, "a step's tokens come together"


@pytest.mark.parametrize("who", ["client", "driver", "engine"])
@pytest.mark.parametrize(
    ("fault", "kind"), [(signal.SIGKILL, "crashed"), (signal.SIGSTOP, "timed_out")], ids=["killed", "hung"]
)
def test_a_client_or_an_engine_that_is_killed_or_hangs_is_told_and_everything_ends(
    cache: Path, tmp_path: Path, who: str, fault: signal.Signals, kind: str
) -> None:
    before = children()
    launch = launched(cache, tmp_path, VllmEngine(request_limit_s=TOLD_IN_S))
    try:
        launch.serve([SHORT], 1)
        client = launch.client_pid
        assert client is not None
        computes = engine_core(before)
        struck = {"engine": computes.pid, "driver": launch.pid, "client": client}[who]
        started_s = computes.cpu_times().user

        def act() -> None:
            while computes.cpu_times().user < started_s + 0.2:  # it computes the answer
                time.sleep(0.01)
            os.kill(struck, fault)

        threading.Thread(target=act).start()
        with pytest.raises(Infeasible) as told:
            launch.serve([LONG], 1)
        assert wait_until_gone(begun(before)) == [], "without a close"
        with pytest.raises(Infeasible):
            launch.serve([SHORT], 1)
    finally:
        launch.close()
    words = {
        ("client", "crashed"): "vLLM's HTTP client's process ended (signal 9)",
        ("driver", "crashed"): "vLLM's process ended (signal 9) instead of going on to serve them. The",
        ("engine", "crashed"): "ended while it served (signal 9)",
    }.get((who, kind), "did not serve them over HTTP within 1 min; it was ended: its log names no error.")
    assert told.value.kind == kind
    assert words in told.value.cause
    assert "\n" not in told.value.cause


def test_a_checkpoint_without_a_tokenizer_is_refused_before_anything_is_loaded(
    cache: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(reference_model_path(), tmp_path / "mute"))
    (folder / "tokenizer.json").unlink()
    before = children()
    for act in (
        lambda: VllmEngine().asked_over(HTTP).check(Configuration.of(KNOBS), folder, "cpu"),
        lambda: (
            VllmEngine()
            .asked_over(HTTP)
            .launch(Configuration.of(KNOBS), folder, "cpu", tmp_path / "log", cache)
        ),
    ):
        with pytest.raises(Infeasible, match=r"has no tokenizer\.json\. Save the tokenizer") as told:
            act()
        assert told.value.kind == "unsupported"
    assert not begun(before)


def test_a_job_s_blocks_go_over_http_where_its_plan_says_so(tmp_path: Path) -> None:
    knobs: dict[str, KnobValue] = {**KNOBS, "drafting.method": "none"}
    spec = a_test_job({**knobs, "serving.max_sequences": 3}, knobs)
    workload = spec.plan.workload.model_copy(update={"asked_over": HTTP})
    over_http = spec.model_copy(update={"plan": spec.plan.model_copy(update={"workload": workload})})
    assert broken_seal(over_http) is not None, "the way is a part of what was preregistered"
    spec = sealed(over_http)
    with ArtifactStore(tmp_path / "artifacts") as store, Records(tmp_path / "records.jsonl") as records:
        place = replace(
            a_place(tmp_path, tmp_path, store),
            checkpoint=reference_model_path(),
            cores=1,
            checkpoint_stages=(),
            material=LongerPrompts(),
        )
        engine = engine_for(VllmEngine(), None, spec.plan.workload)
        done = run_job(spec, place, engine, StepsJudge([MeasurePair(Stage.QUICK, 2)]), records)
    assert done.failure is None
    assert all(each.values(Metric.TPOT_MS) for each in done.launches)
    assert {each.resolved["asked_over"] for each in done.launches} == {HTTP}
