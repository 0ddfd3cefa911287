"""The CSV of a table: a row for each configuration and workload, failures too, nothing of set acceptance."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from agent.replay.cells import is_result
from agent.replay.read import Asked, read_table
from agent.tables.export import export
from agent.tables.floor import Drafter, StepBytes, step_bytes
from agent.tables.gpu import GPU_COLUMNS
from agent.tables.grid import TableWorkload
from agent.tables.measure import ALONE, LOADING
from agent.tables.same import same_rows
from configs.models import load_model_profile
from configs.weight_formats import BFLOAT16
from experiments.engines.device_memory import Held
from experiments.engines.hybrid_cache import DrafterLayers
from experiments.shapes.drafter import drafter_for
from experiments.space.configuration import Configuration

PROFILE = load_model_profile("qwen3.5-9b")
SHAPE_S = drafter_for(PROFILE)
WORKLOAD = {"concurrency": 1, "prompt_tokens": 512, "new_tokens": 3, "requests": 1, "key": "c1 512/3 x1"}
IDENTITY = {"name": "NVIDIA H200", "driver": "1", "engine_version": "0.26.0"}
PLAIN = {"drafting.method": "none", "serving.async_scheduling": "auto"}
MTP = {"drafting.method": "mtp", "drafting.draft_tokens": 1}


def line(kind: str, load: str, knobs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "identity": IDENTITY,
        "model": "qwen3.5-9b",
        "weights": "dummy",
        "latency_only": True,
        "load": load,
        "configuration": knobs,
        "stored_as": "bfloat16",
        **more,
    }


def cell(load: str, knobs: dict[str, Any], gaps_us: list[int], **more: Any) -> dict[str, Any]:
    request: dict[str, Any] = {"start_us": 0, "ttft_us": 20_000, "gaps_us": gaps_us}
    if "steps" in more:
        request["steps"] = more.pop("steps")
    told = {
        "workload": WORKLOAD,
        "launch": load,
        "run_s": 1.0,
        "beside": {"at_start": ALONE, "at_end": ALONE},
    }
    return line("cell", load, knobs, **(told | {"requests": [request], "same": None} | more))


def rows(lines: list[dict[str, Any]]) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(export(lines, PROFILE, 4.8e12).csv())))


def test_a_row_has_knobs_what_ran_times_and_what_is_above_the_floor() -> None:
    resolved = {"linear_kernel": "K", "gdn": {"prefill": "triton"}}
    (row,) = rows(
        [
            line("load", "a", PLAIN, load_s=100.0, resolved=resolved, launch="a"),
            cell("a", PLAIN, [5_000, 5_200]),
        ]
    )
    assert (row["feasible"], row["quality"], row["latency_only"]) == ("yes", "", "yes")
    assert (row["drafting.method"], row["resolved.linear_kernel"], row["resolved.gdn_prefill"]) == (
        "none",
        "K",
        "triton",
    )
    assert (float(row["tpot_ms_median"]), row["tpot_ms_n"], row["itl_ms_n"]) == (5.1, "1", "2")
    assert row["tpot_ms"] == "5.100"
    assert float(row["floor_ms"]) + float(row["above_floor_ms"]) == pytest.approx(5.1, abs=1e-3)
    assert float(row["load_s"]) == 100


def test_drafting_on_made_up_weights_tells_steps_and_the_break_even_and_nothing_of_acceptance() -> None:
    lines = [cell("a", PLAIN, [5_000, 5_000]), cell("b", MTP, [0, 6_000], steps=1)]
    plain, drafting = rows(lines)
    assert plain["break_even_tokens_a_step"] == ""
    assert (drafting["tpot_ms_median"], drafting["e2el_ms_median"], drafting["tokens_per_s"]) == ("", "", "")
    assert drafting["tpot_ms"] == ""
    assert float(drafting["step_ms_median"]) == 6
    assert float(drafting["break_even_tokens_a_step"]) == pytest.approx(1.2)


@pytest.mark.parametrize("kernel", ["auto", "triton"])
def test_a_baseline_has_no_knob_that_is_there_for_drafting_and_may_be_older_than_others(kernel: str) -> None:
    later = {"serving.gdn_decode_kernel": kernel, "serving.max_graph_tokens": "auto"}
    lines = [cell("a", PLAIN, [5_000, 5_000]), cell("b", MTP | later, [0, 6_000], steps=1)]
    assert rows(lines)[1]["break_even_tokens_a_step"] == "1.2"
    other = PLAIN | {"serving.max_graph_tokens": 512}
    lines = [cell("a", other, [5_000, 5_000]), cell("b", MTP | later, [0, 6_000], steps=1)]
    assert rows(lines)[1]["break_even_tokens_a_step"] == ""


BEGIN: dict[str, Any] = {"kind": "begin", "identity": IDENTITY, "command": "measure"}


def test_a_break_even_by_a_baseline_of_another_run_says_so() -> None:
    lines = [BEGIN, cell("a", PLAIN, [5_000] * 2), BEGIN, cell("b", MTP, [0, 6_000], steps=1)]
    drafting = rows(lines)[1]
    assert (drafting["break_even_tokens_a_step"], drafting["baseline_run"]) == ("1.2", "another")
    assert is_result("baseline_run"), "a replay takes it for nothing that a table is told apart by"
    drafting = rows([*lines[:2], lines[3]])[1]
    assert (drafting["break_even_tokens_a_step"], drafting["baseline_run"]) == ("1.2", "same")
    one = {"identity": IDENTITY | {"uuid": "GPU-1"}}
    drafting = rows([each | one for each in lines])[1]
    assert drafting["baseline_run"] == "same"


def test_a_break_even_is_of_the_launches_that_were_measured_together_where_there_are_some() -> None:
    others = [cell(each, PLAIN | {"serving.dtype": each}, [5_000] * 2) for each in "cdef"]
    lines = [
        BEGIN,
        *others[:2],
        cell("a", PLAIN, [5_000] * 2),
        BEGIN,
        cell("a", PLAIN, [8_000] * 2, launch="again"),
        cell("b", MTP, [0, 6_000], steps=1),
        BEGIN,
        *others[2:],
        cell("b", MTP, [0, 9_000], steps=1, launch="again"),
    ]
    plain, drafting = (row for row in rows(lines) if row["load"] in "ab")
    assert (plain["run"], drafting["run"]) == ("1|2", "2|3"), "no run measured most of them"
    assert (float(plain["tpot_ms_median"]), float(drafting["step_ms_median"])) == (6.5, 7.5)
    assert (float(drafting["break_even_tokens_a_step"]), drafting["baseline_run"]) == (0.75, "same")


def of_run(load: str, ms: int, run: str, **more: Any) -> list[dict[str, Any]]:
    """A launch of a load, and its cell."""
    knobs, launch = PLAIN | {"serving.dtype": load}, f"{load}{run}"
    told = line("load", load, knobs, load_s=float(ms), resolved={"graph_mode": run}, launch=launch, **more)
    return [told, cell(load, knobs, [1_000 * ms] * 2, launch=launch, **more)]


def test_rows_are_of_the_run_that_measured_most_of_them_where_it_measured_them() -> None:
    lines = [
        *(BEGIN, *of_run("a", 5, "1"), *of_run("d", 7, "1")),
        *(BEGIN, *of_run("a", 8, "2"), *of_run("b", 9, "2"), *of_run("c", 9, "2")),
        *(BEGIN, *of_run("a", 4, "3"), *of_run("d", 9, "3")),
    ]
    found = {row["load"]: row for row in rows(lines)}
    told = ("run", "launches", "step_ms_median", "load_s", "resolved.graph_mode")
    assert [found["a"][each] for each in told] == ["2", "1", "8.0", "8.0", "2"]
    assert [found["d"][each] for each in told] == ["1|3", "2", "8.0", "8.0", "3"]
    table = export(lines, PROFILE, 4.8e12)
    left = [(row["load"], row["run"], row["step_ms_median"]) for row in table.left_out]
    assert left == [("a", "3", 4.0), ("a", "1", 5.0)], "the latest first"
    assert is_result("run"), "a replay takes it for nothing that a table is told apart by"


def test_what_really_ran_is_that_of_a_line_before_where_an_archive_tells_it_once() -> None:
    again, served = of_run("a", 7, "2")
    (row,) = rows([BEGIN, *of_run("a", 5, "1"), BEGIN, {**again, "resolved": None}, served])
    assert (row["run"], row["resolved.graph_mode"]) == ("2", "1")


def test_of_two_runs_that_measured_everything_rows_are_of_the_later_and_of_halves_of_both() -> None:
    first, again = [BEGIN, *of_run("a", 5, "1")], [BEGIN, *of_run("a", 7, "2")]
    (row,) = rows([*first, *again])
    assert (row["run"], row["step_ms_median"]) == ("2", "7.0")
    halves = [*first, *of_run("b", 5, "1"), *again, *of_run("c", 5, "2"), BEGIN, *of_run("d", 5, "3")]
    assert {row["load"]: row["step_ms_median"] for row in rows(halves)}["a"] == "6.0"
    assert export(halves, PROFILE, 4.8e12).left_out == ()


def test_runs_on_one_gpu_are_one_and_name_no_run() -> None:
    one, two = ({"identity": IDENTITY | {"uuid": each}} for each in ("GPU-1", "GPU-2"))
    on_one = [
        BEGIN,
        *of_run("a", 5, "1", **one),
        BEGIN,
        *of_run("a", 7, "2", **one),
        *of_run("b", 5, "2", **one),
    ]
    plain, _ = rows(on_one)
    assert plain["step_ms_median"] == "6.0"
    assert "run" not in plain
    plain, _ = rows([*on_one, BEGIN, *of_run("a", 9, "3", **two)])
    assert (plain["run"], plain["step_ms_median"]) == ("1|2", "6.0")


def gpu(power_w: float | None, throttled: str | None = None, **more: Any) -> dict[str, Any]:
    """What a GPU did beside a cell, as a block's evidence has it."""
    told = {
        "sm_mhz": {"min": 1900, "median": 1980, "max": 1980},
        "power_w": power_w,
        "temperature_c": 60,
        "energy_j_per_output_token": 2.5,
        "throttled": throttled,
        "repeated": [],
    }
    return told | more


