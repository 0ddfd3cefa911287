"""The function that is deployed: Modal imports this module in a container and calls `job`."""

from __future__ import annotations

from pathlib import Path

VLLM_PYTHON = Path("/opt/vllm/bin/python")
"""Where the image has vLLM, in an environment of its own."""


def job(packed: bytes) -> str:
    """Run one job (`protocol.Asked`, packed) and return its `protocol.Envelope` as JSON."""
    import modal

    from experiments.executors.modal.body import Container, run_body
    from experiments.executors.modal.client import boards
    from experiments.executors.modal.protocol import WORK_VOLUME

    call_id = modal.current_function_call_id()
    assert call_id is not None, "this runs in a container of Modal alone"
    work = modal.Volume.from_name(WORK_VOLUME)
    container = Container(
        vllm_python=VLLM_PYTHON if VLLM_PYTHON.is_file() else None, commit=lambda: work.commit()
    )
    return run_body(packed, call_id, boards(), container)
