"""A call on Modal ends at the limit that bounds its price, however often it is started."""

import json
import time
from pathlib import Path

import pytest

from experiments.executors.modal.body import Boards, Container, run_body
from experiments.executors.modal.deployment import STARTUP_S
from experiments.executors.modal.executor import END_S
from experiments.executors.modal.protocol import Head, Outcome
from experiments.executors.port import RunState
from experiments.measurement.evidence import Stage
from tests.integration.executors.conformance import SLOW
from tests.integration.executors.modal.watching import ended
from tests.simulated.modal.places import ModalPlace, modal_executor
from tests.simulated.places import JOB_COMMAND
from tests.simulated.specs import a_test_job


def test_a_job_is_ended_by_its_own_body_at_the_limit_that_bounds_its_price(place: ModalPlace):
    executor = place.executor()
    bound_s = executor.quote(a_test_job(SLOW), 2.0).upper_bound_s
    assert bound_s == 2.0 + END_S + 2 * STARTUP_S
    ref = executor.submit("bounded", a_test_job(SLOW), 2.0)
    assert place.fake.calls[ref].timeout_s == 2 + END_S, "and Modal ends it soon after, should it hang"
    status = ended(place, executor, ref)
    assert status.state is RunState.TIMED_OUT
    assert "ended at its limit of 2 s, which bounds what it may cost" in str(status.failure)
    assert place.living(ref) == 0
    assert executor.cost(ref).wall_s < bound_s
    assert place.executor().poll(ref) == status


def test_a_call_whose_body_does_not_end_is_ended_by_modal_at_its_time_limit(
    place: ModalPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("experiments.executors.modal.executor.END_S", -1)
    executor = modal_executor(tmp_path, limits_s={Stage.QUICK: 3.0})
    ref = executor.submit("long", a_test_job(SLOW))
    status = ended(place, executor, ref)
    assert status.state is RunState.TIMED_OUT
    assert "reached its time limit" in str(status.failure)
    assert place.living(ref) == 0
    assert place.executor().poll(ref) == status


class Board(dict[str, str]):
    """One of Modal's Dicts, of which the body uses no more than this."""

    def put(self, key: str, value: str, *, skip_if_exists: bool = False) -> bool:
        if skip_if_exists and key in self:
            return False
        self[key] = value
        return True


@pytest.mark.parametrize("left_s", [-1.0, 1.0], ids=["before it begins", "while it runs"])
def test_a_call_that_is_started_again_ends_when_the_time_that_was_quoted_for_it_is_over(
    place: ModalPlace, left_s: float
):
    """Modal's own limit begins anew with each start, and each start is paid for."""
    asked = place.executor()._asked("again", a_test_job(SLOW), None)
    assert asked.within_s == place.executor()._timeout_s(a_test_job(SLOW))
    asked = asked.model_copy(update={"within_s": 100.0})
    begun_at_s = time.time() - 100.0 + left_s
    before = Head(call_id="fc-1", key="again", gpu=None, start=1, first_began_at_s=begun_at_s)
    claims, told = Board({"again": "fc-1", "start:fc-1:1": "fc-1"}), Board({"fc-1": before.model_dump_json()})
    container = Container(place.folder, place.folder, command=JOB_COMMAND, tell_s=0.05)
    envelope = json.loads(run_body(asked.packed(), "fc-1", Boards(claims, told, Board()), container))
    assert (envelope["outcome"], envelope["start"]) == (Outcome.LOST, 2)
    assert "the time that was quoted for it is used up" in envelope["sentence"]
    assert envelope["ended_at_s"] - begun_at_s >= 100.0
    assert Head.model_validate_json(told["fc-1"]).ended


def test_a_first_start_is_ended_by_modals_own_limit_alone(place: ModalPlace):
    asked = place.executor()._asked("once", a_test_job(), None).model_copy(update={"within_s": 0.0})
    container = Container(place.folder, place.folder, command=JOB_COMMAND, tell_s=0.05)
    told = run_body(asked.packed(), "fc-1", Boards(Board(), Board(), Board()), container)
    assert json.loads(told)["outcome"] == Outcome.DONE