def test_a_row_tells_what_the_gpu_did_and_one_measured_before_it_was_watched_nothing() -> None:
    watched = cell("a", PLAIN, [5_000], gpu=gpu(400.0, repeated=[gpu(300.0, "heat")]))
    before, now = rows([cell("b", PLAIN | {"serving.dtype": "float16"}, [5_000]), watched])
    assert (
        now["gpu_power_w"],
        now["gpu_energy_j_per_token"],
        now["gpu_temperature_c"],
        now["gpu_sm_mhz"],
    ) == (
        "400.0",
        "2.5",
        "60",
        "1980.0",
    )
    assert (now["gpu_throttled"], now["gpu_repeated"]) == ("no", "1")
    assert {name: before[name] for name in GPU_COLUMNS} == dict.fromkeys(GPU_COLUMNS, "")


def test_a_table_of_which_nothing_was_watched_has_the_columns_that_it_had() -> None:
    (row,) = rows([cell("a", PLAIN, [5_000])])
    assert not set(GPU_COLUMNS) & set(row)


def test_several_cells_of_a_row_give_means_the_highest_temperature_and_every_cause() -> None:
    lines = [
        cell("a", PLAIN, [5_000], launch="1", gpu=gpu(400.0, "the power limit: 1980 to 1500 MHz")),
        cell("a", PLAIN, [5_000], launch="2", gpu=gpu(300.0, "heat", temperature_c=85)),
        cell("a", PLAIN, [5_000], launch="3", gpu=gpu(None, sm_mhz=None, temperature_c=None)),
        cell("a", PLAIN, [5_000], launch="4"),
    ]
    (row,) = rows(lines)
    assert (row["gpu_power_w"], row["gpu_temperature_c"], row["launches"]) == ("350.0", "85", "4")
    assert row["gpu_throttled"] == "heat; the power limit: 1980 to 1500 MHz"


