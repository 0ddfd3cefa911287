"""vLLM takes a way of drafting from words in a path, so that it is given one without them."""

from pathlib import Path

import pytest

from experiments.engines.port import Infeasible
from experiments.engines.vllm.plain_path import MISLEADING_WORDS, misleading, plain_path


@pytest.fixture
def links(tmp_path: Path) -> Path:
    return tmp_path


def test_a_path_without_such_a_word_is_given_as_it_is(tmp_path: Path) -> None:
    assert plain_path(tmp_path / "qwen3.5-4b") == tmp_path / "qwen3.5-4b"


@pytest.mark.parametrize("word", MISLEADING_WORDS)
def test_a_folder_below_one_of_such_a_name_is_reached_by_a_link(
    word: str, tmp_path: Path, links: Path
) -> None:
    folder = tmp_path / f"My-{word.upper()}-runs" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    link = plain_path(folder, links)
    assert not misleading(link)
    assert (link / "config.json").read_text() == "{}"
    assert plain_path(folder, links) == link  # vLLM's compile cache goes by the path


def test_another_s_link_of_that_name_is_left_alone(tmp_path: Path, links: Path) -> None:
    folder = tmp_path / "dflash"
    folder.mkdir()
    first = plain_path(folder, links)
    first.unlink()
    first.symlink_to(tmp_path / "elsewhere")
    second = plain_path(folder, links)
    assert second != first
    assert second.resolve() == folder
    assert first.readlink() == tmp_path / "elsewhere"


def test_where_every_path_names_a_method_it_is_said(tmp_path: Path) -> None:
    links = tmp_path / "eagle3"
    links.mkdir()
    with pytest.raises(Infeasible, match=r"by a path without eagle-, eagle3, ") as refused:
        plain_path(links / "checkpoint", links)
    assert refused.value.kind == "unsupported"
    assert not list(links.iterdir())
