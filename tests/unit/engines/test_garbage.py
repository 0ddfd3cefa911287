"""Garbage is not looked for while much is made, and is looked for again after it, whatever happened."""

import gc

import pytest

from experiments.engines.garbage import unsearched


def test_what_is_made_within_is_never_looked_at_again_and_what_comes_after_it_is() -> None:
    with unsearched():
        assert not gc.isenabled()
        made = [[] for _ in range(10)]
    assert gc.isenabled()
    looked_at = {id(each) for each in gc.get_objects()}
    assert not looked_at & {id(each) for each in made}
    after: list[object] = []
    assert id(after) in {id(each) for each in gc.get_objects()}


def test_a_failure_within_leaves_the_search_on() -> None:
    with pytest.raises(ImportError), unsearched():
        raise ImportError
    assert gc.isenabled()
