"""From the command line's context to settings and an open database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cli.console.options import GlobalOptions

DATABASE_VARIABLE = "AUTOINFER_DATABASE_URL"
"""The variable of the setting `database_url`, by which a URL with a password goes to a process started here:
everybody on a machine may read command lines, and nobody else an environment."""

VLLM_PYTHON_VARIABLE = "AUTOINFER_VLLM_PYTHON"
"""The variable of the setting `vllm_python`; see `experiments/engines/vllm/environment.py`."""

QUANTIZE_PYTHON_VARIABLE = "AUTOINFER_QUANTIZE_PYTHON"
"""The variable of the setting `quantize_python`; see `experiments/stages/quantize/environment.py`."""

LM_EVAL_PYTHON_VARIABLE = "AUTOINFER_LM_EVAL_PYTHON"
TASKS_DATA_VARIABLE = "AUTOINFER_TASKS_DATA"
GENERATED_CODE_VARIABLE = "AUTOINFER_RUN_GENERATED_CODE"
"""The variables of settings that quality tasks go by; see `experiments/quality_tasks/environment.py`."""

UNNAMED_GPU_VARIABLE = "AUTOINFER_UNNAMED_GPU_MEMORY"
"""The variable of the setting `unnamed_gpu_memory`; see `experiments/job/unnamed_memory.py`."""

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from configs.settings import Settings
    from db.session import Database


def global_options(ctx: typer.Context) -> GlobalOptions:
    """Return what was given for every command."""
    found = ctx.find_object(GlobalOptions)
    return found if found is not None else GlobalOptions()


def settings_of(ctx: typer.Context) -> Settings:
    """Read the settings of this process, the global options first.

    Raises `UsageError` for a name or value that does not hold, saying where it comes from.
    """
    from configs.settings_sources import load_settings

    options = global_options(ctx)
    _check_no_password(options.db)
    settings = load_settings(
        {"data_dir": options.data_dir, "database_url": options.db},
        environment=os.environ,
        working_dir=Path.cwd(),
        settings_file=options.config,
    )
    if settings.vllm_python.is_file():  # an engine is made by its name alone and finds it here
        os.environ[VLLM_PYTHON_VARIABLE] = str(settings.vllm_python)
    if settings.quantize_python.is_file():  # a plan and a campaign look there before anything is measured
        os.environ[QUANTIZE_PYTHON_VARIABLE] = str(settings.quantize_python)
    if settings.lm_eval_python.is_file():
        os.environ[LM_EVAL_PYTHON_VARIABLE] = str(settings.lm_eval_python)
    if settings.tasks_data is not None:
        os.environ[TASKS_DATA_VARIABLE] = str(settings.tasks_data)
    if settings.run_generated_code:
        os.environ[GENERATED_CODE_VARIABLE] = "true"
    if settings.unnamed_gpu_memory is not None:
        os.environ[UNNAMED_GPU_VARIABLE] = settings.unnamed_gpu_memory
    return settings


def same_settings(ctx: typer.Context, settings: Settings) -> list[str]:
    """Return the words that start another `autoinfer` with these settings; a command follows them."""
    words = [sys.executable, "-P", "-m", "cli", "--data-dir", str(settings.data_dir)]
    if settings.shown()["database_url"] == settings.database_url:
        words += ["--db", settings.database_url]
    else:
        os.environ[DATABASE_VARIABLE] = settings.database_url
    config = global_options(ctx).config
    return words if config is None else [*words, "--config", str(config.resolve())]


def _check_no_password(url: str | None) -> None:
    from configs.errors import UsageError
    from configs.settings import without_password

    if url is not None and without_password(url) != url:
        raise UsageError(
            f"--db {without_password(url)} carries a password, which everybody on this "
            "machine can read in the list of processes.",
            "Leave it out and give it by PGPASSWORD or the file that PGPASSFILE names, or set the URL as "
            f"{DATABASE_VARIABLE}.",
        )


@contextmanager
def database_of(
    ctx: typer.Context, *, create: bool = False, upgrade: bool = False, reads_when_full: bool = False
) -> Iterator[Database]:
    """Open the database of the settings, and close it at the end; options and errors as in
    `open_database`."""
    from cli.console.still_paid import tell_still_paid
    from db.session import open_database

    url = settings_of(ctx).database_url
    database = open_database(url, create=create, upgrade=upgrade, reads_when_full=reads_when_full)
    try:
        tell_still_paid(ctx, database)
        yield database
    finally:
        database.close()


@contextmanager
def reading(ctx: typer.Context) -> Iterator[Session]:
    """Open the database, also on a full disk, and a session that reads it."""
    with database_of(ctx, reads_when_full=True) as database, database.read() as session:
        yield session


@contextmanager
def writing(ctx: typer.Context, *, create: bool = False) -> Iterator[Session]:
    """Open the database, which `create` makes where there is none, and a session in a write transaction."""
    with database_of(ctx, create=create) as database, database.write() as session:
        yield session
