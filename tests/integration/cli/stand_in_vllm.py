"""An environment with vLLM of which only its Python's answer is made up."""

from __future__ import annotations

import json

from tests.integration.cli.command import Autoinfer


def vllm_that_answers(autoinfer: Autoinfer, answer: dict[str, object]) -> None:
    """A Python where `autoinfer engines install vllm` makes one, that gives one answer to all."""
    python = autoinfer.data_dir / "engines" / "vllm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    python.chmod(0o755)
