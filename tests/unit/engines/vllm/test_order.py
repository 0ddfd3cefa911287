"""A configuration becomes arguments of vLLM, or is refused with the value."""

import pytest

from experiments.engines.messages import message_of
from experiments.engines.port import Infeasible
from experiments.engines.vllm.order import DEFAULTS, DRAFT_TOKENS_MAX, VllmOrder, order_data, order_for
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space

CACHE_BYTES = 2**30


def arguments(device: str = "cuda:0", **knobs: KnobValue) -> dict[str, object]:
    configuration = Configuration.of({name.replace("__", "."): value for name, value in knobs.items()})
    return order_for(configuration, "model", device, CACHE_BYTES).arguments


def test_auto_leaves_every_choice_to_vllm() -> None:
    told = arguments()
    chosen_by_us = {
        "model",
        "skip_tokenizer_init",
        "dtype",
        "max_model_len",
        "max_num_seqs",
        "kv_cache_memory_bytes",
        "gpu_memory_utilization",
        "enforce_eager",
        "enable_prefix_caching",
    }
    assert told.keys() == chosen_by_us
    assert (told["enforce_eager"], told["enable_prefix_caching"]) == (False, False)
    assert told["kv_cache_memory_bytes"] == CACHE_BYTES


def test_a_value_that_is_given_reaches_vllm_under_its_own_name() -> None:
    told = arguments(
        serving__linear_backend="marlin",
        serving__moe_backend="triton",
        serving__kv_cache_dtype="fp8_e4m3",
        serving__gdn_state_dtype="bfloat16",
        serving__gdn_prefill_backend="triton",
        serving__graph_mode="full_decode_only",
        serving__async_scheduling="off",
        serving__max_batch_tokens=4096,
    )
    assert told["max_num_batched_tokens"] == 4096
    assert told["linear_backend"] == "marlin"
    assert told["moe_backend"] == "triton"
    assert "moe_backend" not in arguments(serving__moe_backend="auto"), "which older versions do not know"
    assert told["kv_cache_dtype"] == "fp8_e4m3"
    assert told["mamba_ssm_cache_dtype"] == "bfloat16"
    assert told["gdn_prefill_backend"] == "triton"
    assert told["compilation_config"] == {"cudagraph_mode": "FULL_DECODE_ONLY"}
    assert told["async_scheduling"] is False


def test_which_steps_are_captured_is_told_beside_how() -> None:
    assert "compilation_config" not in arguments(serving__max_graph_tokens="auto")
    assert arguments(serving__max_graph_tokens=512)["compilation_config"] == {
        "max_cudagraph_capture_size": 512
    }
    both = arguments(serving__graph_mode="piecewise", serving__max_graph_tokens=1024)
    assert both["compilation_config"] == {
        "cudagraph_mode": "PIECEWISE",
        "max_cudagraph_capture_size": 1024,
    }


@pytest.mark.parametrize("head", ["fp8", "nvfp4"])
def test_beside_a_copy_of_the_output_head_a_kernel_is_named_for_packed_weights_alone(head: str) -> None:
    drafts: dict[str, KnobValue] = {"drafting__method": "mtp", "drafting__draft_tokens": 1}
    told = arguments(**drafts, drafting__lm_head=head, serving__linear_backend="marlin")
    assert told["kernel_config"] == {"linear_backend_per_quant": {"mixed_precision": "marlin"}}
    assert "linear_backend" not in told
    own = arguments(**drafts, serving__linear_backend="marlin")
    assert (own["linear_backend"], "kernel_config" in own) == ("marlin", False)
    assert "kernel_config" not in arguments(**drafts, drafting__lm_head=head)


@pytest.mark.parametrize(
    ("method", "tokens", "passes"), [("none", 0, 0), ("mtp", 3, 3), ("dflash", 7, 1), ("draft_model", 2, 2)]
)
def test_a_drafter_runs_for_each_token_and_dflash_for_a_block(method: str, tokens: int, passes: int) -> None:
    order = VllmOrder("folder", "cuda:0", {}, drafting_method=method, draft_tokens=tokens)
    assert order.draft_passes == passes


def test_tokens_of_a_step_are_left_to_vllm_where_prompts_are_not_cut_too() -> None:
    """It takes what it takes else, or the whole context where that is more."""
    told = arguments(serving__chunked_prefill="off", serving__max_model_len=8192)
    assert told["enable_chunked_prefill"] is False
    assert "max_num_batched_tokens" not in told


