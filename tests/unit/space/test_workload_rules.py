"""A workload takes out of the space what could not serve its requests, and the default follows."""

import pytest

from agent.ground.sweep import passed_over, swept
from configs.errors import UsageError
from experiments.space.configuration import KnobValue
from experiments.space.gpu import Gpu
from experiments.space.knob import Same, SameBeside
from experiments.space.legality import ModelFacts, joint_refusal, legal_levers
from experiments.space.loading import load_space
from experiments.space.workload_rules import (
    BATCH_TOKENS,
    CHUNKED_PREFILL,
    MAX_MODEL_LEN,
    MAX_SEQUENCES,
    not_served_at,
    same_at,
)

FACTS = {
    "layer_types": ("linear_attention",) * 4 + ("full_attention",) * 4,
    "input_sizes": {},
    "mtp_layers": 1,
}


def left(concurrency: int, context_tokens: int) -> dict[str, tuple[object, object]]:
    space = load_space("vllm")
    gone = not_served_at(space, concurrency, context_tokens)
    kept, _ = legal_levers(space, ModelFacts(**FACTS, not_served=gone))  # type: ignore[arg-type]
    return {
        name: (kept.knob(name).values, kept.knob(name).default) for name in (MAX_SEQUENCES, MAX_MODEL_LEN)
    }


def test_one_request_at_once_that_is_short_leaves_all() -> None:
    assert not_served_at(load_space("vllm"), 1, 2047) == {}


def test_no_fewer_sequences_than_requests_at_once_and_the_default_is_the_nearest_left() -> None:
    assert left(64, 512)[MAX_SEQUENCES] == ((64,), 64)
    assert left(4, 512)[MAX_SEQUENCES] == ((4, 16, 64), 16)


def test_a_sequence_and_a_token_more_must_fit() -> None:
    assert left(1, 2048)[MAX_MODEL_LEN] == ((4096, 8192, 32768), 4096)
    assert left(1, 8000)[MAX_MODEL_LEN] == ((8192, 32768), 8192)


def test_more_at_once_than_any_value_serves_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match=r"serving\.max_sequences: The workload has 65 requests at once"):
        left(65, 512)


@pytest.mark.parametrize(
    ("concurrency", "prompt_tokens", "same", "offered"),
    [
        (1, 128, (2048, 4096, 8192, 16384), ("auto",)),
        (1, 2032, (2048, 4096, 8192, 16384), ("auto",)),
        (1, 2033, (8192, 16384), ("auto", 2048, 4096)),
        (4, 512, (8192, 16384), ("auto", 2048, 4096)),
        (16, 512, (), ("auto", 2048, 4096, 8192, 16384)),
        (64, 3840, (), ("auto", 2048, 4096, 8192, 16384)),
    ],
)
def test_more_room_in_a_step_than_all_requests_ask_for_is_not_proposed(
    concurrency: int, prompt_tokens: int, same: tuple[int, ...], offered: tuple[object, ...]
) -> None:
    """A step has the prompts of all at most, and up to 16 tokens of each that decodes."""
    space = load_space("vllm")
    found = same_at(space, concurrency, prompt_tokens)
    assert tuple(value for name, value in found if name == BATCH_TOKENS) == same
    kept, told = legal_levers(space, ModelFacts(**FACTS, same=found))  # type: ignore[arg-type]
    knob = kept.knob(BATCH_TOKENS)
    assert (knob.values, knob.given, tuple(each.value for each in knob.same)) == (offered, same, same)
    assert all(knob.parse(str(value)) == value for value in same), "who names one gets it"
    assert [each.value for each in told if each.same and each.knob == BATCH_TOKENS] == list(same)


def whys(found: dict[tuple[str, KnobValue], Same]) -> set[str]:
    return {each.why for (name, _), each in found.items() if name == BATCH_TOKENS}


@pytest.mark.parametrize(
    ("concurrency", "prompt_tokens", "auto", "same", "offered"),
    [
        (4, 512, 8192, {4096: "auto", 8192: "auto", 16_384: "auto"}, ("auto", 2048)),
        (4, 512, 2048, {2048: "auto", 8192: 4096, 16_384: 4096}, ("auto", 4096)),
        (4, 512, None, {8192: 4096, 16_384: 4096}, ("auto", 2048, 4096)),
        (16, 512, 8192, {8192: "auto"}, ("auto", 2048, 4096, 16_384)),
        (64, 512, 16_384, {16_384: "auto"}, ("auto", 2048, 4096, 8192)),
        (1, 512, 8192, dict.fromkeys((2048, 4096, 8192, 16_384), "auto"), ("auto",)),
    ],
)
def test_what_auto_comes_to_is_held_against_the_others_where_it_is_known(
    concurrency: int,
    prompt_tokens: int,
    auto: int | None,
    same: dict[int, KnobValue],
    offered: tuple[KnobValue, ...],
) -> None:
    """Two values differ as far as both, or one of them, are less than the requests can ask of a step."""
    space = load_space("vllm")
    found = same_at(space, concurrency, prompt_tokens, auto)
    assert {value: each.like for (name, value), each in found.items() if name == BATCH_TOKENS} == same
    kept, _ = legal_levers(space, ModelFacts(**FACTS, same=found))  # type: ignore[arg-type]
    assert kept.knob(BATCH_TOKENS).values == offered


