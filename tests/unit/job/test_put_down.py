"""What a failure is put down to is told with the values that the failed configuration had."""

from pathlib import Path

import pytest

from experiments.engines.port import Blames, Infeasible
from experiments.job.blame import blames_of, put_down
from experiments.job.journal import read_records
from experiments.job.records import Records
from experiments.job.result import Failure
from experiments.space.configuration import Configuration

FAILED = Configuration.of({"serving.a": "auto", "serving.b": True})


@pytest.mark.parametrize(
    ("blames", "told"),
    [
        ({}, "It ended."),
        ({"serving.a": None}, "It ended; put down to serving.a=auto."),
        ({"serving.a": "fast"}, "It ended; put down to serving.a=auto, which ran as fast."),
        ({"serving.b": None, "serving.a": None}, "It ended; put down to serving.b=on, serving.a=auto."),
        ({"serving.not_there": None}, "It ended."),
    ],
)
def test_the_cause_names_the_settings_that_are_blamed(blames: Blames, told: str) -> None:
    assert put_down(Infeasible("crashed", "It ended.", blames=blames), FAILED) == told


def test_records_carry_what_is_blamed_and_those_from_before_it_was_told_blame_nothing(
    tmp_path: Path,
) -> None:
    for name, blames in (("told", {"serving.a": "fast", "serving.b": None}), ("untold", {})):
        with Records(tmp_path / name) as records:
            records.failure("crashed", "It ended.", blames=blames)
        assert read_records(tmp_path / name).failure == Failure("crashed", "It ended.", blames=blames)
    before = (tmp_path / "untold").read_text()
    assert "blames" not in before  # as it always was


@pytest.mark.parametrize("detail", [{}, {"blames": None}, {"blames": ["serving.a"]}, {"kind": "crashed"}])
def test_a_detail_that_tells_nothing_blames_nothing(detail: dict[str, object]) -> None:
    assert blames_of(detail) == {}


def test_a_detail_is_read_as_it_was_written() -> None:
    assert blames_of({"blames": {"serving.a": "fast", "serving.b": None}}) == {
        "serving.a": "fast",
        "serving.b": None,
    }
