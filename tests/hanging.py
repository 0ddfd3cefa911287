"""A test that goes on after its limit of time ends its process, so that a hang has an end and a name.

At the limit pytest-timeout raises once, in the test. A block that then waits for its process or its thread,
as that of `subprocess.Popen` does, waits without end, and with it the whole run. So some time later this
process says where each of its threads is, and ends; pytest-xdist names the test and goes on with the others.
"""

import faulthandler
import os
from collections.abc import Generator

import pytest

GRACE_S = 60.0
"""How long a test may take after its limit until all is put away."""

_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep where this process says things, which is kept from tests."""
    capturing = config.pluginmanager.getplugin("capturemanager")
    with capturing.global_and_fixture_disabled():
        config.stash[_STDERR] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    os.close(config.stash[_STDERR])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run the test; end the process where it does not end long after its limit."""
    limit_s = limit_of(item)
    if limit_s > 0:
        faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_of(item: pytest.Item) -> float:
    """The limit of a test, s: its own, or that of all; 0 without one, as where somebody debugs."""
    if item.config.getoption("usepdb"):
        return 0.0
    own = item.get_closest_marker("timeout")
    of_all = item.config.getoption("timeout")
    if of_all is None:
        of_all = item.config.getini("timeout") or 0
    return float(own.args[0] if own is not None else of_all)
