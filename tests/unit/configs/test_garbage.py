"""Working without looking for garbage meanwhile."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from itertools import permutations

import pytest

from configs.garbage import SELDOM, uncollected


def test_no_garbage_is_looked_for_within_and_it_is_after_a_failure() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), uncollected():
        _ = 1 / 0
    assert gc.isenabled()


def test_within_another_one_it_stays_so_to_the_end_of_that() -> None:
    with uncollected():
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_two_threads_at_once_leave_it_on_whoever_ends_first() -> None:
    for first_ends_first in (True, False):
        began, go_on = threading.Event(), threading.Event()

        def other(began: threading.Event = began, go_on: threading.Event = go_on) -> None:
            with uncollected():
                began.set()
                go_on.wait()

        thread = threading.Thread(target=other)
        with uncollected():
            thread.start()
            began.wait()
            if not first_ends_first:
                go_on.set()
                thread.join()
        go_on.set()
        thread.join()
        assert gc.isenabled()


def test_whenever_several_begin_and_end_it_is_off_within_and_on_after_the_last() -> None:
    """Each of two may begin and end at any moment of the other: all orders of the four steps."""
    for order in set(permutations("aabb")):
        within = {"a": uncollected(), "b": uncollected()}
        began: set[str] = set()
        for each in order:
            if each in began:
                within[each].__exit__(None, None, None)
                began.remove(each)
            else:
                within[each].__enter__()
                began.add(each)
            assert gc.isenabled() == (not began)


def test_a_process_that_looks_for_none_anyway_is_left_so() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_command_looks_for_garbage_seldom_and_not_at_its_end() -> None:
    told = (
        "atexit.register(lambda: print(gc.get_threshold()[0], gc.isenabled(), gc.get_freeze_count() > 1000))"
    )
    code = f"import atexit, gc\n{told}\nfrom cli.main import main\nmain(['--version'])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == f"{SELDOM} True True"
