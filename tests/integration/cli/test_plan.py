"""`autoinfer plan` tells what a campaign would meet, as text and as JSON, and refuses what means nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from experiments.engines.reference.inspection import inspect_checkpoint
from experiments.engines.reference.stored_weights import step_weight_bytes
from experiments.reference_model.load import reference_model_path
from tests.integration.checkpoints.hub_server import Repository, serving
from tests.integration.cli.command import Autoinfer
from tests.integration.cli.test_model_of_the_hub import COMMIT, of_the_reference
from tests.integration.engines.packed_checkpoints import write_gptq


def test_the_default_is_the_packaged_campaign_on_this_machine(autoinfer: Autoinfer) -> None:
    text, document = autoinfer("plan"), autoinfer("plan --json")
    assert (text.code, text.err, document.code, document.err) == (0, "", 0, "")
    for part in ("process", "One launch fits", "serving.compile", "first verdict", "a guess"):
        assert part in text.out
    plan = document.json()
    assert plan["engine"] == "reference"
    assert not plan["target"]["gpu"]
    assert plan["first_verdict"]["least_s"] < plan["first_verdict"]["most_s"]
    assert {row["standing"] for row in plan["levers"]} >= {"yes"}
    assert all(row["why"] for row in plan["levers"] if row["standing"] != "yes")
    assert not autoinfer.data_dir.exists(), "planning makes nothing"


def test_a_shape_on_a_card_that_is_too_small_says_what_is_missing_and_what_would_fit(
    autoinfer: Autoinfer,
) -> None:
    plan = autoinfer("plan --model qwen3.5-9b --hardware 8GB --json").json()
    one, test = plan["memory"]["rooms"]
    assert not one["fits"]
    assert one["missing_bytes"] == one["needed_bytes"] - one["usable_bytes"] > 5e9
    assert test["missing_bytes"] > one["missing_bytes"]
    said = plan["memory"]["told"][0]
    assert "GB missing" in said
    assert "a card such as NVIDIA GeForce RTX 5090 (32 GB)" in said
    assert sum(part["bytes"] for part in plan["memory"]["parts"]) == one["needed_bytes"]
    assert {row["floor_ms"] for row in plan["floors"]} == {None}, "no bandwidth is listed for a size"


def test_a_mixture_of_experts_is_planned_with_all_of_it_in_memory_and_a_part_in_a_step(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    line = "plan shape --model qwen3.5-35b-a3b --hardware"
    plan = autoinfer(f"{line} 16GB --json").json()
    assert plan["model"]["text_parameters"] == pytest.approx(34.66e9, rel=1e-3)
    assert plan["model"]["active_parameters"] == pytest.approx(3.45e9, rel=1e-2)
    one = plan["memory"]["rooms"][0]
    assert not one["fits"]
    assert one["needed_bytes"] > 70e9
    assert "would fit: a card such as NVIDIA H200 SXM (141 GB)" in plan["memory"]["told"][0]
    legal = {(each["knob"], each["value"]): each for each in plan["levers"]}
    assert legal["quantization.method", "awq"]["standing"] == "yes"
    four = " ".join(autoinfer(f"{line} h200 --concurrency 4").out.split())
    assert "34.66 billion parameters, 3.45 billion of them for each token" in four
    assert "of the 256 experts of a layer a step reads about 31, if tokens are sent to all of them" in four
    assert "One launch fits: it needs 79.6 GB" in four
    drafted = f"{line} h200 --set drafting.method=mtp --set drafting.draft_tokens=3"
    told = " ".join(autoinfer(drafted).out.split())
    assert "of the 256 experts of a layer a step reads about 31, if tokens are sent to all of them" in told
    packed = f"{line} h200 --set quantization.method=awq --set quantization.bits=8"
    assert autoinfer(packed).code == 0
    refused = autoinfer(f"{packed} --set quantization.symmetric=false")
    assert refused.code == 2
    assert "vLLM has no kernel for a Mixture of Experts' experts in 8 bits with zero points" in refused.err
    file = tmp_path / "campaign.yaml"
    file.write_text("name: ours\nlike: shape\nplan: {metric: ttft_ms}\n")
    told = " ".join(autoinfer(f"plan {file} --model qwen3.5-35b-a3b --hardware h200").out.split())
    assert "a prompt's tokens are sent to other experts each, and all of these are read" in told


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("tpot_ms", None),
        (
            "ttft_ms",
            "The first token has no such floor: reading a prompt is arithmetic more than bytes. With vLLM "
            "the profile of a lone prompt tells the least that it can take.",
        ),
        ("e2el_ms", "A request has such a step for each token after its first."),
    ],
)
def test_a_floor_says_what_it_is_of_where_the_campaign_is_about_more_than_a_token(
    metric: str, said: str | None, autoinfer: Autoinfer, tmp_path: Path
) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(f"name: ours\nlike: shape\nplan: {{metric: {metric}}}\n")
    told = " ".join(autoinfer(f"plan {file} --model qwen3.5-9b --hardware h200").out.split())
    assert "a step's floor, by weights" in told
    assert said is None or said in told
    assert ("such a step" in told) == (metric == "e2el_ms")
    assert ("no such floor" in told) == (metric == "ttft_ms")


def test_a_card_too_small_for_the_default_tells_what_a_campaign_begins_from(autoinfer: Autoinfer) -> None:
    line = "plan --model qwen3.5-4b --hardware 8GB"
    text, plan = autoinfer(line), autoinfer(f"{line} --json").json()
    told = " ".join(text.out.split())
    assert "The engine's default does not fit: it needs 12.5 GB, and 7.2 GB of a card of 8 GB" in told
    assert "begins from quantization.method=awq, serving.max_sequences=1 (6.5 GB, projections in 4" in told
    assert "every claim is against that, and not against the default. Quality too" in told
    assert plan["begins_from"]["configuration"] == plan["configuration"]
    assert not plan["begins_from"]["default"]
    assert plan["memory"]["rooms"][0]["fits"]
    rows = {(row["knob"], row["value"]): row for row in plan["levers"]}
    assert "By count it does not fit" in rows["quantization.method", "none"]["why"]
    assert rows["quantization.group_size", 128]["standing"] == "yes"


@pytest.mark.parametrize(("hardware", "told"), [("8GB", " (not known)"), ("l4", ""), ("a10", "")])
def test_the_configuration_doubts_what_the_levers_doubt(
    autoinfer: Autoinfer, hardware: str, told: str
) -> None:
    """A card that is given by its size has no known compute capability, by which vLLM takes bfloat16."""
    line = f"plan --model qwen3.5-0.8b --hardware {hardware}"
    levers = autoinfer(f"{line} --json").json()["levers"]
    standing = next(each["standing"] for each in levers if each["value"] == "bfloat16")
    assert standing == ("not known" if told else "yes")
    assert f" serving.dtype=bfloat16{told}, " in " ".join(autoinfer(line).out.split())


def test_the_user_names_what_it_begins_from(autoinfer: Autoinfer) -> None:
    line = "plan --model qwen3.5-4b --hardware 8GB --json --baseline "
    named = autoinfer(f"{line} quantization.method=rtn --baseline quantization.group_size=128").json()
    assert named["configuration"]["quantization.group_size"] == 128
    assert "as it was asked to" in named["begins_from"]["told"]
    default = autoinfer(f"{line} default").json()
    assert default["begins_from"]["told"] is None
    assert not default["memory"]["rooms"][0]["fits"]
    both = autoinfer(f"{line} default --baseline quantization.method=rtn")
    assert (both.code, json.loads(both.err)["error"]) == (
        2,
        "--baseline default stands beside another --baseline.",
    )
    wrong = autoinfer(f"{line} quantization.group_size=64")
    assert wrong.code == 2
    assert "only means something when quantization.method is awq or rtn" in wrong.err


def test_a_limit_of_memory_is_a_smaller_card(autoinfer: Autoinfer) -> None:
    plan = autoinfer("plan --model qwen3.5-4b --hardware 24GB --memory 8GB --json").json()
    assert plan["memory"]["rooms"][0]["usable_bytes"] == 8e9
    assert plan["configuration"]["quantization.method"] == "awq"
    wrong = autoinfer("plan --memory 8")
    assert (wrong.code, wrong.err.splitlines()[0]) == (2, "autoinfer: '8' is no size of memory.")


def test_all_cards_are_a_row_each(autoinfer: Autoinfer) -> None:
    """At 80 columns too: what a card of so much memory holds is one row for all of them."""
    for columns in (80, 120):
        done = autoinfer("plan --model qwen3.5-4b --hardware all", COLUMNS=str(columns))
        assert done.code == 0
        lines = done.out.splitlines()
        assert max(map(len, lines)) <= columns
        assert sum(line.startswith("16 ") for line in lines) == 1
        assert sum("the default" in line for line in lines) == len({16, 24, 32, 40, 48, 80, 141, 180})
        for name in ("GeForce RTX 3060 12 GB", "T4", "L4", "A10", "H200 SXM"):
            (row,) = (line for line in lines if line.startswith(f"NVIDIA {name} "))
            assert "…" in row
        for name in ("floor of a step", "begins from"):
            assert name in done.out
    plans = autoinfer("plan --model qwen3.5-4b --hardware all --json").json()["plans"]
    memories = [each["target"]["memory_bytes"] for each in plans]
    assert memories == sorted(memories)


def test_the_floor_of_a_small_model_is_not_rounded_to_nothing(autoinfer: Autoinfer) -> None:
    """The packaged model's step reads 10 MB, which takes an H200 some 2 µs."""
    one, every = (autoinfer(f"plan --hardware {which}").out.splitlines() for which in ("h200", "all"))
    (floor,) = (line.split()[-1] for line in one if line.startswith("16 bits "))
    assert 0 < float(floor) < 0.01
    (row,) = (line for line in every if line.startswith("NVIDIA H200 SXM "))
    assert row.split()[-3] == floor
    assert "0.00 " not in f"{row} "


