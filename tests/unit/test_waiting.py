"""What tests wait by: it ends when it is so, fails when it takes too long, and looks once more at the end."""

from itertools import count

import pytest

from tests.waiting import wait_for


def test_it_ends_when_it_is_so() -> None:
    looks = count(1)
    wait_for(lambda: next(looks) == 3)
    assert next(looks) == 4


def test_what_does_not_become_so_in_time_fails() -> None:
    with pytest.raises(AssertionError, match="took too long"):
        wait_for(lambda: False, patience_s=0.0)
