"""What a command leaves out that answers and ends: looking for garbage."""

from __future__ import annotations

import gc

from cli.console.briefly import briefly


def test_no_garbage_is_looked_for_within_and_it_is_afterwards() -> None:
    assert gc.isenabled()
    with briefly():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_where_nothing_was_looked_for_before_nothing_is_afterwards() -> None:
    gc.disable()
    try:
        with briefly():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
