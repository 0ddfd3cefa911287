"""The dashboard that `autoinfer run` serves: where, behind what, and that it ends with the campaign.

Its priority is the lowest, so that on a busy machine it may take minutes to answer; so the one that is asked
is started by the test itself.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import psutil

from configs.priority import NICENESS
from dashboard.listening import DEFAULT_HOST, DEFAULT_PORT, listen
from experiments.own_processes import runs
from tests.new_database import new_database
from tests.waiting import wait_for

CLI = [sys.executable, "-P", "-m", "cli"]
PATIENCE_S = 120.0
MOMENT_S = 10.0
"""For so long a campaign of another test may have the default port."""

ADDRESS = re.compile(r"the dashboard is at (http://127\.0\.0\.1:[0-9]+)$")


class Running:
    """A campaign with its dashboard, and what it prints."""

    def __init__(self, process: subprocess.Popen[bytes], lines: Iterator[str]) -> None:
        self.process = process
        self.lines = lines
        told = []
        for line in lines:
            told.append(line.strip())
            if found := ADDRESS.search(told[-1]):
                self.address = found[1]
                return
        raise AssertionError(f"no address was told: {told}")

    def server(self) -> psutil.Process:
        """The process that serves, once it is there."""
        found: list[psutil.Process] = []

        def is_there() -> bool:
            children = psutil.Process(self.process.pid).children()
            found[:] = [each for each in children if "--beside" in each.cmdline()]
            return bool(found)

        wait_for(is_there, PATIENCE_S)
        return found[0]


@contextmanager
def a_run(data_dir: Path, *words: str, terminal: bool = False) -> Iterator[Running]:
    """Without a worker the baseline waits: a campaign that costs next to nothing."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    command = [*CLI, "--data-dir", str(data_dir), "run", "--no-worker", *words]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        try:
            with os.fdopen(ours, encoding="utf-8") as out:
                yield Running(process, lines_of(out))
        finally:
            process.kill()


def has_bound(other: socket.socket) -> bool:
    try:
        other.bind((DEFAULT_HOST, DEFAULT_PORT))
    except OSError:
        return False
    other.listen()
    return True


def lines_of(out: TextIO) -> Iterator[str]:
    with suppress(OSError):  # so a terminal says that nobody writes to it any more
        yield from iter(out.readline, "")


def is_gone(process: psutil.Process) -> Callable[[], bool]:
    return lambda: not runs(process)


def test_it_stands_back_and_stays_on_a_terminal_until_ctrl_c(tmp_path: Path) -> None:
    with a_run(tmp_path, "--budget", "1s", terminal=True) as running:
        server = running.server()
        stays = f"The dashboard stays at {running.address} until Ctrl C."
        assert any(stays in line for line in running.lines)
        assert server.nice() == NICENESS
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(PATIENCE_S) == 0
        assert is_gone(server)()


def test_it_takes_the_next_port_and_ends_with_a_campaign_that_is_killed(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(AssertionError):  # then somebody keeps it, which is as good
            wait_for(lambda: has_bound(other), MOMENT_S)
        with a_run(tmp_path) as running:
            assert not running.address.endswith(f":{DEFAULT_PORT}")
            server = running.server()
            running.process.kill()
            wait_for(is_gone(server), PATIENCE_S)


def test_it_serves_the_socket_that_it_is_given_and_ends_with_its_input(tmp_path: Path) -> None:
    new_database(tmp_path).close()
    listening = listen(port=0)
    number = listening.socket.fileno()
    command = [*CLI, "--data-dir", str(tmp_path), "dashboard", "--beside", str(number), "--json"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(number,), start_new_session=True
    ) as process:
        listening.socket.close()
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"address": listening.address}
        with urllib.request.urlopen(f"{listening.address}/healthz", timeout=PATIENCE_S) as answered:
            assert json.load(answered)["status"] == "ok"
        process.stdin.close()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