def test_of_all_cards_what_is_said_below_them_holds_on_each(autoinfer: Autoinfer, tmp_path: Path) -> None:
    """What a sweep passes over goes by the card: Triton's kernels are timed on an H200 and not on an L4."""
    folder = Path(shutil.copytree(reference_model_path(), tmp_path / "mute"))
    (folder / "tokenizer.json").unlink()
    line = f"plan --model {folder} --hardware"
    assert "passes over" in autoinfer(f"{line} l4").out
    told = autoinfer(f"{line} all").out
    assert "passes over" not in told
    assert "No campaign begins with this checkpoint" in told


def test_what_a_card_costs_that_is_not_here_is_not_said_to_be_nothing(autoinfer: Autoinfer) -> None:
    asked = "plan --model qwen3.5-9b --hardware l4"
    cost = autoinfer(f"{asked} --json").json()["cost"]
    assert cost["usd"] is None
    assert cost["basis"] == "nothing where the card is your own"
    assert cost["most_energy_wh"] > 0
    assert "nothing where the card is your own; at most" in autoinfer(asked).out
    here = autoinfer("plan --json").json()["cost"]
    assert (here["usd"], here["basis"]) == (0.0, "nothing: this machine's own time")


def test_what_is_planned_and_not_legal_is_refused_before_anything_is_told(autoinfer: Autoinfer) -> None:
    refused = autoinfer("plan levers --set drafting.method=mtp --set drafting.draft_tokens=7 --json")
    assert (refused.code, refused.out) == (2, "")
    assert refused.error["error"] == (
        "What is planned is not legal here: mtp drafts at most 4 tokens a step here, and 7 were asked for."
    )


