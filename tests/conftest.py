"""What holds for every test."""

import gc
import os
import signal
import sys
from collections.abc import Generator

import pytest
from hypothesis import settings

from configs.garbage import SELDOM
from configs.library_threads import compute_in_one_thread
from experiments.engines.garbage import unsearched
from tests.compiled_once import compile_statements_once

pytest_plugins = ["tests.hanging"]

EXAMPLES, MANY_EXAMPLES = 40, 400
"""Of each property, where its test does not say how many: in the suite, and in `make bench`."""

settings.register_profile("suite", deadline=None, max_examples=EXAMPLES)
settings.register_profile("thorough", deadline=None, max_examples=MANY_EXAMPLES)
"""No limit of time for an example: on a loaded machine it would fail tests of everything but speed."""

settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background ignores Ctrl C, and so would every command that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Under nohup every command would ignore a closed terminal too. A handler is not handed on, so that this
    # process alone still does nothing then.
    signal.signal(signal.SIGHUP, lambda *_: None)

# Tests start hundreds of processes. Where nothing may be kept of what was compiled, as in many containers,
# each of them would compile every module of the product anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What is planned and answered in this process takes the time that it takes in a command.
compute_in_one_thread()

compile_statements_once()

# Tests look for garbage as seldom as a command does: what they import and collect stays, and looking each 700
# objects takes a tenth of the processor time of those that read and show a database.
gc.set_threshold(SELDOM)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while everything is imported, and never again among what was.

    Collecting takes 8 s of processor time in place of 13, in each worker.
    """
    with unsearched():
        return (yield)
