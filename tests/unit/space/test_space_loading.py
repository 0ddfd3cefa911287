"""Spaces from YAML: what is packaged is sound, what means nothing is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from configs.catalog import Kind, packaged_names
from configs.errors import UsageError
from experiments.space.loading import load_space

GOOD = """
name: own
knobs:
  - {name: a.method, lever: a, values: [off, on_demand], default: off, help: Off or on demand.}
  - {name: a.count, lever: a, values: {from: 2, to: 8, step: 3}, default: 5, when: {a.method: on_demand},
     help: How many.}
  - {name: a.share, lever: a, values: [0.5, 1e-3], default: 1e-3, when: {a.count: [5, 8]}, help: How much.}
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
    assert space.size == 2 * (1 + 1 + 2 * 2)


@pytest.mark.parametrize("name", packaged_names(Kind.SPACES))
def test_every_packaged_space_loads_and_explains_its_knobs(name: str) -> None:
    space = load_space(name)
    assert space.is_legal(space.configuration({}))
    assert all(len(knob.help) > 10 for knob in space.knobs)


def test_the_reference_space_has_the_levers_of_the_reference_engine() -> None:
    space = load_space("reference")
    assert space.levers == ("pruning", "dtype", "threads", "compile")
    assert space.knob("pruning.layers_removed").values == (1, 2, 3, 4)
    assert space.knob("serving.compile").values == ("off", "default", "cpp_wrapper")
    assert set(space.configuration({})) == {
        "pruning.method", "serving.dtype", "serving.threads", "serving.compile",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("when: {a.method: on_demand}", "when: {a.share: 0.5}", "go in a circle"),
        ("when: {a.method: on_demand}", "when: {a.count: 5}", "go in a circle"),
        ("when: {a.method: on_demand}", "when: {a.metod: on_demand}", "names a.metod, which is no knob"),
        ("when: {a.method: on_demand}", "when: {a.method: always}", "asks a.method to be always, which"),
        ("when: {a.method: on_demand}", "when: {a.method: []}", "asks a.method to have no value"),
        ("when: {a.count: [5, 8]}", "when: {a.count: [5.0]}", "asks a.count to be 5.0, which cannot be"),
        ("name: b.flag", "name: a.count", "The knob a.count is defined twice"),
        ("default: 5", "default: 4", "The default 4 of the knob a.count is not one of its values"),
        ("[true, false]", "[true, true]", "The knob b.flag has the value true twice"),
        ("[true, false]", "[true, 'true']", "The knob b.flag has the value true twice"),
        ("[true, false]", "[]", "knobs.3.values"),
        ("{from: 2, to: 8, step: 3}", "{from: 9, to: 8}", "a range holds 1 to 10000 values"),
        ("{from: 2, to: 8, step: 3}", "{from: 1, to: 99999999999}", "a range holds 1 to 10000 values"),
        ("name: b.flag", "name: Flag", "knobs.3.name is 'Flag'"),
        ("lever: b,", "lever: b, levr: c,", "there is no field knobs.3.levr"),
        ("lever: b,", "", "the field knobs.3.lever is missing"),
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