KERNEL = "--set serving.linear_backend={kernel} --set quantization.method=awq"


def test_what_can_be_had_beside_another_value_is_refused_with_that_value(autoinfer: Autoinfer) -> None:
    line = f"plan --model qwen3.5-9b --hardware h200 {KERNEL.format(kernel='conch')}"
    refused = autoinfer(line)
    assert (refused.code, refused.out) == (2, "")
    assert "not legal here: Conch multiplies groups of 128 alone" in refused.err
    assert "It can be had with --set quantization.group_size=128" in refused.err
    assert autoinfer(f"{line} --set quantization.group_size=128 --json").json()["not_legal"] is None
    other = autoinfer(f"{line} --set quantization.group_size=64")
    assert (other.code, "It can be had with" in other.err) == (2, False), "what the user set is no way out"


def test_of_all_cards_it_is_said_first_where_what_is_planned_is_legal_and_refused_where_it_is_on_none(
    autoinfer: Autoinfer,
) -> None:
    line = "plan --model qwen3.5-9b --hardware all --set quantization.group_size={size} "
    told = autoinfer(line.format(size=128) + KERNEL.format(kernel="machete"))
    assert told.code == 0
    first = " ".join(told.out.split()).partition(" model ")[0]
    assert first.startswith("What is planned is not legal on ")
    assert first.endswith("; it is on NVIDIA H100 SXM 80 GB and NVIDIA H200 SXM.")
    assert autoinfer(line.format(size=32) + KERNEL.format(kernel="machete")).code == 2


