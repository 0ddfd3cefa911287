"""Spaces from YAML: what is packaged is sound, what means nothing is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from experiments.space.configuration import Configuration
from experiments.space.loading import load_space
from experiments.stages.quantize.recipe import calibration_of, recipe_of

GOOD = """
name: own
knobs:
  - {name: a.method, lever: a, values: [off, on_demand], default: off, help: Off or on demand.}
  - {name: a.count, lever: a, values: {from: 2, to: 8, step: 3}, default: 5, when: {a.method: on_demand},
     help: How many.}
  - {name: a.share, lever: a, values: [0.5, 1e-3], default: 1e-3, when: {a.count: [5, 8]}, help: How much.}
  - {name: a.text, lever: a, values: [raw], default: raw, also: 'user:.+', also_like: user:PATH, help: Which.}
  - {name: b.flag, lever: b, values: [true, false], default: false, help: A switch.}
"""


def written_space(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_types_ranges_and_conditions_are_read_as_written(tmp_path: Path) -> None:
    space = load_space(written_space(tmp_path, GOOD))
    assert space.knob("a.method").values == ("off", "on_demand")
    assert space.knob("a.count").values == (2, 5, 8)
    assert space.knob("a.share").values == (0.5, 0.001)
    assert [type(v) for v in space.knob("b.flag").values] == [bool, bool]
    assert space.parse_assignment("a.text=user:b.txt") == ("a.text", "user:b.txt")
    assert space.size == 2 * (1 + 1 + 2 * 2)


@pytest.mark.parametrize("name", packaged_names(Kind.SPACES))
def test_every_packaged_space_loads_and_explains_its_knobs(name: str) -> None:
    space = load_space(name)
    assert space.is_legal(space.configuration({}))
    assert all(len(knob.help) > 10 for knob in space.knobs)


def test_the_reference_space_has_the_levers_of_the_reference_engine() -> None:
    space = load_space("reference")
    assert space.levers == ("pruning", "drafting", "dtype", "threads", "compile")
    assert space.knob("pruning.layers_removed").values == (1, 2, 3, 4)
    assert space.knob("serving.compile").values == ("off", "default", "cpp_wrapper")
    assert set(space.configuration({})) == {
        "pruning.method", "drafting.method", "serving.dtype", "serving.threads", "serving.compile",
    }  # fmt: skip


def test_the_levers_space_is_the_reference_space_with_more() -> None:
    levers, reference = load_space("levers"), load_space("reference")
    assert levers.levers == ("pruning", "quantization", "drafting", "dtype", "threads", "compile")
    for knob in reference.knobs:
        assert set(knob.values) <= set(levers.knob(knob.name).values)
        assert {other for other, _ in knob.when} == {other for other, _ in levers.knob(knob.name).when}
    assert levers.configuration(reference.configuration({})) == levers.configuration({})


def test_levers_are_conditional_on_each_other() -> None:
    space = load_space("levers")
    everything = space.configuration(
        {
            "pruning.method": "depth", "pruning.ranked_on": "quantized",
            "pruning.order": "after_quantization",
            "quantization.method": "awq", "quantization.corpus": "hf:name/of-it:train",
            "drafting.method": "dflash", "drafting.drafter": "./mine",
        }
    )  # fmt: skip
    assert space.is_legal(everything)
    rounded = space.with_change(everything, {"quantization.method": "rtn"})
    assert "quantization.corpus" not in rounded
    assert rounded["pruning.order"] == "after_quantization"
    plain = space.with_change(everything, {"quantization.method": "none"})
    assert not {"pruning.order", "pruning.ranked_on", "quantization.bits"} & set(plain)
    assert "quantization.out_proj_bits" not in space.with_change(everything, {"quantization.bits": 8})


@pytest.mark.parametrize("method", ["awq", "rtn"])
def test_what_is_not_said_of_quantization_means_the_same_to_the_space_and_to_the_stage(method: str) -> None:
    bare = Configuration.of({"quantization.method": method})
    whole = load_space("levers").configuration(bare)
    assert recipe_of(whole) == recipe_of(bare)
    assert calibration_of(whole) == calibration_of(bare)


@pytest.mark.parametrize("text", ["blend:1.5", "blend:", "user:", "hf:", "other", "RAW"])
def test_a_corpus_that_is_none_is_refused_with_what_it_can_be(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_space("levers").parse_assignment(f"quantization.corpus={text}")
    assert "raw, instruct, blend:0.5, self or blend:SHARE, user:PATH, hf:NAME[:split]" in str(caught.value)


def test_a_knob_of_experts_is_active_in_the_space_of_a_mixture_of_experts_alone(tmp_path: Path) -> None:
    text = GOOD.replace("when: {a.method: on_demand}", "when: {model.experts: true}", 1)
    space = load_space(written_space(tmp_path, text))
    (knob,) = (each for each in space.knobs if each.of_experts)
    assert knob.name not in space.configuration({})
    assert space.of_experts().configuration({})[knob.name] == knob.default


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("when: {a.method: on_demand}", "when: {a.share: 0.5}", "go in a circle"),
        ("when: {a.method: on_demand}", "when: {a.count: 5}", "go in a circle"),
        ("when: {a.method: on_demand}", "when: {a.metod: on_demand}", "names a.metod, which is no knob"),
        (
            "when: {a.method: on_demand}",
            "when: {model.experts: false}",
            "names model.experts, which is no knob",
        ),
        ("when: {a.method: on_demand}", "when: {a.method: always}", "asks a.method to be always, which"),
        ("when: {a.method: on_demand}", "when: {a.method: []}", "asks a.method to have no value"),
        ("when: {a.count: [5, 8]}", "when: {a.count: [5.0]}", "asks a.count to be 5.0, which cannot be"),
        ("name: b.flag", "name: a.count", "The knob a.count is defined twice"),
        ("default: 5", "default: 4", "The default 4 of the knob a.count is not one of its values"),
        ("[true, false]", "[true, true]", "The knob b.flag has the value true twice"),
        ("[true, false]", "[true, 'true']", "The knob b.flag has the value true twice"),
        ("[true, false]", "[]", "knobs.4.values"),
        ("{from: 2, to: 8, step: 3}", "{from: 9, to: 8}", "a range holds 1 to 10000 values"),
        ("{from: 2, to: 8, step: 3}", "{from: 1, to: 99999999999}", "a range holds 1 to 10000 values"),
        ("name: b.flag", "name: Flag", "knobs.4.name is 'Flag'"),
        ("lever: b,", "lever: b, levr: c,", "there is no field knobs.4.levr"),
        ("also: 'user:.+'", "also: 'user:('", "`also` that is no regular expression"),
        (", also_like: user:PATH", "", "has `also` without `also_like`"),
        ("lever: b,", "", "the field knobs.4.lever is missing"),
        ("lever: b,", "lever: b, lever: c,", "the key 'lever' stands twice"),
        ("name: own", "name: [own", "is not valid YAML"),
    ],
)
def test_what_means_nothing_is_refused_with_the_file(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    path = written_space(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_space(path)
    assert said in caught.value.message
    assert str(path) in caught.value.message


def test_a_missing_space_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no space 'referense'. Did you mean reference\?"):
        load_space("referense")
    with pytest.raises(UsageError, match="There is no file"):
        load_space(tmp_path / "none.yaml")
    folder = tmp_path / "folder.yaml"
    folder.mkdir()
    with pytest.raises(UsageError, match="is a folder"):
        load_space(folder)
    empty = written_space(tmp_path, "")
    with pytest.raises(UsageError, match=r"own\.yaml"):
        load_space(empty)
