"""A grid is read into distinct, legal loads in the order of its file."""

import json
from pathlib import Path

import pytest

from agent.replay.cells import is_knob, read_lines
from agent.replay.knobs import space_of
from agent.tables.grid import ADDED_LATER, as_measured, in_full, load_digest, load_grid
from agent.tables.load_words import told
from agent.tables.loading import Sources
from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from configs.models import load_model_profile
from experiments.engines.vllm.checked_order import checked_order
from experiments.engines.vllm.order import order_for
from experiments.shapes.folder import write_shape
from experiments.space.configuration import Configuration

GRID = """
name: mine
model: qwen3.5-9b
weights: dummy
base: {serving.max_sequences: 4}
lengths: [{prompt_tokens: 16, new_tokens: 4, requests: {1: 2, 4: 4}}]
loads:
  - {}
  - {product: {serving.graph_mode: [none, eager], serving.dtype: [bfloat16, float16]}}
  - {set: {serving.graph_mode: none}}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", [name for name in packaged_names(Kind.GRIDS) if name != "reference"])
def test_every_load_of_a_packaged_grid_can_be_ordered_from_vllm(name: str, tmp_path: Path) -> None:
    grid = load_grid(name)
    profile = load_model_profile(grid.model)
    for load in grid.loads:
        shape = write_shape(profile, load.configuration, tmp_path / grid.digest(load), load.stored_as)
        checked_order(load.configuration, shape, "cuda:0")
    longest = max(each.prompt_tokens + each.new_tokens for each in grid.workloads)
    drafts = max(int(load.configuration.get("drafting.draft_tokens", 0)) for load in grid.loads)
    assert longest + drafts + 1 <= min(
        int(load.configuration["serving.max_model_len"]) for load in grid.loads
    )


def test_the_grids_for_an_h200_have_as_many_loads_as_asked_for_at_four_concurrencies_and_two_lengths() -> (
    None
):
    for name, least in (("h200-9b", 24), ("h200-4b", 12)):
        grid = load_grid(name)
        assert len({grid.digest(load) for load in grid.loads}) == len(grid.loads) >= least
        assert [each.concurrency for each in grid.workloads] == [1, 4, 16, 64] * 2


def test_the_grid_of_the_reference_engine_crosses_all_levers_over_its_control() -> None:
    grid = load_grid("reference")
    assert len({grid.digest(load) for load in grid.loads}) == len(grid.loads) >= 150
    changed = [
        {each.knob.partition(".")[0] for each in grid.loads[0].configuration.changes_to(load.configuration)}
        for load in grid.loads
    ]
    assert changed[0] == set()
    levers = {"pruning", "quantization", "drafting", "serving"}
    assert {frozenset(each) for each in changed} >= {frozenset({lever}) for lever in levers}
    pairs = {frozenset({one, other}) for one in levers for other in levers - {one}}
    assert pairs <= {frozenset(each) for each in changed}, "each pair of levers is crossed"


def test_loads_stand_in_the_order_of_the_file_and_each_once(tmp_path: Path) -> None:
    grid = load_grid(written(tmp_path, GRID))
    modes = [
        (load.configuration["serving.graph_mode"], load.configuration["serving.dtype"]) for load in grid.loads
    ]
    assert modes == [
        ("auto", "bfloat16"),
        ("none", "bfloat16"),
        ("none", "float16"),
        ("eager", "bfloat16"),
        ("eager", "float16"),
    ]
    assert told(grid, grid.loads[0]) == "the grid's first"
    assert told(grid, grid.loads[2]) == "serving.dtype=float16, serving.graph_mode=none"


def test_two_loads_that_are_one_shape_are_refused_with_which_and_why(tmp_path: Path) -> None:
    product = "  - {set: {quantization.group_size: 64}, product: {quantization.method: [rtn, awq]}}\n"
    path = written(tmp_path, GRID + product)
    with pytest.raises(
        UsageError, match=r"grid\.yaml: loads 5 and 6 are one\. Nothing is calibrated"
    ) as refused:
        load_grid(path)
    assert refused.value.hint == "Leave one of them out."
    assert len(load_grid(path, weights="checkpoint").loads) == 7
    alone = load_grid(written(tmp_path, GRID + product.replace("[rtn, awq]", "[rtn]")))
    assert alone.loads[-1].configuration["quantization.method"] == "rtn", "as tables of before have it"


def test_another_model_or_other_weights_are_other_loads(tmp_path: Path) -> None:
    path = written(tmp_path, GRID)
    digests = {
        grid.digest(grid.loads[0])
        for grid in (
            load_grid(path),
            load_grid(path, model="qwen3.5-4b"),
            load_grid(path, weights="checkpoint"),
        )
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("serving.graph_mode: none", "serving.graph_mod: none", "no knob"),
        ("set: {serving.graph_mode: none}", "set: {serving.linear_backend: marlin}", "linear_backend"),
        ("requests: {1: 2, 4: 4}", "requests: {4: 2}", "never 4 at once"),
        ("weights: dummy", "weights: some", "weights"),
        ("weights: dummy", "weights: dummy\nengine: reference", "weights: checkpoint"),
        ("weights: dummy", "weights: dummy\nside_by_side: {}", "for engine: reference"),
        ("loads:", "same: {loads: [9]}\nloads:", "there are 5"),
    ],
)
def test_a_fault_of_a_grid_is_told_with_its_file(before: str, after: str, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, GRID.replace(before, after))
    with pytest.raises(UsageError, match=why) as fault:
        load_grid(path)
    assert "grid.yaml" in str(fault.value)


KERNELS = """
name: kernels
model: MODEL
weights: checkpoint
lengths: [{prompt_tokens: 16, new_tokens: 4, requests: {1: 2}}]
loads:
  - {}
  - {product: {serving.linear_backend: [marlin, triton]}}
