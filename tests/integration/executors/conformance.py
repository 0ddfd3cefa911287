"""What every executor must do (see `experiments.executors.port`): a suite to inherit from.

    class TestMine(ExecutorConformance):
        @pytest.fixture
        def place(self, tmp_path): return MyPlace(tmp_path)

A place makes executors that share a state, as a process does that was restarted; says what of a run still
lives; and kills a run's processes from outside. Jobs run the simulated engine.
"""

import uuid
from collections.abc import Callable
from typing import Protocol

import pytest

from experiments.executors.port import Executor, RunState, Status
from experiments.job.spec import BaselineJob, Knobs, TestJob
from tests.simulated.specs import FASTER, a_test_job

SLOW: Knobs = FASTER | {"simulated.hangs": "generate"}
"""A candidate that never answers: its run goes on until somebody ends it."""


class ExecutorPlace(Protocol):
    """Where the executor under test runs things."""

    def executor(self) -> Executor:
        """Another executor over the same state."""
        ...

    def living(self, ref: str) -> int:
        """How many processes of the run are alive."""
        ...

    def kill(self, ref: str) -> None:
        """Kill the run's processes as a crash would."""
        ...

    def wait_for(self, done: Callable[[], bool]) -> None:
        """Wait until `done`; fails when that takes too long."""
        ...


