"""What holds for every test."""

import os
import signal
import sys

from hypothesis import settings

settings.register_profile("suite", deadline=None)
"""No limit of time for an example: on a loaded machine it would fail tests of everything but speed."""

settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell's background ignores Ctrl C, and so would every command that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes. Where nothing may be kept of what was compiled, as in many containers,
# each of them would compile every module of the product anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