"""


def of_a_folder(tmp_path: Path, quantization: dict[str, object] | None) -> Path:
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    told = {} if quantization is None else {"quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(told))
    return written(tmp_path, KERNELS.replace("MODEL", str(folder)))


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True}


def test_a_grid_names_kernels_for_weights_that_its_checkpoint_stores_packed(tmp_path: Path) -> None:
    grid = load_grid(of_a_folder(tmp_path, GPTQ))
    kernels = [load.configuration["serving.linear_backend"] for load in grid.loads]
    assert kernels == ["auto", "marlin", "triton"]
    assert told(grid, grid.loads[1]) == "serving.linear_backend=marlin"
    assert {load.stored for load in grid.loads} == {"gptq"}
    assert load_grid("tiny").loads[0].stored == "bfloat16"
    asked = [
        order_for(load.configuration, grid.model, "cuda:0", 1).arguments.get("linear_backend")
        for load in grid.loads
    ]
    assert asked == [None, "marlin", "triton"]
    sources = Sources(load_model_profile("reference"), tmp_path, tmp_path, 1.0, Path(grid.model))
    assert sources.folder_of(grid.loads[1], "any") == Path(grid.model)


def test_what_was_measured_of_such_a_checkpoint_before_a_kernel_could_be_named_counts(tmp_path: Path) -> None:
    grid = load_grid(of_a_folder(tmp_path, GPTQ))
    first = grid.loads[0].configuration
    before = {name: value for name, value in first.items() if name != "serving.linear_backend"}
    for stored in ("bfloat16", grid.loads[0].stored):  # as a journal's line told it then, and tells it now
        assert load_digest(grid.model, grid.weights, stored, before) == grid.digest(grid.loads[0])
    assert len({grid.digest(load) for load in grid.loads}) == 3
    quantized = {"quantization.method": "awq", "serving.linear_backend": "auto"}
    assert as_measured(quantized) == Configuration.of(quantized)


def test_a_load_that_names_what_computes_experts_is_another_and_the_engine_s_choice_none(
    tmp_path: Path,
) -> None:
    text = KERNELS.replace("checkpoint", "dummy").replace("MODEL", "qwen3.5-35b-a3b")
    grid = load_grid(
        written(tmp_path, text.replace("linear_backend: [marlin, triton]", "moe_backend: [triton]"))
    )
    plain, named = (load.configuration for load in grid.loads)
    assert "serving.moe_backend" not in plain
    assert named["serving.moe_backend"] == "triton"
    assert len({grid.digest(load) for load in grid.loads}) == 2
    assert as_measured({**plain, "serving.moe_backend": "auto"}) == as_measured(plain)


@pytest.mark.parametrize("quantization", [None, {"quant_method": "fp8"}, {**GPTQ, "desc_act": True}])
def test_a_kernel_for_weights_that_none_is_named_for_is_refused_with_the_reason(
    quantization: dict[str, object] | None, tmp_path: Path
) -> None:
    path = of_a_folder(tmp_path, quantization)
    with pytest.raises(UsageError, match="stores no weights packed in a layout whose kernels can be named"):
        load_grid(path)
    with pytest.raises(UsageError, match="only means something when") as made_up:
        load_grid(path, weights="dummy")
    assert "leave the kernel to vLLM" not in str(made_up.value)


@pytest.mark.parametrize("name", ["h200-9b", "h200-4b"])
def test_what_is_in_the_committed_tables_is_of_the_grid_still_and_not_measured_again(name: str) -> None:
    grid, table = load_grid(name), Path("docs/results/tables") / f"{name}.jsonl"
    lines = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    measured = {line["load"] for line in lines if line["kind"] == "load"}
    assert len(measured) >= 4
    assert measured <= {grid.digest(load) for load in grid.loads}


def test_a_load_measured_before_a_knob_was_there_is_told_with_what_was_done_then() -> None:
    former = {"quantization.method": "awq", "quantization.bits": 4, "quantization.samples": 32}
    later = {**former, "quantization.sample_tokens": 512}
    assert in_full(former)["quantization.sample_tokens"] == 256
    assert in_full(former)["quantization.keep"] == "none"
    assert in_full(later)["quantization.sample_tokens"] == 512
    assert as_measured(in_full(former)) == Configuration.of(former)
    assert not [name for name in in_full({"quantization.method": "none"}) if name in ADDED_LATER]
    drafted = {"drafting.method": "mtp", "drafting.draft_tokens": 1}
    added = {"drafting.lm_head": "auto", "serving.gdn_decode_kernel": "auto"}
    assert in_full(drafted) == Configuration.of({**drafted, **added})
    assert as_measured(in_full(drafted)) == Configuration.of(drafted)
    assert "drafting.lm_head" not in in_full({**drafted, "drafting.method": "ngram"})


@pytest.mark.parametrize("name", ["h200-9b", "reference"])
def test_a_committed_table_is_one_of_a_packaged_space_in_all_its_lines(name: str) -> None:
    columns, lines = read_lines(Path(f"docs/results/tables/{name}.csv"))
    found, _, configurations = space_of([each for each in columns if is_knob(each)], lines, None)
    assert found is not None
    assert len(configurations) == len(lines)