class ExecutorConformance:
    def key(self) -> str:
        return f"conformance-{uuid.uuid4().hex[:8]}"

    def ended(self, place: ExecutorPlace, executor: Executor, ref: str) -> Status:
        place.wait_for(lambda: executor.poll(ref).state not in (RunState.PENDING, RunState.RUNNING))
        return executor.poll(ref)

    def started(self, place: ExecutorPlace, spec: BaselineJob | TestJob) -> tuple[Executor, str]:
        """A run that has begun to measure."""
        executor = place.executor()
        ref = executor.submit(self.key(), spec)

        def measures() -> bool:
            status = executor.poll(ref)
            return status.progress is not None and status.progress.stage == "quick"

        place.wait_for(measures)
        return executor, ref

    def test_a_job_gives_its_result(self, place: ExecutorPlace):
        executor = place.executor()
        ref = executor.submit(self.key(), a_test_job())
        status = self.ended(place, executor, ref)
        assert status.state is RunState.DONE, status.failure
        assert status.result is not None
        assert len(status.result.launches) == 4
        assert status.result.failure is None
        assert status.progress is not None
        assert place.living(ref) == 0

    def test_an_infeasible_configuration_is_a_result_too(self, place: ExecutorPlace):
        executor = place.executor()
        ref = executor.submit(self.key(), a_test_job(FASTER | {"simulated.fails": "load"}))
        status = self.ended(place, executor, ref)
        assert status.state is RunState.DONE, status.failure
        assert status.result is not None
        assert status.result.failure is not None
        assert status.result.failure.kind == "crashed"

    def test_submitting_twice_starts_one_run(self, place: ExecutorPlace):
        key = self.key()
        executor = place.executor()
        ref = executor.submit(key, a_test_job())
        assert executor.submit(key, a_test_job()) == ref
        self.ended(place, executor, ref)
        assert executor.submit(key, a_test_job()) == ref
        assert executor.poll(ref).state is RunState.DONE

    def test_a_run_is_found_by_its_key_by_whomever_it_was_submitted(self, place: ExecutorPlace):
        key = self.key()
        assert place.executor().find(key) is None
        executor = place.executor()
        ref = executor.submit(key, a_test_job())
        assert place.executor().find(key) == ref
        self.ended(place, executor, ref)
        assert place.executor().find(key) == ref, "a run that has ended is found too"

    def test_a_run_submitted_twice_by_two_executors_does_the_work_once(self, place: ExecutorPlace):
        """As after a crash between a submit and the storing of its ref."""
        key = self.key()
        first, second = place.executor(), place.executor()
        refs = {first.submit(key, a_test_job()), second.submit(key, a_test_job())}
        results = [self.ended(place, second, ref).result for ref in sorted(refs)]
        assert sum(result is not None and bool(result.launches) for result in results) == 1

    def test_a_running_job_tells_where_it_is(self, place: ExecutorPlace):
        executor, ref = self.started(place, a_test_job(SLOW))
        status = executor.poll(ref)
        assert status.state is RunState.RUNNING
        assert status.progress is not None
        assert status.progress.planned > 0
        assert ref in executor.reconcile()
        executor.cancel(ref)

    def test_cancel_ends_everything_and_may_be_repeated(self, place: ExecutorPlace):
        executor, ref = self.started(place, a_test_job(SLOW))
        assert place.living(ref) > 0
        executor.cancel(ref)
        assert place.living(ref) == 0
        executor.cancel(ref)
        assert executor.poll(ref).state is RunState.CANCELLED
        assert ref not in executor.reconcile()

    def test_cancelling_a_finished_job_keeps_its_result(self, place: ExecutorPlace):
        executor = place.executor()
        ref = executor.submit(self.key(), a_test_job())
        self.ended(place, executor, ref)
        executor.cancel(ref)
        assert executor.poll(ref).state is RunState.DONE

    def test_cancelling_what_was_never_submitted_does_nothing(self, place: ExecutorPlace):
        place.executor().cancel("conformance-never")
        assert place.executor().poll("conformance-never").state is RunState.LOST

    def test_a_killed_run_is_lost_and_says_so(self, place: ExecutorPlace):
        executor, ref = self.started(place, a_test_job(SLOW))
        place.kill(ref)
        status = self.ended(place, executor, ref)
        assert status.state is RunState.LOST
        assert status.result is None
        assert status.failure is not None
        assert place.living(ref) == 0

    def test_another_executor_knows_the_end_of_a_run(self, place: ExecutorPlace):
        executor = place.executor()
        ref = executor.submit(self.key(), a_test_job())
        result = self.ended(place, executor, ref).result
        assert place.executor().poll(ref).result == result

    def test_another_executor_finds_and_ends_a_run(self, place: ExecutorPlace):
        _, ref = self.started(place, a_test_job(SLOW))
        other = place.executor()
        assert other.reconcile() == [ref]
        assert other.poll(ref).state is RunState.RUNNING
        other.cancel(ref)
        assert place.living(ref) == 0
        assert other.poll(ref).state is RunState.CANCELLED

    def test_logs_are_read_on_from_a_cursor(self, place: ExecutorPlace):
        executor = place.executor()
        ref = executor.submit(self.key(), a_test_job())
        self.ended(place, executor, ref)
        first = executor.logs(ref)
        assert first is not None
        assert "quick: time launch pair 1" in first.text
        later, from_third = executor.logs(ref, first.cursor), executor.logs(ref, 3)
        assert later is not None
        assert from_third is not None
        assert (later.text, from_third.text) == ("", first.text[3:])

    def test_there_is_no_log_of_what_was_never_submitted(self, place: ExecutorPlace):
        assert place.executor().logs("conformance-never") is None

    def test_quote_and_cost_are_told(self, place: ExecutorPlace):
        executor = place.executor()
        quote = executor.quote(a_test_job())
        assert 0 < quote.expected_s <= quote.upper_bound_s
        assert 0 <= quote.expected_usd <= quote.upper_bound_usd
        ref = executor.submit(self.key(), a_test_job())
        self.ended(place, executor, ref)
        cost = executor.cost(ref)
        assert cost.wall_s > 0
        assert 0 <= cost.usd <= quote.upper_bound_usd, "a quote bounds what is paid"
        assert executor.cost(ref) == cost

    @pytest.mark.parametrize("key", ["", "../elsewhere", "a b", "x" * 200])
    def test_a_key_that_is_no_name_is_refused(self, place: ExecutorPlace, key: str):
        with pytest.raises(Exception, match="is no key of a job"):
            place.executor().submit(key, a_test_job())
