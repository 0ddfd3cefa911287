"""A process of its own for one piece of work with torch: one request by stdin, one answer on stdout.

`ask` starts `python -m MODULE` and waits for its answer; the module's `main` calls `give`. The process ends
with the one that asked, by the end of stdin, and within a job with the executor, by the guard pipe. What it
prints goes to the log. Answers are `{"ok": …}` or `{"infeasible": {"kind": …, "cause": …}}`; before its
answer it may tell how far it is: `{"progress": {"done": …, "planned": …, "text": …}}`, a line each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import experiments
from experiments.engines.parent import requests_from, search_path
from experiments.engines.port import Infeasible
from experiments.executors import guard

_RUN_MODULE = """
import runpy, sys
root = sys.argv.pop(1)
sys.path.insert(0, root)
import configs, experiments
sys.path.remove(root)
sys.path.append(root)
runpy.run_module(sys.argv[1], None, "__main__")
"""
"""What a Python of another environment runs: the module of this code, whatever autoinfer it has itself. This
code's folder is last on its path, so that its own packages go before those that lie beside this code."""


def ask(
    module: str,
    request: Mapping[str, Any],
    *,
    doing: str,
    log_path: Path | None = None,
    python: Path | None = None,
    environment: Mapping[str, str] | None = None,
    tell: Callable[[int, int, str], None] = lambda done, planned, text: None,
) -> Any:
    """The answer of `python -m module` to `request`, both as JSON has them.

    `doing` completes the sentence "The process that …" when it ends without an answer; `log_path` is where
    its log is added, a file that is thrown away if not given. `python` is another environment's, whose own
    packages are used; `environment` are variables to set. `tell` is called with what it tells of its
    progress.

    Raises:
        Infeasible: what the process refused, or kind `crashed` with the last line of its log.
    """
    package_root = str(Path(experiments.__file__).parent.parent)
    log_file: IO[bytes] = log_path.open("a+b") if log_path else tempfile.TemporaryFile()  # noqa: SIM115
    with log_file as log:
        process = subprocess.Popen(
            _command(module, python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=_variables(python, package_root) | dict(environment or {}),
            pass_fds=guard.descriptors(),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()  # and left open: its end would say that nobody waits any more
            reply = b""
            for line in process.stdout:
                told = json.loads(line)
                if "progress" in told:
                    far = told["progress"]
                    tell(far["done"], far["planned"], far["text"])
                else:
                    reply = line
            process.wait()
        finally:
            process.kill()
            process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
            process.stdout.close()
        if not reply:
            raise Infeasible("crashed", f"The process that {doing} ended: {_last_line(log)}")
    answer = json.loads(reply)
    if "infeasible" in answer:
        raise Infeasible(answer["infeasible"]["kind"], answer["infeasible"]["cause"])
    return answer["ok"]


def _command(module: str, python: Path | None) -> list[str]:
    if python is None:
        return [sys.executable, "-m", module]
    return python_command(python, module)


def python_command(python: Path, module: str) -> list[str]:
    """The command that runs a module of this code in a Python of another environment, with its packages."""
    return [str(python), "-P", "-c", _RUN_MODULE, str(Path(experiments.__file__).parent.parent), module]


def _variables(python: Path | None, package_root: str) -> dict[str, str]:
    found = dict(os.environ) | {
        "PYTHONPATH": search_path(package_root),
        "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",  # nothing is timed; spinning beside others takes minutes
    }
    if python is not None:
        del found["PYTHONPATH"]
    return found


def give(answer: Callable[[dict[str, Any]], object]) -> None:
    """Answer the one request of this process, as its `main`; `answer` may raise `Infeasible`.

    Anything else that it raises ends the process, with the traceback in the log.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _REPLIES.append(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    requests = requests_from(sys.stdin.buffer)
    try:
        reply: dict[str, object] = {"ok": answer(requests.get())}
    except Infeasible as refusal:
        reply = {"infeasible": {"kind": refusal.kind, "cause": refusal.cause}}
    except MemoryError:
        reply = {"infeasible": {"kind": "out_of_memory", "cause": "There is not enough memory for it."}}
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # at once: the thread that reads stdin would put words of its own last into the log
    _send(reply)


def progress(done: int, planned: int, text: str) -> None:
    """Tell who asked how far this process is, and the log; before the answer. Nothing where nobody asked."""
    if not _REPLIES:
        return
    print(f"{done} of {planned}: {text}", file=sys.stderr, flush=True)
    _send({"progress": {"done": done, "planned": planned, "text": text}})


_REPLIES: list[IO[str]] = []
"""Where answers go, once `give` has begun: stdout as it was, for what libraries print goes to the log."""


def _send(reply: Mapping[str, object]) -> None:
    for replies in _REPLIES:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing."