def test_drafting_is_told_and_scheduled_as_vllm_chooses_unless_it_is_asked_otherwise() -> None:
    told = arguments(drafting__method="mtp", drafting__draft_tokens=2)
    assert told["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 2}
    assert "async_scheduling" not in told
    for value, wanted in (("on", True), ("off", False)):
        given = arguments(drafting__method="mtp", serving__async_scheduling=value)
        assert given["async_scheduling"] is wanted


def test_a_copy_of_the_output_head_drafts_only_where_it_is_asked_for() -> None:
    for value in ("fp8", "nvfp4"):
        told = arguments(drafting__method="mtp", drafting__lm_head=value)["speculative_config"]
        wanted = {"method": "mtp", "num_speculative_tokens": 1, "draft_lm_head_quantization": value}
        assert told == wanted
    plain = arguments(drafting__method="mtp", drafting__lm_head="auto")["speculative_config"]
    assert plain == {"method": "mtp", "num_speculative_tokens": 1}


def test_the_kernel_that_verifies_drafts_is_a_variable_of_the_engine_where_it_is_asked_for() -> None:
    drafting: dict[str, KnobValue] = {"drafting.method": "mtp", "drafting.draft_tokens": 1}
    plain = order_for(Configuration.of(drafting), "x", "cuda:0", 1)
    assert plain.variables == {}
    for value in ("auto", "cuda", "triton"):
        asked = Configuration.of({**drafting, "serving.gdn_decode_kernel": value})
        order = order_for(asked, "x", "cuda:0", 1)
        assert order.variables == ({} if value == "auto" else {"VLLM_GDN_DECODE_KERNEL": value})
        assert order.arguments == plain.arguments
        assert ("variables" in order_data(order)) is (value != "auto")
        assert message_of(VllmOrder, order_data(order)) == order


@pytest.mark.parametrize(
    ("knobs", "kind", "words"),
    [
        ({"serving__threads": 2}, "unsupported", "no knob serving.threads"),
        ({"serving__dtype": "int8"}, "illegal", "'int8'"),
        ({"serving__graph_mode": "some"}, "illegal", "'some'"),
        ({"serving__max_model_len": 0}, "illegal", "above 0"),
        ({"serving__max_graph_tokens": 0}, "illegal", "above 0 or auto"),
        ({"serving__max_sequences": True}, "illegal", "whole number"),
        ({"serving__prefix_caching": "auto "}, "illegal", "auto, on, off"),
        ({"drafting__method": "psychic"}, "unsupported", "psychic"),
        ({"serving__gdn_decode_kernel": "flashinfer"}, "illegal", "auto, cuda, triton"),
        ({"drafting__method": "mtp", "drafting__lm_head": "int8"}, "illegal", "auto, fp8, nvfp4"),
        ({"drafting__method": "ngram", "drafting__lm_head": "fp8"}, "illegal", "drafting.method is ngram"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_value(
    knobs: dict[str, KnobValue], kind: str, words: str
) -> None:
    with pytest.raises(Infeasible, match=words) as refused:
        arguments(**knobs)
    assert refused.value.kind == kind


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(Infeasible, match="tpu"):
        arguments(device="tpu")


@pytest.mark.parametrize("method", ["ngram", "draft_model", "dflash"])
def test_as_many_tokens_as_a_block_of_16_fills_are_drafted_and_no_more(method: str) -> None:
    asked = {"drafting__method": method, "drafting__drafter": "/drafter"}
    told = arguments(**asked, drafting__draft_tokens=15)["speculative_config"]
    assert isinstance(told, dict)
    assert told["num_speculative_tokens"] == 15
    with pytest.raises(Infeasible) as refused:
        arguments(**asked, drafting__draft_tokens=16)
    said = f"drafting.draft_tokens is 16; with drafting.method={method} it may be 1 to 15."
    assert (refused.value.kind, refused.value.cause) == ("illegal", said)


def test_an_mtp_head_drafts_no_more_here_than_elsewhere() -> None:
    assert arguments(drafting__method="mtp", drafting__draft_tokens=4)
    with pytest.raises(Infeasible, match=r"draft_tokens is 5; with drafting\.method=mtp it may be 1 to 4"):
        arguments(drafting__method="mtp", drafting__draft_tokens=5)


def test_the_packaged_space_offers_as_many_tokens_as_are_drafted() -> None:
    assert load_space("vllm").knob("drafting.draft_tokens").values == tuple(range(1, DRAFT_TOKENS_MAX + 1))


def test_every_value_of_the_packaged_space_is_understood() -> None:
    space = load_space("vllm")
    for knob in space.knobs:
        if knob.name in DEFAULTS:
            for value in knob.values:
                order_for(Configuration.of({knob.name: value}), "model", "cuda:1", CACHE_BYTES)
    assert {knob.name for knob in space.knobs if knob.name.startswith("serving.")} == set(DEFAULTS)