def test_what_is_legal_when_given_is_planned_where_it_is_given(autoinfer: Autoinfer) -> None:
    line = "plan --model qwen3.5-9b --hardware h200 --set drafting.method=dflash"
    refused = autoinfer(line)
    assert (refused.code, "it can be had with drafting.drafter=PATH" in refused.err) == (2, True)
    assert autoinfer(f"{line} --set drafting.drafter=/of/mine --json").json()["not_legal"] is None


def test_a_model_of_the_hub_is_planned_without_its_weights(autoinfer: Autoinfer, tmp_path: Path) -> None:
    with serving(us__small=of_the_reference()) as hub:
        settings = {"HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(tmp_path / "cache")}
        done = autoinfer.fresh("plan --model us/small@main --json", **settings)
        assert not any("safetensors" in path for path in hub.asked)
    model = json.loads(done.out)["model"]
    assert (model["commit"], model["weights_here"]) == (COMMIT, False)
    assert model["file_bytes"] > 9_000_000


def test_the_floor_of_weights_that_are_stored_packed_is_of_their_files_here_or_at_the_hub(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    folder = write_gptq(reference_model_path(), tmp_path / "gptq")
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    read = step_weight_bytes(inspect_checkpoint(folder))
    words = "--engine vllm --hardware h100"
    (here,) = autoinfer(f"plan --model {folder} {words} --json").json()["floors"]
    assert (here["weights"], here["weight_bytes"]) == ("as_stored", read)
    with serving(us__packed=Repository({COMMIT: files}, {"main": COMMIT})) as hub:
        settings = {"HF_ENDPOINT": hub.address, "HF_HUB_CACHE": str(tmp_path / "cache")}
        asked = f"plan --model us/packed@main {words}"
        document = json.loads(autoinfer.fresh(f"{asked} --json", **settings).out)
        sent = sum(size for path, size in hub.sent.items() if path.endswith(".safetensors"))
        silent = autoinfer.fresh(asked, **settings, HF_HUB_OFFLINE="1")
    assert (document["floors"], document["model"]["weights_here"]) == ([here], False)
    assert 0 < sent < 200_000 < document["model"]["file_bytes"]
    assert "floor: not known before the weights are here" in " ".join(silent.out.split())
    assert "as its files store them" in autoinfer.fresh(f"plan --model {folder} {words}").out


def test_where_a_model_of_the_hub_is_not_to_be_had_its_packaged_shape_is_named(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    line = "plan --model Qwen/Qwen3.5-4B@main --hardware 12GB"
    settings = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(tmp_path / "cache")}
    done = autoinfer.fresh(line, **settings)
    assert (done.code, done.out) == (1, "")
    assert "HF_HUB_OFFLINE is set" in done.err
    assert "Its shape is packaged, so that a plan needs no more: --model qwen3.5-4b\n" in done.err
    other = autoinfer.fresh("plan --model Qwen/Qwen3.5-5B --hardware 12GB", **settings)
    assert (other.code, "packaged" in other.err) == (1, False)


def test_a_way_of_asking_that_the_engine_lacks_is_refused_as_its_run_is(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    file = tmp_path / "over-http.yaml"
    file.write_text(
        "name: over-http\nlike: default\nplan: {workload: {asked_over: http}}\n", encoding="utf-8"
    )
    planned, run = (autoinfer(f"{command} {file}") for command in ("plan", "run"))
    assert (planned.code, planned.err) == (run.code, run.err)
    assert planned.code == 2
    assert "The engine reference has no HTTP server that could be asked." in planned.err


@pytest.mark.parametrize(
    "wrong",
    [
        "engine: vlm",
        "proposers: [nobody]",
        "baseline: {sweep: {quantization.bits: [4, 8]}}",
        "plan: {workload: {concurrency: 100000}}",
    ],
)
def test_what_a_campaign_names_and_is_not_there_is_refused_as_its_run_is(
    autoinfer: Autoinfer, tmp_path: Path, wrong: str
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(f"name: wrong\nlike: default\n{wrong}\n", encoding="utf-8")
    planned, run = (autoinfer(f"{command} {file}") for command in ("plan", "run"))
    assert planned.code == 2
    assert (planned.code, planned.out, planned.err) == (run.code, run.out, run.err)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("plan --hardware l5", 2, ["no hardware profile 'l5'", "--hardware 16GB"]),
        ("plan --hardware 0GB", 2, ["holds no model"]),
        ("plan --hardware l4 --target cpu", 2, ["name two places"]),
        ("plan --hardware l4 --engine vlm", 2, ["no engine 'vlm'", "Registered are: reference, vllm"]),
        ("plan --target cuda", 2, ["no target 'cuda'", "Write cuda:0, or cuda:all."]),
        ("plan --target cuda:0", 1, ["no cuda:0 to measure on", "autoinfer devices"]),
        ("plan --model nowhere", 2, ["There is no checkpoint folder nowhere", "OWNER/NAME"]),
        (
            "plan --model qwen3.5-5b",
            2,
            ["no checkpoint folder qwen3.5-5b", "a packaged shape too: qwen3.5-0.8b"],
        ),
        ("plan --model us/tiny@", 2, ["names no revision of us/tiny"]),
        ("plan --set serving.thread=1", 2, ["no knob 'serving.thread'"]),
        ("plan --set serving.threads=three", 2, ["serving.threads"]),
        ("plan --concurrency 0", 2, ["concurrency"]),
        (
            "run --model qwen3.5-9b --no-worker --no-dashboard",
            2,
            ["without weights", "autoinfer plan --model"],
        ),
        (
            "run shape --target cpu --no-worker --no-dashboard",
            2,
            ["shape is made for a GPU", "cpu is no GPU", "autoinfer run --target cpu"],
        ),
        (
            "plan shape --hardware h100 --engine reference",
            2,
            ["engine reference can't serve a model without weights", "--engine vllm"],
        ),
        ("plan shape --target cpu", 2, ["shape is made for a GPU", "autoinfer run shape --target cuda:0"]),
        ("run --target cuda:0 --no-worker --no-dashboard", 1, ["no cuda:0 to measure on"]),
        ("run --target cuda:x --no-worker --no-dashboard", 2, ["no target 'cuda:x'"]),
    ],
)
def test_what_means_nothing_is_refused_in_a_sentence(
    autoinfer: Autoinfer, line: str, code: int, words: list[str]
) -> None:
    """Of a machine without a GPU, which the target cuda:0 is not on."""
    done = autoinfer(line, CUDA_VISIBLE_DEVICES="")
    assert (done.code, done.out) == (code, ""), done.err
    assert "Traceback" not in done.err
    for word in words:
        assert word in done.err


def test_a_budget_that_reaches_no_verdict_is_said_before_a_run_begins(autoinfer: Autoinfer) -> None:
    done = autoinfer("run --no-worker --no-dashboard --json --budget 1s")
    assert done.json()["campaign_id"] == "C-1"
    assert (
        done.err == "budget: It does not reach a first verdict; --budget 1h pays for 6 tests to their end.\n"
    )
    told = autoinfer("run --new --no-worker --no-dashboard --budget 1s")
    assert told.err == ""
    assert told.out.index("budget: It does not reach a first verdict") < told.out.index("is spent")


def test_a_broken_config_is_told(autoinfer: Autoinfer, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    done = autoinfer(f"plan --model {tmp_path}/broken")
    assert done.code == 1
    assert "config.json can't be read" in done.err
