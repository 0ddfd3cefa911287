"""An engine's server process, seen from the parent: a process, two pipes, a log. Imports no torch.

Orders and requests go out by stdin and replies come by stdout, as `messages` says; what the process prints
goes to the log. It ends whole, with all that it started, on `close`, when a reply is late, and, by the end of
its stdin, with its parent.
"""

from __future__ import annotations

import errno
import json
import os
import queue
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from configs.quantities import format_duration
from experiments.disk import check_disk_held
from experiments.engines.messages import line
from experiments.engines.port import Infeasible
from experiments.executors import guard
from experiments.measurement.evidence import Json
from experiments.scratch import ScratchFolder, sweep

END_TIMEOUT_S = 10.0
"""How long killed processes may take to vanish before `close` gives up waiting, seconds."""

TRACKER = "multiprocessing.resource_tracker"
"""Stands in the command of a process that Python begins beside those that have semaphores or shared memory
with names: it gives back what they had once they are all gone, which no killed one can, and then ends."""

TRACKER_TIMEOUT_S = 2.0
"""How long it may take for that, seconds."""

TEMPORARY = "launch"
"""The kind of the folders below `cache_dir` for a launch's temporary files."""

SOCKETS = "autoinfer-sockets"
"""The kind of the folders for the sockets of an engine's processes. They lie among the system's temporary
files and not below `cache_dir`, for the names of sockets are limited to some 100 characters."""

SHORT_FOLDER = Path("/tmp")
"""Where they lie where the folder of temporary files is named too long too, as a cluster's may be."""

SOCKET_PATH_MAX_BYTES = 103
"""The longest path of a socket (`sun_path` of macOS; Linux has 107)."""

SOCKET_NAME_BYTES = 64
"""What of it folder and socket take: `/autoinfer-sockets-` with 8 characters, and `/` with vLLM's 36."""

OF_THE_MACHINE = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
    }
)
"""Errors that a start fails with whatever the configuration is."""

NEED_DISK = ("crashed", "build_failed")
"""Refusals that a full disk may be behind: a compiler that finds no room tells of errors in its input."""

KILLED = "The system ends processes so where memory runs out; its kernel's log (dmesg) would say it."
"""What may have ended a process by a signal that leaves it no last word."""

LOG_TAIL_BYTES = 4096
"""How much of the log's end is searched for the cause of a death."""

_INFORMATION = re.compile(r"(?:\(\w+ pid=\d+\) )?(?:INFO|DEBUG)[: ]")
"""Begins a line of vLLM's log, or of its HTTP server's, that is no warning."""

LOOK_S = 0.5
"""How often it is looked whether the process is still there while it is waited for, seconds."""

READER_TIMEOUT_S = 1.0
"""How long `close` waits for what reads replies, seconds: it ends with the pipe, at once but where something
that the process left behind has that too."""

FAILURE_LOG_BYTES = 256 * 1024
"""How much of it is searched for words that come long before the end: vLLM prints a traceback for each of its
processes."""


