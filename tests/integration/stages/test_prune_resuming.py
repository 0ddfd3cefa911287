"""Scoring layers outlives a kill: what was scored of a document is not scored again, and the scores are the
same to the bit."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import torch

from experiments.engines.port import Infeasible
from experiments.stages.pruning.choosing import Choice
from experiments.stages.pruning.criteria import CRITERIA
from experiments.stages.pruning.kept_rows import KeptRows
from experiments.stages.pruning.kept_scores import ROWS, KeptScores
from experiments.stages.pruning.layer_walk import LayerWalk
from experiments.stages.pruning.scores import Ranking
from experiments.stages.pruning.scoring import rank_layers
from tests.integration.engines.checkpoints import LAYERS, tiny_model, write_checkpoint

DOCUMENTS = [tuple((start * 11 + 7 * step) % 500 for step in range(400 + start)) for start in range(24)]
"""Long enough, and enough of them, that a kill comes in the middle; two rows of one go through a layer at
once."""

CHOICE = Choice(2, "any")

DIES_AT = {"block_influence": 3, "leave_one_out_kl": 3, "greedy_kl": len(DOCUMENTS) + 3}
"""After how many documents the process that scores is killed: of the greedy criterion in the second round."""


@dataclass
class Told:
    """Everything that was told of progress; when `dies` things were, the process that scores is killed."""

    dies: int | None = None
    lines: list[tuple[int, int, str]] = field(default_factory=list)

    def __call__(self, done: int, planned: int, text: str) -> None:
        self.lines.append((done, planned, text))
        if len(self.lines) == self.dies:
            for child in psutil.Process().children():
                if "scoring_process" in " ".join(child.cmdline()):
                    os.kill(child.pid, signal.SIGKILL)

    @property
    def scored(self) -> int:
        """How many documents were scored, each round counted."""
        return sum(text.startswith("scored") for _, _, text in self.lines)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("model"), tiny_model(layers=LAYERS))


def ranked(
    source: Path,
    kept: Path | None,
    criterion: str,
    told: Told,
    log: Path | None = None,
    device: str = "cpu",
) -> Ranking:
    return rank_layers(
        {"original": source},
        criterion,
        CHOICE,
        DOCUMENTS,
        log,
        device=device,
        kept=None if kept is None else KeptScores(kept),
        tell=told,
    )["original"]


def row_files(kept: Path) -> dict[Path, int]:
    """The files of rows, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in kept.glob(f"*{ROWS}/*.json")}


@pytest.mark.parametrize(
    "criterion",
    [
        pytest.param(
            each, marks=[] if each == "block_influence" else pytest.mark.bench_only
        )  # the others take a minute
        for each in sorted(CRITERIA)
    ],
)
def test_a_killed_one_goes_on_with_what_it_scored_and_gives_the_same_scores_to_the_bit(
    source: Path, tmp_path: Path, criterion: str
) -> None:
    whole = Told()
    expected = ranked(source, None, criterion, whole)
    kept, rounds = tmp_path / "kept", CHOICE.layers_removed if criterion == "greedy_kl" else 1
    assert whole.scored == rounds * len(DOCUMENTS)
    with pytest.raises(Infeasible, match="process that scores layers ended") as told:
        ranked(source, kept, criterion, Told(dies=DIES_AT[criterion]))
    assert told.value.kind == "crashed"
    before = row_files(kept)
    assert DIES_AT[criterion] <= len(before) < whole.scored
    (one, _), *rest = before.items()
    one.write_bytes(one.read_bytes()[:-20])
    again = Told()
    assert ranked(source, kept, criterion, again, tmp_path / "log") == expected
    assert "were scored before" in again.lines[0][2]
    assert f"{one} is damaged" in (tmp_path / "log").read_text()
    assert again.scored == whole.scored - len(before) + 1, "the damaged one alone of what was kept"
    last = Told()
    assert ranked(source, kept, criterion, last) == expected
    if criterion == "greedy_kl":
        assert dict(rest).items() <= row_files(kept).items(), "nothing that was kept whole was written again"
        assert last.scored == 0
    else:
        assert row_files(kept) == {}, "the ranking is kept in their place"
        assert last.lines == []


def test_what_another_text_or_checkpoint_or_format_scored_is_not_taken(source: Path, tmp_path: Path) -> None:
    kept = KeptScores(tmp_path)
    name = kept.name(source, "greedy_kl", DOCUMENTS, "cpu", "float32")
    other = write_checkpoint(tmp_path / "other", tiny_model(layers=LAYERS))
    assert (
        len(
            {
                name,
                kept.name(source, "greedy_kl", DOCUMENTS[1:], "cpu", "float32"),
                kept.name(other, "greedy_kl", DOCUMENTS, "cpu", "float32"),
                kept.name(source, "leave_one_out_kl", DOCUMENTS, "cpu", "float32"),
                kept.name(source, "greedy_kl", DOCUMENTS, "cpu", "bfloat16"),
                kept.name(source, "greedy_kl", DOCUMENTS, "cuda:0", "float32"),
            }
        )
        == 6
    )
    assert kept.name(source, "greedy_kl", DOCUMENTS, "cpu", "float32") == name


def flipped(data: bytes) -> bytes:
    """With another digit in its last score."""
    place = max(data.rfind(digit) for digit in b"0123456789")
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[: len(data) // 2], flipped, lambda data: data.split(b"\n")[1]],
    ids=["empty", "half", "another digit", "without its checksum"],
)
def test_a_damaged_row_counts_as_absent_and_the_log_names_its_file(
    tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    rows = KeptRows(tmp_path, {"threads": 1})
    row = (0.1, 1 / 3, 5e-324)
    rows.keep(row, 4, (0, 1, 2), gone=(3,))
    assert rows.find(4, (0, 1, 2), gone=(3,)) == row
    [file] = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert rows.find(4, (0, 1, 2), gone=(3,)) is None
    assert f"{file} is damaged" in caplog.text


def test_a_row_is_found_for_what_it_was_scored_for_alone(tmp_path: Path) -> None:
    rows = KeptRows(tmp_path, {"threads": 1})
    rows.keep((1.0, 2.0), 4, (0, 1), gone=(3,))
    assert rows.find(5, (0, 1), gone=(3,)) is None
    assert rows.find(4, (0, 2), gone=(3,)) is None
    assert rows.find(4, (0, 1)) is None
    assert KeptRows(tmp_path, {"threads": 2}).find(4, (0, 1), gone=(3,)) is None
    [file] = tmp_path.iterdir()
    rows.keep((1.0, 3.0), 4, (0, 2), gone=(3,))
    [other] = set(tmp_path.iterdir()) - {file}
    other.rename(file)
    assert rows.find(4, (0, 1), gone=(3,)) is None, "the file of something else under its name"


def test_scores_that_are_not_finite_are_not_kept(tmp_path: Path) -> None:
    KeptRows(tmp_path / "rows").keep((1.0, float("nan")), 0, (0, 1))
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize("tokens", [50, 300, 400, 700, 1100])
def test_the_whole_model_s_states_are_those_beside_all_variants_to_the_bit(tokens: int) -> None:
    """A later round may be the first that this process scores."""
    walk = LayerWalk(tiny_model(layers=LAYERS), [tuple(step % 500 for step in range(tokens))])
    with torch.inference_mode():
        beside_all, _ = walk.last_states(0, (), walk.all_layers)
        assert torch.equal(walk.whole_states(0), beside_all)
