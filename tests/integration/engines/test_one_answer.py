"""A process that dies without an answer is told with the last line of its log."""

from pathlib import Path

import pytest

from experiments.engines.one_answer import ask
from experiments.engines.port import Infeasible


def test_a_process_that_ends_without_an_answer_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(Infeasible, match=r"The process that counts ended: .*no_such_module") as caught:
        ask("experiments.no_such_module", {}, doing="counts", log_path=log)
    assert caught.value.kind == "crashed"
    assert "no_such_module" in log.read_text()