def test_energy_a_token_is_not_told_where_acceptance_was_set() -> None:
    (row,) = rows([cell("b", MTP, [0, 6_000], steps=1, gpu=gpu(400.0))])
    assert (row["gpu_energy_j_per_token"], row["gpu_power_w"]) == ("", "400.0")


def test_a_table_is_replayed_with_and_without_what_the_gpu_did(tmp_path: Path) -> None:
    """A row that was watched and one that was not are no different grounds."""
    plain, other = (PLAIN | {"serving.max_sequences": each} for each in (16, 4))
    old = [
        line("load", "a", plain, load_s=100.0, resolved={}, launch="a"),
        cell("a", plain, [5_000, 5_000]),
        line("load", "b", other, load_s=100.0, resolved={}, launch="b"),
        cell("b", other, [4_000, 4_000]),
    ]
    new = [each | {"gpu": gpu(400.0, "heat")} if each["kind"] == "cell" else each for each in old]
    mixed = [*old[:2], *new[2:]]
    tables = []
    for name, lines in (("old", old), ("new", new), ("mixed", mixed)):
        path = tmp_path / f"{name}.csv"
        path.write_text(export(lines, PROFILE, 4.8e12).csv())
        tables.append(read_table(path, Asked(where={"concurrency": "1"})))
    first = tables[0]
    for table in tables[1:]:
        assert [(row.configuration, row.latency, row.run_s) for row in table.rows] == [
            (row.configuration, row.latency, row.run_s) for row in first.rows
        ]
    assert all(is_result(name) for name in GPU_COLUMNS)