class ServerProcess:
    """A process that answers requests one at a time; not for several threads.

    `engine` is its name in a sentence, such as "The reference engine". `environment` gives the variables,
    told the folder of temporary files that ends with the process.
    """

    def __init__(
        self,
        engine: str,
        command: Sequence[str],
        environment: Callable[[str], Mapping[str, str]],
        log_path: Path,
        cache_dir: Path,
    ) -> None:
        """Start the process; it loads nothing before it is asked. Raises `OSError` when it can't be
        started."""
        self.engine = engine
        self._log_path = log_path
        self._replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        log_path.parent.mkdir(parents=True, exist_ok=True)
        self._temporary = ScratchFolder(TEMPORARY, cache_dir)
        try:
            with log_path.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=dict(environment(str(self._temporary.path))),
                    pass_fds=guard.descriptors(),
                )
        except BaseException:
            self._temporary.close()
            raise
        self._started: list[psutil.Process] | None = None
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, request: Mapping[str, Json], limit_s: float, verb: str) -> Any:
        """The answer to a request; `verb` completes "did not …" in a sentence.

        Raises `Infeasible`: what the process refused; of kind `timed_out` when there is no answer after
        `limit_s` seconds, `out_of_memory` or `crashed` when the process dies; it is ended then. Raises
        `DiskFull` in place of one of `NEED_DISK` where that was for want of disk space.
        """
        until_s = time.monotonic() + limit_s
        try:
            reply = self._reply(until_s) if self._send(line(request), until_s) else b""
        except queue.Empty:
            self.close()
            raise Infeasible(
                "timed_out",
                f"{self.engine} did not {verb} within {format_duration(limit_s)}; it was ended: "
                f"{self.last_log_line()}",
            ) from None
        except (OSError, ValueError):
            reply = b""
        if not reply:
            raise self._death(verb)
        answer = json.loads(reply)
        if "infeasible" in answer:
            refused = Infeasible(answer["infeasible"]["kind"], answer["infeasible"]["cause"])
            if refused.kind in NEED_DISK:
                self._check_disk(refused.cause)
            raise refused
        if self._started is None:  # what it serves with is there by now; after its death nobody can tell
            self._started = _descendants(self._process.pid)
        return answer["ok"]

    def _send(self, request: bytes, until_s: float) -> bool:
        """Write a request, whole; False where the process has ended instead of reading it. Raises
        `queue.Empty` at `until_s`: one that hangs may read no more, and the pipe holds a part alone."""
        assert self._process.stdin is not None
        pipe, left = self._process.stdin.fileno(), memoryview(request)
        room = select.poll()
        room.register(pipe, select.POLLOUT)
        while left:
            running = self.is_running()
            left_s = until_s - time.monotonic()
            if room.poll(1e3 * max(0.0, min(left_s, LOOK_S))):
                left = left[os.write(pipe, left) :]
            elif not running:
                return False
            elif left_s <= LOOK_S:
                raise queue.Empty
        return True

    def _reply(self, until_s: float) -> bytes:
        """The next reply, empty where the process has ended without one: what it started may hold its output
        open, which then tells nothing of its end. Raises `queue.Empty` at `until_s`."""
        while True:
            running = self.is_running()  # asked first: what it said before it ended is read by then, or soon
            left_s = until_s - time.monotonic()
            try:
                return self._replies.get(timeout=max(0.0, min(left_s, LOOK_S)))
            except queue.Empty:
                if not running:
                    return b""
                if left_s <= LOOK_S:
                    raise

    @property
    def temporary(self) -> Path:
        """The folder of its temporary files."""
        return self._temporary.path

    def is_running(self) -> bool:
        """Whether the process has not ended; from any thread."""
        return self._process.poll() is None

    def log_to(self, log_path: Path) -> None:
        """Move the log, to which the process goes on adding, where there is none yet. Raises `OSError`."""
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.open("x").close()  # raises where there is one, whose place a rename would take
        self._log_path.replace(log_path)
        self._log_path = log_path

    def kill(self) -> None:
        """Kill the process, from any thread: the one that asks it learns that it ended, and ends the rest."""
        self._process.kill()

    def close(self) -> None:
        """End the process and all it started; idempotent."""
        end_process_tree(self._process)
        _kill(self._started or [])
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        self._reader.join(READER_TIMEOUT_S)
        self._temporary.close()

    def log_since_start(self, most_bytes: int) -> str:
        """The end of what this process has logged, in whole lines but where one line is all of it; empty when
        the log can't be read."""
        try:
            with self._log_path.open("rb") as log:
                log.seek(0, os.SEEK_END)
                begin = max(self._log_start, log.tell() - most_bytes)
                log.seek(begin)
                told = log.read().decode(errors="replace")
        except OSError:
            return ""
        return told if begin == self._log_start else told.partition("\n")[2] or told

    def last_log_line(self) -> str:
        """The last line of the log, or a word that there is none. What Python's tracker says of what it gave
        back is passed over: it speaks when all else has ended. So is what is logged as a mere information,
        such as the throughput of each ten seconds, which tells nothing of an end."""
        lines = self.log_since_start(LOG_TAIL_BYTES).strip().splitlines()
        told = [each.strip() for each in lines if "resource_tracker" not in each]
        if not told:
            return "its log is empty."
        left = [each for each in told if not _INFORMATION.match(each)]
        return left[-1] if left else "its log names no error."

    def _check_disk(self, answer: str = "") -> None:
        said = f"{self.log_since_start(FAILURE_LOG_BYTES)}\n{answer}"
        check_disk_held(self.engine, said, self._log_path.parent, self.temporary)

    def _read(self) -> None:
        """Queue replies; an empty one says that there will be no more. The pipe is closed here, for to close
        it from elsewhere would wait for whoever reads it."""
        assert self._process.stdout is not None
        with suppress(OSError), self._process.stdout as replies:
            for reply in replies:
                self._replies.put(reply)
        self._replies.put(b"")

    def _death(self, verb: str) -> Infeasible:
        """The cause of a death from the process's exit code and the last line of its log."""
        try:
            self._check_disk()  # before what it wrote is deleted
        finally:
            self.close()
        code = self._process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        last_line = self.last_log_line()
        kind = "out_of_memory" if "MemoryError" in last_line else "crashed"
        ended = f"{self.engine}'s process ended ({how}) instead of going on to {verb}"
        # who is killed so tells no cause: its log's last line is about something else
        return Infeasible(kind, f"{ended}. {KILLED}" if code == -signal.SIGKILL else f"{ended}: {last_line}")


