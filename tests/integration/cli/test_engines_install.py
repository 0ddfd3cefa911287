"""`autoinfer engines install` leaves environments alone that somebody else made. Nothing is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.command import Autoinfer
from tests.integration.cli.test_bad_input import told


@pytest.mark.parametrize(
    ("engine", "setting", "variable"),
    [
        ("vllm", "vllm_python", "AUTOINFER_VLLM_PYTHON"),
        ("quantize", "quantize_python", "AUTOINFER_QUANTIZE_PYTHON"),
        ("lm-eval", "lm_eval_python", "AUTOINFER_LM_EVAL_PYTHON"),
    ],
)
def test_a_user_s_own_environment_is_not_installed_into(
    engine: str, setting: str, variable: str, autoinfer: Autoinfer, tmp_path: Path
) -> None:
    """Its Python would tell that it was called: an installation calls it first of all."""
    python, called = tmp_path / "mine" / "bin" / "python", tmp_path / "called"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n")
    python.chmod(0o755)
    (tmp_path / "mine" / "pyvenv.cfg").touch()
    done = autoinfer(f"engines install {engine}", **{variable: str(python)})
    told(done, 2, f"{setting} names {python}, which was not made here", f"{python} -m pip install")
    assert not called.exists()
    assert sorted(each.name for each in (tmp_path / "mine").iterdir()) == ["bin", "pyvenv.cfg"]


def test_what_quantizes_and_what_makes_tasks_have_no_versions_to_choose(autoinfer: Autoinfer) -> None:
    told(autoinfer("engines install quantize --version 0.13"), 2, "has no --version")
    told(autoinfer("engines install lm-eval --gpu"), 2, "lm-eval has no --version, --cpu or --gpu")