def test_the_number_of_auto_itself_is_told_as_what_it_is() -> None:
    assert whys(same_at(load_space("vllm"), 16, 512, 8192)) == {
        "vLLM's own choice, auto, is 8192 tokens a step on this GPU."
    }


@pytest.mark.parametrize(
    ("gpu", "tokens"),
    [
        (Gpu("9.0", version=(0, 33), memory_bytes=151 * 10**9, name="NVIDIA H200"), 8192),
        (Gpu("10.0", version=(0, 32), memory_bytes=192 * 10**9, name="NVIDIA B200"), 16_384),
        (Gpu("8.0", version=(0, 33), memory_bytes=85 * 10**9, name="NVIDIA A100-SXM4-80GB"), 2048),
        (Gpu("8.9", version=(0, 33), memory_bytes=24 * 10**9, name="NVIDIA L4"), 2048),
        (Gpu("9.0", version=(0, 34), memory_bytes=151 * 10**9, name="NVIDIA H200"), None),
        (Gpu("9.0", memory_bytes=151 * 10**9, name="NVIDIA H200"), None),
        (Gpu("9.0", version=(0, 33), name="NVIDIA H200"), None),
        (Gpu("9.0", version=(0, 33), memory_bytes=151 * 10**9), None),
        (Gpu("9.0", "reference", (0, 33), 151 * 10**9, "NVIDIA H200"), None),
        (Gpu("9.0", memory_bytes=151 * 10**9, name="NVIDIA H200", told_step_tokens=2048), 2048),
    ],
)
def test_what_auto_comes_to_is_what_a_launch_told_or_else_the_card_s_in_versions_that_were_read(
    gpu: Gpu, tokens: int | None
) -> None:
    assert gpu.step_tokens == tokens


def test_a_baseline_that_names_what_auto_does_has_no_change_to_auto() -> None:
    space = load_space("vllm")
    found = same_at(space, 4, 512, 8192)
    kept, _ = legal_levers(space, ModelFacts(**FACTS, same=found))  # type: ignore[arg-type]
    named = kept.configuration({BATCH_TOKENS: 4096})
    assert {each[BATCH_TOKENS] for each in kept.neighbours(named)} == {4096, 2048}
    auto, other = (kept.with_change(named, {BATCH_TOKENS: each}) for each in ("auto", 16_384))
    assert kept.why_same(named, auto) == found[BATCH_TOKENS, 4096].why
    assert kept.why_same(named, other) == found[BATCH_TOKENS, 16_384].why
    assert kept.why_same(named, kept.with_change(named, {BATCH_TOKENS: 2048})) is None
    more = kept.with_change(auto, {"serving.prefix_caching": "on"})
    assert kept.why_same(named, more) is None
    assert kept.named_as(named, more) == kept.with_change(named, {"serving.prefix_caching": "on"})
    assert kept.named_as(auto, more) == more


def test_a_name_stands_for_another_only_where_both_do_the_same() -> None:
    beside = SameBeside("off", "auto", "there the same", "drafting.method", "ngram")
    space = load_space("vllm").with_same_beside("serving.async_scheduling", beside)
    by_ngrams = space.configuration({"drafting.method": "ngram", "serving.async_scheduling": "off"})
    plain = space.configuration({})
    assert space.named_as(by_ngrams, plain) == plain
    other = space.configuration({"drafting.method": "ngram"})
    assert space.named_as(by_ngrams, other) == by_ngrams


def test_what_a_step_has_room_for_is_compared_with_what_it_does_the_same_as() -> None:
    space = load_space("vllm")
    assert whys(same_at(space, 1, 128)) == {
        "What the one request of the workload can ask of a step fits into vLLM's own choice, auto, too."
    }
    assert whys(same_at(space, 4, 512)) == {
        "What the 4 requests at once of the workload can ask of a step fits into 4096 tokens too."
    }
    assert same_at(load_space("reference"), 1, 128) == {}


def test_a_space_of_one_s_own_without_auto_keeps_the_least_step_that_is_enough() -> None:
    space = load_space("vllm").restrict({BATCH_TOKENS: [4096, 8192]})
    kept, _ = legal_levers(space, ModelFacts(**FACTS, same=same_at(space, 1, 128)))  # type: ignore[arg-type]
    assert (kept.knob(BATCH_TOKENS).values, kept.knob(BATCH_TOKENS).given) == ((4096,), (8192,))


def test_what_a_step_of_so_many_tokens_shows_is_read_and_what_auto_shows_is_open() -> None:
    kept, _ = legal_levers(load_space("vllm"), ModelFacts(**FACTS, same=same_at(load_space("vllm"), 1, 128)))  # type: ignore[arg-type]
    knob = kept.knob(BATCH_TOKENS)
    assert knob.reads_as("max_batch_tokens", "auto") is None
    assert knob.reads_as("max_batch_tokens", 8192) == "8192"
    assert knob.pinning_value("max_batch_tokens", "8192") == 8192


