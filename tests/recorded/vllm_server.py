"""A recorded server: answers the engine vllm as a real vLLM's driver did when it was recorded.

It is started by the engine itself in the place of vLLM's Python (`python_of`), and is asked what that is
asked: which packages it has, everything that a driver is, and what the client of its HTTP server is, which
asks no server here. It computes nothing and is no GPU. What is not in the recording is refused in a sentence
that says how to record anew, so that a test fails when the engine says something else than it did.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.engines.vllm.order import IMPORTED
from tests.recorded.vllm_recording import CLIENT, DRIVER, RECORDING, Exchange, Names, Recording, write_python

READS_VALUES = "read_values.py"
"""The file that vLLM's Python is given to tell which values vLLM's types have."""


def python_of(folder: Path, names: Names) -> Path:
    """What stands in the place of vLLM's Python, written below `folder`."""
    paths = folder / "names.json"
    paths.write_text(json.dumps(dict(names.paths)), encoding="utf-8")
    return write_python(folder / "recorded-vllm", __name__, [str(RECORDING), str(paths)])


def tell_versions(recording: Recording, packages: Sequence[str]) -> None:
    """Answer as `experiments/other_python.py` has a Python tell the versions of its packages.

    Ends without an answer where one was not recorded.
    """
    versions = recording.header["versions"]
    unknown = [name for name in packages if name not in versions]
    if unknown:
        sys.exit(f"The recorded server knows no version of {', '.join(unknown)}.")
    print(json.dumps({name: versions[name] for name in packages}))


def tell_values(recording: Recording, types: Sequence[str]) -> None:
    """Answer as `experiments/engines/vllm/read_values.py` tells which values vLLM's types have."""
    values = recording.header["values"]
    print(json.dumps({name: values[name] for name in types if name in values}))


class Server:
    """Answers one driver's lines."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._known = recording.orders
        self._loaded = False
        self._processes: list[subprocess.Popen[bytes]] = []

    def answer(self, asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The reply; None where none came. Ends this process where the driver ended."""
        found = next((each for each in self._known if each.asked == asked), None)
        if found is None:
            return self._recording.refusal(asked, self._known)
        sys.stderr.write(found.log)
        sys.stderr.flush()
        if not self._loaded:
            self._load(found)
        if found.ended is not None:
            sys.exit(found.ended)
        return found.answer

    def _load(self, order: Exchange) -> None:
        """Begin as many processes as the driver had; they end with this one, however it ends."""
        self._loaded = True
        self._known = self._recording.requests(order.asked)
        self._processes = [
            subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            for _ in range(order.processes)
        ]


def main() -> None:
    """Be what `python_of` stands for; the arguments are those of a Python."""
    recording_path, paths, *arguments = sys.argv[1:]
    names = Names(json.loads(Path(paths).read_text(encoding="utf-8")))
    recording = Recording.read(Path(recording_path), names)
    if Path(arguments[1]).name == READS_VALUES:
        tell_values(recording, arguments[2:])
        return
    if arguments[-1] not in (DRIVER, CLIENT):
        tell_versions(recording, arguments[3:])
        return
    if arguments[-1] == DRIVER:
        Path(tempfile.gettempdir(), IMPORTED).touch()
    server = Server(recording)
    for line in sys.stdin:
        reply = server.answer(json.loads(line))
        if reply is not None:
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