def test_a_load_that_failed_has_a_row_for_each_workload_with_its_cause() -> None:
    failure = {"kind": "unsupported", "cause": "No kernel."}
    lines = [cell("a", PLAIN, [5_000]), line("failure", "b", MTP, failure=failure, workload=None)]
    _, failed = rows(lines)
    assert (failed["feasible"], failed["cause_kind"], failed["cause"]) == ("no", "unsupported", "No kernel.")
    assert (failed["concurrency"], failed["tpot_ms_median"]) == ("1", "")


def test_what_was_tried_again_and_measured_is_feasible() -> None:
    failure = {"kind": "crashed", "cause": "It died."}
    lines = [line("failure", "a", PLAIN, failure=failure, workload=None), cell("a", PLAIN, [5_000])]
    (row,) = rows(lines)
    assert (row["feasible"], row["cause"]) == ("yes", "")


def test_cells_beside_a_load_for_comparing_are_in_no_row_and_are_compared() -> None:
    alone = cell("a", PLAIN, [5_000], same={"beside": ALONE, "repeat": 0})
    both = {"at_start": LOADING, "at_end": LOADING}
    beside = cell("a", PLAIN, [6_000], same={"beside": LOADING, "repeat": 0}, beside=both)
    assert rows([alone, beside]) == []
    first, second = same_rows([alone, beside])
    assert second.against(first) == pytest.approx(1.2)
    assert second.held


def configuration_of(**knobs: Any) -> Configuration:
    return Configuration.of({name.replace("__", "."): value for name, value in knobs.items()})


