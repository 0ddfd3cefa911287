"""The steps of prompts that were read one after the other are shared out, and what each computes is told."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.engines.port import GenerationRequest, Infeasible
from experiments.engines.vllm.engine import VllmEngine
from experiments.engines.vllm.kernel_steps import Kernel, Region, Step
from experiments.engines.vllm.kernel_trace import MARK_BYTES, MARKS, trace_of
from experiments.engines.vllm.prompt_profile import (
    PROMPTS,
    by_prompt,
    operations_of,
    profile_prompt,
    weights_read,
)

READ = {
    "weight_bytes": {"down_proj": 400, "qkv_proj": 120, "lm_head": 800, "small": 5},
    "linears": ["down_proj"],
}


def step(name: str, *, reads: bool = True) -> Step:
    head = (Kernel("head", Region.HEAD, 1.0, 1.0),) if reads else ()
    return (Kernel(name, Region.FORWARD, 0.0, 1.0), *head)


def names(prompt: Step) -> list[str]:
    return [kernel.name for kernel in prompt if kernel.region is Region.FORWARD]


@pytest.mark.parametrize("recorded", [6, 7])
def test_the_last_step_may_be_missing(recorded: int) -> None:
    found, each = by_prompt([step(str(n)) for n in range(recorded)], 7)
    assert (each, [names(prompt) for prompt in found]) == (1, [[str(n)] for n in range(recorded)])


def test_a_prompt_that_is_read_in_pieces_has_all_of_them() -> None:
    found, each = by_prompt([step(piece) for piece in "abababab"[:-1]], 4)
    assert (each, [names(prompt) for prompt in found]) == (2, [["a", "b"]] * 3)


def test_steps_that_read_nothing_are_left_out() -> None:
    found, each = by_prompt([step("a"), step("idle", reads=False), step("b")], 3)
    assert (each, [names(prompt) for prompt in found]) == (1, [["a"], ["b"]])


@given(st.integers(2, 9), st.integers(1, 4), st.integers(0, 1))
def test_every_prompt_but_the_last_is_whole_however_many_steps_each_was_read_by(
    prompts: int, each: int, missing: int
) -> None:
    steps = [step(f"{prompt}/{piece}") for prompt in range(prompts) for piece in range(each)]
    found, told = by_prompt(steps[: len(steps) - missing], prompts)
    assert told == each
    assert [names(prompt) for prompt in found] == [
        [f"{prompt}/{piece}" for piece in range(each)] for prompt in range(prompts - missing)
    ]


@pytest.mark.parametrize("recorded", [5, 11])
def test_steps_that_are_not_those_of_as_many_prompts_are_refused(recorded: int) -> None:
    with pytest.raises(Infeasible, match=f"recorded {recorded} steps of 7 prompts"):
        by_prompt([step("a")] * recorded, 7)


@pytest.mark.parametrize("steps", [[], [step("idle", reads=False)] * 7])
def test_a_record_without_a_step_that_reads_is_refused(steps: list[Step]) -> None:
    with pytest.raises(Infeasible, match="recorded no step that reads a prompt"):
        by_prompt(steps, 7)


def test_products_are_counted_a_token_and_the_head_s_once_a_step() -> None:
    read = {**READ, "operations": {"down_proj": 400, "lm_head": 800}}
    assert operations_of(read, 512, 2) == {"down_proj": 400 * 512, "lm_head": 1600}


def test_attention_looks_from_each_token_at_itself_and_those_before_and_states_go_along_token_by_token() -> (
    None
):
    read = {**READ, "attention_operations": 8, "state_operations": 24}
    assert operations_of(read, 3, 1) == {"attention": 8 * (1 + 2 + 3), "gdn_state": 24 * 3}
    assert operations_of(read, 3, 2) == operations_of(read, 3, 1), "in pieces it is no more"


def test_of_states_what_a_prompt_s_first_tokens_may_spare_is_not_counted_and_nothing_of_a_short_prompt() -> (
    None
):
    read = {**READ, "state_operations": 24, "spared_operations": 50}
    assert operations_of(read, 3, 1) == {"gdn_state": 24 * 3 - 50}
    assert operations_of(read, 2, 1) == {}


def test_of_a_drafter_no_weights_are_counted_for_a_prompt() -> None:
    read = {"weight_bytes": {"gate_up_proj": 100, "draft": 7_000, "lm_head": 10}}
    assert weights_read(read, 640, 2) == {"gate_up_proj": 200, "lm_head": 20}


def test_a_prompt_reads_nearly_all_experts_and_computes_with_those_of_each_token() -> None:
    experts = {"bytes": 64_000, "count": 64, "per_token": 2, "operations": 2_000}
    read = {"weight_bytes": {"qkv_proj": 100}, "operations": {"qkv_proj": 100}, "experts": experts}
    assert weights_read(read, 1, 1) == {"qkv_proj": 100, "experts": 2_000}
    few, many = weights_read(read, 8, 1)["experts"], weights_read(read, 1024, 1)["experts"]
    assert 8 * 1_000 < few < 16_000
    assert many == 64_000
    assert weights_read(read, 1024, 2)["experts"] == 2 * 64_000, "once in each step"
    assert operations_of(read, 10, 1) == {"qkv_proj": 1_000, "experts": 20_000}


@pytest.mark.parametrize(("stored_bytes", "counted"), [(400, True), (200, False), (230, False), (112, True)])
def test_of_weights_in_eight_bits_no_floor_is_counted(stored_bytes: int, counted: bool) -> None:
    """200 weights: 2 bytes each, 1, 1 with scales, and half of one with scales."""
    read = {"weight_bytes": {"down_proj": stored_bytes}, "operations": {"down_proj": 400}}
    assert bool(operations_of(read, 8, 1)) is counted


def test_a_record_of_before_counts_no_operations() -> None:
    assert operations_of(READ, 8, 1) == {}


class Engine:
    """Answers as a loaded engine does; every prompt is read in one step of two kernels."""

    def __init__(self, lost: int = 0) -> None:
        self.said: list[tuple[int, ...]] = []
        self._lost, self._since = lost, 0
        self.order = SimpleNamespace(draft_tokens=0)

    async def say(self, prompt_ids: tuple[int, ...], new_tokens: int) -> list[int]:
        assert new_tokens == 1
        self.said.append(prompt_ids)
        await asyncio.sleep(0.002)
        return [1]

    async def call(self, method: str, *arguments: Any) -> Any:
        assert method == "autoinfer_trace"
        if arguments == (True,):
            self._since = len(self.said)
            return None
        return trace_of(
            [
                event
                for n in range(len(self.said) - self._since - self._lost)
                for event in self._step(100.0 * n)
            ]
        )

    @staticmethod
    def _step(at: float) -> list[dict[str, object]]:
        def event(kind: str, name: str, after: float, us: float, **arguments: object) -> dict[str, object]:
            return {"ph": "X", "cat": kind, "name": name, "ts": at + after, "dur": us, "args": arguments}

        def mark(what: str, after: float) -> dict[str, object]:
            size = MARK_BYTES + MARKS.index(what)
            return event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", after, 1.0, bytes=size)

        return [
            mark("step", 0),
            event("kernel", "nvjet_gemm", 2, 30.0, grid=[1, 1, 1]),
            mark("head", 40),
            event("kernel", "nvjet_gemm", 42, 10.0, grid=[1, 1, 1]),
            mark("between", 60),
        ]


def profiled(engine: Engine) -> dict[str, Any]:
    request = GenerationRequest(item="a", prompt_ids=tuple(range(40)), new_tokens=16, seed=1)
    read = {**READ, "operations": {"down_proj": 400, "lm_head": 800}}
    return asyncio.run(profile_prompt(engine, request, read))  # type: ignore[arg-type]


def test_a_lone_prompt_is_told_by_part_and_what_no_kernel_ran_for() -> None:
    engine = Engine()
    told = profiled(engine)
    parts = {part["part"]: part for part in told["parts"]}
    assert parts["down_proj"]["time_ms"] == pytest.approx(0.030)
    assert (parts["down_proj"]["operations"], parts["down_proj"]["weight_bytes"]) == (400 * 40, 400)
    assert (parts["lm_head"]["time_ms"], parts["lm_head"]["operations"]) == (pytest.approx(0.010), 800)
    assert parts["outside"]["time_ms"] == pytest.approx(told["first_token_ms"] - 0.040)
    assert (told["prompts"], told["prompt_steps"], told["prompt_tokens"]) == (PROMPTS, 1, 40)
    assert min(told["times_ms"]) > 1


def test_no_two_prompts_begin_alike() -> None:
    engine = Engine()
    profiled(engine)
    assert len({prompt[0] for prompt in engine.said}) == len(engine.said)
    assert {len(prompt) for prompt in engine.said} == {40}


def test_steps_that_the_profiler_lost_are_told() -> None:
    with pytest.raises(Infeasible, match="can't be told"):
        profiled(Engine(lost=2))


def test_profiles_that_were_kept_before_they_had_a_lone_prompt_are_of_another_version() -> None:
    assert VllmEngine().profile_version > 1
