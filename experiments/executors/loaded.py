"""The executor's end of `forking`: a process that has loaded what jobs load, and is asked for runs."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from configs.errors import AutoinferError
from experiments.executors.forking import MESSAGE_BYTES
from experiments.executors.process_group import ProcessGroup, led_by

LOAD_S = 120.0
"""How long loading may take, on a slow disk: a second or two is usual."""

REAP_S = 30.0
"""How long to wait for a process to be gone after it was told to end."""

_LOOK_S = 0.005


@dataclass
class Started:
    """A run's group that was started here: its guard must be kept open, its end can be waited for by reading
    `ended`."""

    group: ProcessGroup
    guard: int
    ended: int

    def release(self) -> None:
        """Close what is held of it: whatever of the group still runs ends."""
        for descriptor in (self.guard, self.ended):
            os.close(descriptor)

    def wait_until_gone(self) -> None:
        """Return when its leader is no process any more, not even one that waits to be reaped."""
        deadline = time.monotonic() + REAP_S
        while psutil.pid_exists(self.group.pgid) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)


class LoadedProcess:
    """Starts `command`, which loads and serves (`forking.serve`); it ends with this process, or by `end`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel = ours
        self._channel.settimeout(LOAD_S)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (held until `end`)
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=theirs.fileno(),
                stdout=self._said,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except BaseException:
            self._channel.close()
            self._said.close()
            raise
        finally:
            theirs.close()

    def start(self, folder: Path, log: Path) -> Started:
        """Fork the run of `folder`, which speaks to `log`; waits until everything is loaded.

        Raises `AutoinferError` when it can't be loaded, and `OSError` when the log can't be written.
        """
        with log.open("ab") as output:
            watched, guard = os.pipe()
            ended, end = os.pipe()
            try:
                socket.send_fds(self._channel, [os.fsencode(folder)], [output.fileno(), watched, end])
                leader, cause = int(self._channel.recv(MESSAGE_BYTES) or b"0"), "it ended"
            except OSError as error:
                leader, cause = 0, str(error)
            finally:
                for descriptor in (watched, end):
                    os.close(descriptor)
        if leader == 0:
            for descriptor in (guard, ended):
                os.close(descriptor)
            raise AutoinferError(
                f"The process that runs jobs did not start ({cause}); it said last: {self._last_words()}",
                "Look whether autoinfer is installed whole, with: autoinfer doctor",
            )
        return Started(led_by(leader), guard, ended)

    def end(self) -> None:
        """Let it end; runs that it forked go on."""
        self._channel.close()
        try:
            self._process.wait(REAP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._said.close()

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing."