def test_bytes_of_a_step_are_those_of_the_floor_formula() -> None:
    """FACTS §6: 15.87 GB of weights in bfloat16, 5.64 in W4 of groups of 128; states and cache grow with
    concurrency, and narrower types halve them."""
    alone, many = TableWorkload(1, 512, 128, 1), TableWorkload(64, 512, 128, 64)

    def bytes_of(workload: TableWorkload = alone, **knobs: Any) -> StepBytes:
        return step_bytes(PROFILE, configuration_of(**knobs), workload)

    plain = bytes_of()
    assert plain.weights / 1e9 == pytest.approx(15.87, abs=0.01)
    assert plain.states == 2 * 48 * 2**20
    assert bytes_of(many).cache == 64 * plain.cache == 64 * 32_768 * 576
    assert bytes_of(serving__gdn_state_dtype="bfloat16").states == plain.states / 2
    assert bytes_of(serving__kv_cache_dtype="fp8_e4m3").cache == plain.cache / 2
    assert bytes_of(serving__weight_dtype="fp8").weights / 1e9 == pytest.approx(8.96, abs=0.05)
    drafted = bytes_of(drafting__method="mtp", drafting__draft_tokens=2)
    assert drafted.states == 4 * 48 * 2**20
    copied = bytes_of(drafting__method="mtp", drafting__draft_tokens=2, drafting__lm_head="fp8")
    head = PROFILE.vocabulary * PROFILE.hidden
    assert drafted.drafter - copied.drafter == 2 * head  # a byte less of each weight, read twice


@pytest.mark.parametrize("draft_tokens", [1, 3])
def test_an_mtp_head_reads_the_keys_and_values_of_its_layer_once_a_draft(draft_tokens: int) -> None:
    workload = TableWorkload(4, 512, 128, 4)

    def cache(**knobs: Any) -> float:
        return step_bytes(PROFILE, configuration_of(**knobs), workload).cache

    mtp = {"drafting__method": "mtp", "drafting__draft_tokens": draft_tokens}
    held, without = (Held(PROFILE, BFLOAT16, 576, mtp=loads).cache_bytes for loads in (True, False))
    assert held - without == 2 * 4 * 256 * 2 * 576, "FACTS §4: 4 heads of 256 keys and values in bfloat16"
    assert cache(**mtp) == cache() + 4 * draft_tokens * (held - without)
    assert cache(**mtp, serving__kv_cache_dtype="fp8_e4m3") == cache(**mtp) / 2


def test_a_dflash_drafter_reads_the_keys_and_values_of_all_its_layers_once_a_step() -> None:
    workload, layers = TableWorkload(4, 512, 128, 4), DrafterLayers(6, 8, 128)

    def cache(drafter: Drafter, draft_tokens: int) -> float:
        knobs = {"drafting__method": "dflash", "drafting__draft_tokens": draft_tokens}
        return step_bytes(PROFILE, configuration_of(**knobs), workload, drafter).cache

    unknown = cache(Drafter(1_000), 7)
    assert unknown == 4 * 576 * 32_768, "the model's own alone, where its layers are not known"
    assert cache(Drafter(1_000, layers), 7) == unknown + 4 * 576 * 2 * 6 * 8 * 128 * 2
    assert cache(Drafter(1_000, layers), 15) == cache(Drafter(1_000, layers), 7)


@pytest.mark.parametrize("draft_tokens", [1, 7, 15])
def test_a_dflash_drafter_and_the_output_head_are_read_once_more_a_step_for_a_whole_block(
    draft_tokens: int,
) -> None:
    workload, drafts = TableWorkload(1, 512, 128, 1), {"drafting.method": "dflash"}
    drafts["drafting.draft_tokens"] = draft_tokens

    def drafter(parameters: int, **more: Any) -> float:
        asked = Configuration.of({**drafts, **more})
        return step_bytes(PROFILE, asked, workload, Drafter(parameters)).drafter

    head = PROFILE.vocabulary * PROFILE.hidden
    assert drafter(1_000) == 2 * (1_000 + head)
    assert drafter(1_000, **{"serving.weight_dtype": "fp8"}) == 2 * (1_000 + head), "the target's alone"
    packed = {"quantization.method": "awq", "quantization.bits": 4, "quantization.group_size": 128}
    quantized = packed | {"quantization.symmetric": True, "quantization.lm_head": "quantized"}
    assert drafter(1_000, **packed) == 2 * (1_000 + head)
    assert drafter(1_000, **quantized) == 2 * 1_000 + head * (4 + 16 / 128) / 8


