"""Ctrl C ends a command even where Python drops the exception."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text

from cli.console.interrupt import ENDING, Interrupt


class InterruptedInItsFinalizer:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass  # somewhere here the handler runs


def test_what_a_finalizer_drops_is_raised_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    with Interrupt() as interrupt:
        interrupt.check()
        InterruptedInItsFinalizer()
        assert [each.exc_type for each in dropped] == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt):
            interrupt.check()


@pytest.mark.parametrize("end", ENDING, ids=lambda each: each.name)
def test_elsewhere_it_is_raised_at_once_and_the_handler_before_comes_back(end: signal.Signals) -> None:
    before = signal.getsignal(end)
    with pytest.raises(KeyboardInterrupt), Interrupt():
        signal.raise_signal(end)
    assert signal.getsignal(end) is before


@pytest.mark.parametrize("end", ENDING, ids=lambda each: each.name)
def test_what_was_to_be_ignored_still_is(end: signal.Signals) -> None:
    before = signal.signal(end, signal.SIG_IGN)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(end)
            interrupt.check()
    finally:
        signal.signal(end, before)


@pytest.mark.parametrize("moment", ["begin", "commit", "rollback", "checkin"])
def test_a_transaction_is_not_left_half_way(moment: str) -> None:
    engine = create_engine("sqlite://")

    @event.listens_for(engine, moment)
    def _interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    done = []

    def work() -> None:
        with Interrupt():
            with engine.begin() as connection:
                connection.execute(text("CREATE TABLE found (id INTEGER)"))
            with engine.connect() as connection:
                connection.begin().rollback()
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done, "it is raised at the end, where nobody looked before"


def test_what_a_block_is_opened_for_is_closed_by_that_block() -> None:
    """Raised as the block is entered it would be nobody's: its transaction stays open as long as the
    exception is about, and whoever ends in order waits for its lock."""
    done: list[str] = []

    @contextmanager
    def transaction() -> Iterator[None]:
        done.append("opened")
        signal.raise_signal(signal.SIGINT)
        yield
        done.append("closed")

    def work() -> None:
        with Interrupt(), transaction():
            done.append("in the block")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["opened", "in the block", "closed"]


def test_what_ends_a_command_in_order_is_ended_by_ctrl_c_alone_and_a_sigterm_meanwhile_is_kept() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt() as interrupt:
        pass
    done: list[str] = []
    with interrupt.put_off():
        signal.raise_signal(signal.SIGTERM)
        done.append("all")
    assert (done, signal.getsignal(signal.SIGTERM)) == (["all"], before)
    with pytest.raises(KeyboardInterrupt):
        interrupt.check()
    with pytest.raises(KeyboardInterrupt), interrupt.put_off():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
