"""Launches end at the same time, and all of them."""

from __future__ import annotations

import threading

import pytest

from experiments.job.open_launch import close

LIMIT_S = 10.0
"""What one that waits for the others gives them, at most."""


class Ends:
    """Ends once all others of its barrier end too, or fails to."""

    def __init__(self, together: threading.Barrier, failure: Exception | None = None) -> None:
        self._together, self._failure, self.ended = together, failure, False

    def close(self) -> None:
        self._together.wait(LIMIT_S)
        self.ended = True
        if self._failure is not None:
            raise self._failure


def test_no_launch_waits_for_the_end_of_another() -> None:
    together = threading.Barrier(4)
    launches = [Ends(together) for _ in range(4)]
    close(launches)
    assert all(each.ended for each in launches)


def test_all_are_ended_and_the_first_failure_is_told() -> None:
    together = threading.Barrier(3)
    launches = [Ends(together, failure) for failure in (None, OSError("first"), OSError("second"))]
    with pytest.raises(OSError, match="first"):
        close(launches)
    assert all(each.ended for each in launches)


def test_where_no_thread_can_be_had_all_are_ended_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    launches = [Ends(threading.Barrier(1)) for _ in range(3)]
    close(launches)
    assert all(each.ended for each in launches)


def test_of_none_there_is_nothing_to_end() -> None:
    close([])
