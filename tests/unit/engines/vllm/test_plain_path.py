"""vLLM takes a way of drafting from words in a path, so that it is given one without them."""

from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.plain_path import MISLEADING_WORDS, misleading, plain_path


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "wrapped"


def test_a_path_without_such_a_word_is_given_as_it_is(tmp_path: Path, kept: Path) -> None:
    assert plain_path(tmp_path / "qwen3.5-4b", kept) == tmp_path / "qwen3.5-4b"
    assert not kept.exists()


@pytest.mark.parametrize("word", MISLEADING_WORDS)
def test_a_folder_below_one_of_such_a_name_is_reached_by_a_link(
    word: str, tmp_path: Path, kept: Path
) -> None:
    folder = tmp_path / f"My-{word.upper()}-runs" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    link = plain_path(folder, kept)
    assert link.parent == kept
    assert not misleading(link)
    assert (link / "config.json").read_text() == "{}"
    assert plain_path(folder, kept) == link  # vLLM's compile cache goes by the path


def test_where_the_data_folder_has_such_a_name_the_link_lies_elsewhere(tmp_path: Path) -> None:
    data, elsewhere = tmp_path / "dflash", tmp_path / "elsewhere"
    link = plain_path(data / "checkpoint", data / "cache", [elsewhere])
    assert link.parent == elsewhere
    assert plain_path(data / "checkpoint", data / "cache", [elsewhere]) == link


def test_another_s_link_of_that_name_is_left_alone(tmp_path: Path, kept: Path) -> None:
    folder = tmp_path / "dflash"
    folder.mkdir()
    first = plain_path(folder, kept)
    first.unlink()
    first.symlink_to(tmp_path / "elsewhere")
    second = plain_path(folder, kept)
    assert second != first
    assert second.resolve() == folder
    assert first.readlink() == tmp_path / "elsewhere"


def test_where_no_link_can_be_made_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(Infeasible, match=r"no link to it can be made: name this folder") as refused:
        plain_path(tmp_path / "eagle3", tmp_path / "dflash", [tmp_path / "a file" / "below"])
    assert refused.value.kind == "unsupported"