def not_started(process: str, cause: OSError) -> Infeasible:
    """Why a process could not be started that a launch needs once it is up; `process` begins the sentence.

    Raises the cause itself where it is the machine's and no configuration's: a full disk, a missing
    permission, too many processes. For a launch's first process `OSError` is left as it is, too: nothing of
    the configuration was tried yet.
    """
    if cause.errno in OF_THE_MACHINE:
        raise cause
    where = "" if cause.filename is None else f": {cause.filename}"
    return Infeasible(
        "crashed",
        f"{process} can't be started ({cause.strerror or cause}{where}); see that this is there and may be "
        "used, that the disk has room and that the machine may start more processes, then ask for it again.",
    )


def sweep_launches(cache_dir: Path) -> None:
    """Delete what launches of killed processes left among the temporary files of this machine."""
    sweep(TEMPORARY, cache_dir)
    for parent in {Path(tempfile.gettempdir()), sockets_parent()}:
        sweep(SOCKETS, parent)


def sockets_parent() -> Path:
    """The folder in which folders for sockets are made: the system's for temporary files, where paths in it
    are short enough."""
    system = Path(tempfile.gettempdir())
    fits = len(os.fsencode(system)) + SOCKET_NAME_BYTES <= SOCKET_PATH_MAX_BYTES
    return system if fits else SHORT_FOLDER


def _descendants(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _kill(processes: Sequence[psutil.Process], parent: subprocess.Popen[bytes] | None = None) -> None:
    """Kill those that are still there, and `parent` after them, and wait for them; a number that is somebody
    else's by now is left. Trackers come last, and are killed where they do not end by themselves."""
    trackers = [each for each in processes if _is_tracker(each)]
    others = [each for each in processes if each not in trackers]
    for each in others:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    if parent is not None:
        parent.kill()
        with suppress(subprocess.TimeoutExpired):
            parent.wait(END_TIMEOUT_S)
    psutil.wait_procs(others, timeout=END_TIMEOUT_S)
    _, late = psutil.wait_procs(trackers, timeout=TRACKER_TIMEOUT_S)
    for each in late:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(late, timeout=END_TIMEOUT_S)


def _is_tracker(process: psutil.Process) -> bool:
    try:
        return any(TRACKER in each for each in process.cmdline())
    except psutil.Error:  # it has ended, or is not ours to ask
        return False


def end_process_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all its descendants and wait until they are gone; nothing where it has ended, since
    the descendants are no longer its own then and its number may be somebody else's."""
    if process.poll() is not None:
        return
    tree: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        parent.suspend()  # so that it starts nothing between the listing and the kill
        tree = parent.children(recursive=True)
    _kill(tree, process)