def test_a_sweep_of_pieces_and_of_their_size_crosses_the_size_where_there_are_pieces() -> None:
    space = load_space("vllm")
    swept_knobs = {"serving.chunked_prefill": ["auto", "off"], BATCH_TOKENS: [4096, 8192]}
    crossed = space.crossing(space.configuration({}), swept_knobs)
    found = [(each["serving.chunked_prefill"], each.get(BATCH_TOKENS)) for each in crossed]
    assert found == [("auto", 4096), ("auto", 8192), ("off", None)]
    whole = space.configuration({"serving.chunked_prefill": "off"})
    with pytest.raises(UsageError, match="only means something when"):
        space.crossing(whole, {BATCH_TOKENS: [4096]})


def test_a_sweep_tells_once_what_it_passes_over_and_not_what_it_times() -> None:
    space = load_space("vllm")
    kept, told = legal_levers(space, ModelFacts(**FACTS, same=same_at(space, 1, 128)))  # type: ignore[arg-type]
    why = "What the one request of the workload can ask of a step fits into vLLM's own choice, auto, too."
    sweep = {BATCH_TOKENS: [4096, 8192, 16_384]}
    assert [each[BATCH_TOKENS] for each in swept(kept, None, sweep)] == [4096]
    said = passed_over(kept, None, told, sweep)
    assert said == f"The sweep before trial 0 passes over {BATCH_TOKENS}=8192 and 16384: {why}"


@pytest.mark.parametrize(
    ("sweep", "times"),
    [
        ([2048, 4096, 8192, 16_384], [2048, 4096]),
        ([2048, 8192, 16_384, "auto"], [2048, "auto"]),
        ([16_384, 8192], [16_384]),
    ],
)
def test_of_what_a_sweep_names_one_of_those_that_do_the_same_is_timed(
    sweep: list[KnobValue], times: list[KnobValue]
) -> None:
    space = load_space("vllm")
    same = same_at(space, 4, 512, 8192)
    kept, told = legal_levers(space, ModelFacts(**FACTS, same=same))  # type: ignore[arg-type]
    assert [each[BATCH_TOKENS] for each in swept(kept, None, {BATCH_TOKENS: sweep})] == times
    said = str(passed_over(kept, None, told, {BATCH_TOKENS: sweep}))
    gone = [str(each) for each in sorted(x for x in sweep if x not in times and isinstance(x, int))]
    assert said.startswith(
        f"The sweep before trial 0 passes over {BATCH_TOKENS}={' and '.join(gone)}: What the 4 requests"
    )


@pytest.mark.parametrize(
    ("concurrency", "auto", "asked"),
    [(1, None, False), (4, None, True), (4, 2048, True), (4, 8192, False), (64, 16_384, True)],
)
def test_whether_prompts_are_read_in_pieces_is_not_asked_where_none_ever_is(
    concurrency: int, auto: int | None, asked: bool
) -> None:
    space = load_space("vllm")
    found = same_at(space, concurrency, 512, auto)
    kept, _ = legal_levers(space, ModelFacts(**FACTS, same=found))  # type: ignore[arg-type]
    assert kept.knob(CHUNKED_PREFILL).values == (("auto", "on", "off") if asked else ("auto",))
    whole, default = kept.configuration({CHUNKED_PREFILL: "off"}), kept.configuration({})
    assert (kept.why_same(whole, default) is None) is asked
    assert (whole in kept.neighbours(default)) is asked
    assert (kept.named_as(whole, default) == whole) is not asked
    if not asked:
        assert str(kept.why_same(default, whole)).endswith(
            "own choice, so no prompt is read in pieces whatever this is, and auto is enough."
        )


def test_whole_prompts_are_refused_beside_prefix_caching_on_a_hybrid_alone() -> None:
    """A hybrid's are cut where a page of the cache ends; vLLM does not load where they may not be."""
    space = load_space("vllm")
    asked = {CHUNKED_PREFILL: "off", "serving.prefix_caching": "on"}
    hybrid, attention = FACTS, {**FACTS, "layer_types": ("full_attention",) * 4}
    told = joint_refusal(space.configuration(asked), ModelFacts(**hybrid))  # type: ignore[arg-type]
    assert told is not None
    assert "leave serving.chunked_prefill at auto" in told
    assert joint_refusal(space.configuration(asked), ModelFacts(**attention)) is None  # type: ignore[arg-type]
    for fewer in (
        {CHUNKED_PREFILL: "off"},
        {"serving.prefix_caching": "on"},
        {**asked, CHUNKED_PREFILL: "on"},
    ):
        assert joint_refusal(space.configuration(fewer), ModelFacts(**hybrid)) is None  # type: ignore[arg-type]


def test_pieces_of_a_size_of_ones_own_stay_a_choice() -> None:
    space = load_space("vllm").restrict({BATCH_TOKENS: [2048]})
    assert not any(name == CHUNKED_PREFILL for name, _ in same_at(space, 4, 512, 8192))
