"""`autoinfer plan` for other workloads: more requests at once, longer ones, and those that nothing serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.command import Autoinfer


def test_more_at_once_and_longer_take_more(autoinfer: Autoinfer) -> None:
    line = "plan --model qwen3.5-9b --hardware h200 --json"
    found = {}
    for more in ("", " --concurrency 64", " --context 32768"):
        parts = autoinfer(line + more).json()["memory"]["parts"]
        found[more] = {part["name"]: part["bytes"] for part in parts}
    assert found[""]["KV cache"] < found[" --context 32768"]["KV cache"]
    states = [found[more]["GDN and conv state"] for more in ("", " --concurrency 64")]
    assert states[1] == 64 * states[0]


def test_a_context_is_planned_for_as_a_campaign_of_such_sequences_is(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    line = "--model qwen3.5-9b --hardware h200 --json"
    asked = autoinfer(f"plan {line} --context 32768").json()
    assert asked["configuration"]["serving.max_model_len"] == 32768
    assert asked["workload"]["prompt_tokens"] == 32768 - 1 - 128
    assert asked["workload"]["new_tokens"] == 128
    file = tmp_path / "long.yaml"
    file.write_text("name: long\nlike: shape\nplan:\n  workload: {prompt_tokens: 32639}\n")
    longer = autoinfer(f"plan {file} {line}").json()
    again = autoinfer(f"plan shape {line} --context 32768").json()
    for part in ("configuration", "workload", "memory", "floors", "first_verdict"):
        assert again[part] == longer[part]


@pytest.mark.parametrize(
    ("tokens", "told", "advised", "fits"),
    [
        (
            100_000,
            "--context 100000 is more than is served: the space vllm has serving.max_model_len of at most "
            "32768.",
            "Give --context 32768 at most; or give a space of your own with a longer one: --space FILE",
            32_768,
        ),
        (
            1_000_000,  # and more than the model's 262,144 positions, but those alone would not do
            "--context 1000000 is more than is served: the space vllm has serving.max_model_len of at most "
            "32768.",
            "Give --context 32768 at most; or give a space of your own with a longer one: --space FILE",
            32_768,
        ),
        (
            60,
            "--context 60 leaves no room for a prompt: answers have up to 128 tokens.",
            "Give 130 at least, or leave it out.",
            130,
        ),
    ],
)
def test_a_context_that_can_t_be_served_is_told_with_one_that_can(
    autoinfer: Autoinfer, tokens: int, told: str, advised: str, fits: int
) -> None:
    line = "plan --model qwen3.5-9b --hardware h200 --context"
    refused = autoinfer(f"{line} {tokens}")
    assert refused.code == 2
    assert " ".join(refused.err.split()) == f"autoinfer: {told} {advised}"
    assert autoinfer(f"{line} {fits} --json").code == 0
    assert autoinfer(f"{line} {fits + 1 if fits > 130 else fits - 1} --json").code == 2


def test_more_at_once_than_the_space_has_are_told_with_the_most_that_it_has(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    line = "plan --model qwen3.5-9b --hardware h200"
    limit = "the space vllm has serving.max_sequences of at most 64."
    refused = autoinfer(f"{line} --concurrency 100")
    assert refused.code == 2
    assert " ".join(refused.err.split()) == (
        f"autoinfer: --concurrency 100 is more than is served: {limit} Give --concurrency 64 at most; or "
        "give a space of your own with more: --space FILE"
    )
    assert autoinfer(f"{line} --concurrency 64 --json").code == 0
    file = tmp_path / "many.yaml"
    file.write_text("name: many\nlike: shape\nplan:\n  workload: {concurrency: 100}\n")
    written = autoinfer(f"plan {file} {line.removeprefix('plan ')}")
    assert written.code == 2
    assert " ".join(written.err.split()) == (
        f"autoinfer: The workload has 100 requests at once; {limit} Write in the campaign's file "
        "plan.workload.concurrency of at most 64; or give a space of your own with more: --space FILE"
    )


def test_lengths_that_nothing_serves_are_told_by_their_options(autoinfer: Autoinfer) -> None:
    line = "plan --model qwen3.5-9b --hardware h200"
    for given, advised in (
        ("--prompt-tokens 40000", "--prompt-tokens of at most 32639"),
        ("--new-tokens 40000", "--new-tokens of at most 32255"),
        ("--prompt-tokens 30000 --new-tokens 4000", "--prompt-tokens of at most 28767 or --new-tokens of at"),
    ):
        refused = autoinfer(f"{line} {given}")
        assert refused.code == 2
        assert "the space vllm has serving.max_model_len of at most 32768." in refused.err
        assert f"Give {advised}" in refused.err
        assert "plan.workload" not in refused.err
    assert autoinfer(f"{line} --prompt-tokens 32639 --json").code == 0
    assert autoinfer(f"{line} --prompt-tokens 32640 --json").code == 2


def test_a_context_and_a_prompt_s_length_are_one_too_many(autoinfer: Autoinfer) -> None:
    refused = autoinfer("plan --model qwen3.5-9b --hardware h200 --context 4096 --prompt-tokens 512")
    assert (refused.code, "both say how long prompts are" in refused.err) == (2, True)


def test_a_workload_by_options_is_planned_for_as_the_file_s_is(autoinfer: Autoinfer, tmp_path: Path) -> None:
    line = "--model qwen3.5-9b --hardware h200 --json"
    file = tmp_path / "own.yaml"
    workload = "{concurrency: 16, prompt_tokens: 1024, new_tokens: 256}"
    file.write_text(f"name: own\nlike: shape\nplan:\n  workload: {workload}\n")
    written = autoinfer(f"plan {file} {line}").json()
    asked = autoinfer(f"plan shape {line} --concurrency 16 --prompt-tokens 1024 --new-tokens 256").json()
    for part in ("configuration", "workload", "memory", "floors", "levers"):
        assert asked[part] == written[part]
    assert asked["first_verdict"]["least_s"] == written["first_verdict"]["least_s"]


def test_documents_are_said_to_be_scored_where_they_are(autoinfer: Autoinfer) -> None:
    line = "plan --model qwen3.5-9b --hardware h200"
    assert "documents of 384 tokens are scored" in autoinfer(line).out
    assert "are scored" not in autoinfer(f"{line} --weights dummy").out


def test_what_is_set_against_the_workload_is_named(autoinfer: Autoinfer) -> None:
    line = "plan --model qwen3.5-9b --hardware h200 --json --concurrency 16 --set serving.max_sequences=4"
    assert autoinfer(line).error["error"] == (
        "What is planned is not legal here: serving.max_sequences=4: The workload has 16 requests at once."
    )


def test_documents_that_are_too_long_are_the_files_matter_whatever_context_is_given(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    file = tmp_path / "long.yaml"
    file.write_text("name: long\nlike: default\nplan:\n  workload: {evaluation_tokens_per_document: 40000}\n")
    refused = autoinfer(
        f"plan {file} --model qwen3.5-9b --hardware h200 --engine vllm --space vllm --context 4096"
    )
    assert refused.code == 2
    assert "Write in the campaign's file plan.workload.evaluation_tokens_per_document" in refused.err
    assert "--context" not in refused.err
