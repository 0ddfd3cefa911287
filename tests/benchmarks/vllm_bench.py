"""`vllm bench serve`, run after run: the function that the command runs, in one process of vLLM's own Python.

The command imports for 15 s or more before it asks for anything. Here that is done once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.engines.messages import infeasible_data, send
from experiments.engines.one_answer import python_command
from experiments.engines.parent import requests_from
from experiments.engines.port import Infeasible
from experiments.engines.server_process import ServerProcess
from experiments.engines.vllm.http_client_process import client_environment

MODULE = "tests.benchmarks.vllm_bench"

NAME = "vllm bench serve"

LIMIT_S = 1800.0
"""Most seconds of one run."""


class VllmBench:
    """The process, until it is closed; for one thread. It has imported once it is made, and is at rest."""

    def __init__(self, python: Path, folder: Path) -> None:
        """Begin it in vLLM's `python`, with its log and what it saves in `folder`. Raises `OSError` where it
        can't be started, and `Infeasible` where it does not come up."""
        quiet = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        self._folder = folder
        self._process = ServerProcess(
            NAME,
            python_command(python, MODULE),
            lambda temporary: client_environment(temporary) | quiet,
            folder / "vllm-bench.log",
            folder,
        )
        try:
            self._process.ask({"arguments": None}, LIMIT_S, "import vLLM")
        except Infeasible:
            self._process.close()
            raise

    def saved(self, arguments: Sequence[str], requests: int, new_tokens: int) -> dict[str, Any]:
        """What one run with these arguments saved, without the texts.

        Raises `Infeasible` where it fails, and `RuntimeError` where it did not complete so many requests of
        so many tokens.
        """
        result = self._folder / "result.json"
        result.unlink(missing_ok=True)
        kept = ["--save-result", "--save-detailed", "--result-dir", str(self._folder)]
        self._process.ask(
            {"arguments": [*arguments, *kept, "--result-filename", result.name]}, LIMIT_S, "run"
        )
        saved: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        if saved["failed"] or saved["total_output_tokens"] != requests * new_tokens:
            raise RuntimeError(f"{NAME} completed {saved['completed']} of {requests} requests")
        saved.pop("generated_texts", None)
        return saved

    def close(self) -> None:
        """End it; idempotent."""
        self._process.close()


def main() -> None:
    """Run as asked until the parent goes; in vLLM's own Python."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what it prints belongs into the log
    asked = requests_from(sys.stdin.buffer)
    from vllm.benchmarks import serve
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    while True:
        arguments = asked.get()["arguments"]
        try:
            if arguments is not None:
                serve.main(parser.parse_args(arguments))
        except (Exception, SystemExit) as failure:
            told = Infeasible("crashed", f"{NAME} failed: {type(failure).__name__}: {failure}")
            send(replies, infeasible_data(told))
            continue
        send(replies, {"ok": None})


if __name__ == "__main__":
    main()
