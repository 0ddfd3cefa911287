"""The process of a pod that runs its job: what it is told by the environment, and its exit code."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from configs.errors import EXIT_FAILURE, AutoinferError
from experiments.executors.runpod.board import Board
from experiments.executors.runpod.body import Container, run_body
from experiments.executors.runpod.pod_environment import BOARD, KEY, LIMIT_SIGNAL
from experiments.stop_flag import StopFlag

VLLM_VARIABLE = "AUTOINFER_VLLM_PYTHON"
WORK_VARIABLE = "AUTOINFER_DATA_DIR"


def main(container: Container | None = None) -> int:
    """Run the job of the environment; returns the exit code."""
    over = StopFlag()
    signal.signal(LIMIT_SIGNAL, lambda *_: over.set())
    vllm = os.environ.get(VLLM_VARIABLE)
    found = container or Container(
        work=Path(os.environ.get(WORK_VARIABLE, "/data")), vllm_python=Path(vllm) if vllm else None
    )
    board = Board(os.environ[BOARD], os.environ.pop("PGPASSWORD", None))
    try:
        run_body(board, os.environ[KEY], os.environ["RUNPOD_POD_ID"], replace(found, is_over=over.is_set))
    except AutoinferError as error:
        print(error, flush=True)
        return EXIT_FAILURE
    finally:
        board.close()
    return 0
