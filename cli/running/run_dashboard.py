"""The dashboard that a campaign serves beside itself: a process of its own, behind all other work."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import typer

from agent.campaign.resources.worker_process import end_of
from cli.console.interrupt import Interrupt
from cli.console.opening import same_settings
from cli.console.output import print_json, say
from configs.errors import AutoinferError
from configs.priority import give_way
from configs.settings import Settings
from dashboard.listening import Listening, listen

DASHBOARD_LOG = "dashboard.log"
"""The file in the log folder that the campaign's dashboard writes to."""

LOOK_S = 0.2
"""Seconds between two looks for Ctrl C and for the server's end, while nothing else is done."""

STOP_S = 5.0
"""Seconds that the server is given to end: streams have two of them."""


class RunDashboard:
    """Serves a socket that listens already, by the words that `command` gives for its number.

    Nothing runs before the first `keep`. The server ends with this process, by SIGKILL too, because its
    standard input is a pipe from here. `command` is that of `autoinfer dashboard --beside`.
    """

    def __init__(self, listening: Listening, command: Callable[[int], Sequence[str]], log: Path) -> None:
        self.address = listening.address
        self._socket = listening.socket
        self._command = command
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._given_up = False

    def __enter__(self) -> RunDashboard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id, None when it does not run."""
        return None if self._process is None else self._process.pid

    def keep(self) -> str | None:
        """Start the server at the first call; a sentence, once, when it did not start or is there no more."""
        if self._given_up:
            return None
        if self._process is None:
            return self._start()
        if self._process.poll() is None:
            return None
        self.stop()
        return (
            f"The dashboard ended by itself; its log, {self._log}, ends with: {end_of(self._log)} "
            "The campaign goes on without it; serve it again with: autoinfer dashboard"
        )

    def stay(self) -> None:
        """Say that the server goes on, and block until Ctrl C or its end; at once where it does not run."""
        if self._process is None:
            return
        with suppress(KeyboardInterrupt), Interrupt() as interrupt:  # from the line on that speaks of Ctrl C
            say("", f"The dashboard stays at {self.address} until Ctrl C.")
            while self._process.poll() is None:  # a wait without end misses a Ctrl C that comes as it begins
                interrupt.check()
                time.sleep(LOOK_S)

    def stop(self) -> None:
        """Ask the server to end, then wait; kill it when it does not."""
        process, self._process, self._given_up = self._process, None, True
        self._socket.close()
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        finally:
            if process.stdin is not None:
                process.stdin.close()

    def _start(self) -> str | None:
        number = self._socket.fileno()
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command(number),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl C is for the campaign, which ends it then
                    pass_fds=(number,),
                )
        except OSError as error:
            self._given_up = True
            return (
                f"The dashboard could not be started: {error.strerror}. "
                "The campaign goes on without it; serve it with: autoinfer dashboard"
            )
        finally:
            self._socket.close()  # the server has its own; without one, browsers are refused and don't wait
        give_way(self._process.pid)
        return None


@contextmanager
def dashboard_beside(
    ctx: typer.Context, settings: Settings, *, as_json: bool
) -> Iterator[RunDashboard | None]:
    """A dashboard to be kept while a campaign runs; None, and a sentence, where no port is to be had.

    As JSON the address is told at once, on a line of its own.
    """
    listening = None
    try:
        listening = listen()
    except AutoinferError as error:
        if not as_json:
            say(f"{error.message} The campaign goes on without the dashboard. {error.hint}")
    if listening is None:
        yield None
        return
    if as_json:
        print_json({"dashboard": listening.address}, line=True)
    command = [*same_settings(ctx, settings), "dashboard", "--beside"]
    with RunDashboard(
        listening, lambda number: [*command, str(number)], settings.log_dir / DASHBOARD_LOG
    ) as dashboard:
        yield dashboard
