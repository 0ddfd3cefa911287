"""Where lm-eval is, and its data: an environment of its own, so that its packages never meet an engine's.

The first of these that is there:

1. the Python that `AUTOINFER_LM_EVAL_PYTHON` names (in a job: the setting `lm_eval_python`);
2. `.venv-lm-eval` beside the package's folder or beside this Python's environment;
3. this Python, when lm-eval is installed in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from experiments.engines.port import Infeasible
from experiments.other_python import package_versions, python_with

PYTHON_VARIABLE = "AUTOINFER_LM_EVAL_PYTHON"
"""Environment variable that names the Python with lm-eval."""

DATA_VARIABLE = "AUTOINFER_TASKS_DATA"
"""Environment variable that names a folder with data of tasks, and with tasks of one's own."""

CODE_VARIABLE = "AUTOINFER_RUN_GENERATED_CODE"
"""Environment variable that allows programs that a model wrote to be run here: `true`."""

ENVIRONMENT_NAME = ".venv-lm-eval"

PACKAGE = "lm_eval"

VERSION = "0.4.13"
"""The version that this is written for."""

REQUIREMENTS = (f"lm-eval[ifeval]=={VERSION}", "transformers>=5.5", "psutil")
"""What pip is asked for: lm-eval with the packages of IFEval's checks, what reads a chat template, and what
lets its process end with its parent."""

PACKAGES = (PACKAGE, "datasets", "transformers")
"""Packages whose versions may change an item or its score; they go into an evaluation's key."""

HOW_TO_INSTALL = (
    "make an environment with `autoinfer engines install lm-eval`, or install "
    f"{', '.join(REQUIREMENTS)} anywhere and set {PYTHON_VARIABLE} to its Python"
)


def lm_eval_python(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The Python that has lm-eval, None when none is found.

    Raises:
        Infeasible: kind `not_installed`, when the variable names no file.
    """
    return python_with(
        PACKAGE, environment.get(PYTHON_VARIABLE), PYTHON_VARIABLE, ENVIRONMENT_NAME, HOW_TO_INSTALL
    )


def needed_python() -> Path:
    """As `lm_eval_python`; raises `Infeasible`, kind `unsupported`, when there is none."""
    python = lm_eval_python()
    if python is None or tool_versions(python).get(PACKAGE) is None:
        where = "on this machine" if python is None else f"at {python}"
        raise Infeasible(
            "unsupported", f"Quality tasks need the package lm-eval, which is not {where}: {HOW_TO_INSTALL}."
        )
    return python


def tool_versions(python: Path) -> Mapping[str, str | None]:
    """The versions of the packages that make and score items in that Python; None for those it lacks."""
    return package_versions(python, PACKAGES)


def data_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The user's folder with data of tasks; None where none is named.

    Raises:
        Infeasible: kind `unsupported`, when the variable names no folder.
    """
    named = environment.get(DATA_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise Infeasible("unsupported", f"{DATA_VARIABLE} names {named}, which is no folder.")
    return folder


def may_run_code(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether programs that a model wrote may be run on this machine."""
    return environment.get(CODE_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")