def dflash_rows(drafter: str, weights: str, told: dict[str, int]) -> list[dict[str, str]]:
    """The rows of a load that drafts by DFlash and of the same without."""
    knobs = {"drafting.method": "dflash", "drafting.draft_tokens": 7, "drafting.drafter": drafter}
    resolved = {"drafting": {"drafter": told}}
    lines = [
        line("load", "a", knobs, load_s=1.0, resolved=resolved, launch="a"),
        cell("a", knobs, [0, 6_000], steps=1),
        cell("b", PLAIN, [5_000, 5_000]),
    ]
    return rows([{**each, "weights": weights} for each in lines])


OWN_KV = 2 * SHAPE_S.layers * SHAPE_S.kv_heads * SHAPE_S.head_size
"""Keys and values of a token that the drafter of a shape reads."""

LAYERS = {"layers": 2, "kv_heads": 8, "head_dim": 128}


@pytest.mark.parametrize(
    ("drafter", "weights", "told", "parameters", "kv"),
    [
        ("packaged", "dummy", {}, SHAPE_S.parameters, OWN_KV),
        ("packaged", "dummy", {"parameters": SHAPE_S.parameters}, SHAPE_S.parameters, OWN_KV),
        ("packaged", "dummy", {"parameters": 1_000_000_000}, 1_000_000_000, 0),
        ("/a/drafter", "dummy", {"parameters": 500_000_000}, 500_000_000, 0),
        ("/a/drafter", "checkpoint", {"parameters": 500_000_000}, 500_000_000, 0),
        ("/a/drafter", "checkpoint", {"parameters": 500_000_000} | LAYERS, 500_000_000, 2 * 2 * 8 * 128),
        ("packaged", "dummy", {"parameters": 1_000_000_000} | LAYERS, 1_000_000_000, 2 * 2 * 8 * 128),
    ],
)
def test_a_drafter_has_the_weights_and_layers_that_its_launch_told_or_those_of_the_shape(
    drafter: str, weights: str, told: dict[str, int], parameters: int, kv: int
) -> None:
    drafting, plain = dflash_rows(drafter, weights, told)
    states = 7 * PROFILE.gdn_state_bytes
    head = PROFILE.vocabulary * PROFILE.hidden
    more = int(drafting["step_bytes"]) - int(plain["step_bytes"])
    assert more == states + 2 * (parameters + head) + 2 * kv * (512 + 3 / 2)
    assert float(drafting["floor_ms"]) == pytest.approx(int(drafting["step_bytes"]) / 4.8e9, abs=1e-3)


@pytest.mark.parametrize(("drafter", "weights"), [("/a/drafter", "dummy"), ("packaged", "checkpoint")])
def test_a_drafter_of_which_no_size_is_told_leaves_the_floor_empty(drafter: str, weights: str) -> None:
    drafting, plain = dflash_rows(drafter, weights, LAYERS)
    assert [drafting[each] for each in ("step_bytes", "floor_ms", "above_floor_ms")] == ["", "", ""]
    assert plain["floor_ms"] != ""


def test_a_load_that_failed_for_drafting_that_can_t_be_has_a_row_without_a_floor() -> None:
    never = MTP | {"drafting.draft_tokens": 99}
    failure = {"kind": "illegal", "cause": "drafting.draft_tokens is 99."}
    found = rows([cell("a", PLAIN, [5_000, 5_000]), line("failure", "b", never, failure=failure)])
    assert [(row["cause_kind"], row["floor_ms"] != "") for row in found] == [("", True), ("illegal", False)]
