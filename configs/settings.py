"""Settings: how autoinfer runs on this machine. What a campaign looks for is in `configs.campaign`.

A value comes from the command line, else from an `AUTOINFER_…` variable, else from a settings file, else from
the packaged default; `configs.settings_sources.load_settings` reads them and `Settings.origins` tells which.
Settings are passed to whatever needs them, never read as globals.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field, PrivateAttr, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from configs.code_cache import CACHE_FOLDER
from configs.errors import UsageError
from configs.limits import LOAD_LIMIT_S
from configs.quantities import parse_bytes

ENVIRONMENT_PREFIX = "AUTOINFER_"
"""What the name of every environment variable of autoinfer begins with."""

DATABASE_FILE = "autoinfer.db"
"""The SQLite file in the data folder."""

BELOW_DATA_DIR = {
    "artifacts_dir": "artifacts",
    "cache_dir": CACHE_FOLDER,
    "log_dir": "logs",
    "quantize_python": "quantize/bin/python",
    "vllm_python": "engines/vllm/bin/python",
    "lm_eval_python": "lm-eval/bin/python",
}
"""Folders and files that lie in the data folder unless they are given, and their names there."""

GIVEN_PATHS = ("tasks_data", "dashboard_token_file")
"""Folders and files that are nowhere unless they are given."""

LOOKS_IN_A_LEASE = 3
"""Looks of a worker at its job that a lease must hold: it is extended at a look, and two may be late or lost
before the job is taken away."""


_ADDRESSES = ("database_url", "llm_base_url")
"""Settings that may hold a password, which is not shown."""

_PASSWORD_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&]*")


class Source(StrEnum):
    """Where a setting's value comes from, the strongest first."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True)
class Origin:
    """A value's source, and the option, variable or file in it.

    A default is either packaged or follows from `data_dir`.
    """

    source: Source
    place: str

    def __str__(self) -> str:
        return f"{self.source} ({self.place})"


class Settings(BaseSettings):
    """Every setting; frozen. Made directly, it takes the values it is given and defaults for the rest."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, validate_default=True
    )

    data_dir: Path = Field(description="The folder that holds all state; moving it moves everything below.")
    database_url: str = Field(
        default="",
        description="The database, as an SQLAlchemy URL; by default a SQLite file in the data folder.",
    )
    artifacts_dir: Path = Field(
        default=Path(), description="Where the outputs of stages are stored, by content; in the data folder."
    )
    artifacts: str | None = Field(
        default=None,
        description="A store of artifacts that hosts share: a folder that all of them see, or s3://bucket/prefix.",
    )
    cache_dir: Path = Field(
        default=Path(),
        description="Compiled code and other things that can be made again; in the data folder.",
    )
    log_dir: Path = Field(
        default=Path(), description="The logs of the worker and the dashboard; in the data folder."
    )
    quantize_python: Path = Field(
        default=Path(),
        description="The Python that has llmcompressor; in the data folder.",
    )
    vllm_python: Path = Field(
        default=Path(),
        description="The Python that has vLLM; in the data folder.",
    )
    lm_eval_python: Path = Field(
        default=Path(),
        description="The Python that has lm-eval; in the data folder.",
    )
    tasks_data: Path | None = Field(
        default=None,
        description="A folder with data of quality tasks, and with tasks of your own.",
    )
    dashboard_token_file: Path | None = Field(
        default=None,
        description="A file with a token that opens the dashboard from other machines.",
    )
    llm_base_url: str | None = Field(
        default=None,
        description="Where the language model that proposes is asked, such as http://127.0.0.1:8000/v1.",
    )
    llm_model: str | None = Field(
        default=None,
        description="What the language model that proposes is called there.",
    )
    run_generated_code: bool = Field(
        default=False,
        description="Whether quality tasks may run programs that a model wrote, on this machine, as you.",
    )
    unnamed_gpu_memory: str | None = Field(
        default=None,
        description="Memory of a GPU that may be held though the driver names no process, such as 3GB for a "
        "desktop; about 1 GB if not given.",
    )
    lease_s: float = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds after its last heartbeat until a worker's job is given to another worker; it "
        "beats three times in them.",
    )
    load_limit_s: float = Field(
        default=LOAD_LIMIT_S,
        gt=0,
        allow_inf_nan=False,
        description="Seconds an engine process may take to load a checkpoint and compile.",
    )
    stage_limit_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds any stage of an experiment may take before it is ended; not given, each kind of "
        "stage has a limit of its own.",
    )
    queue_poll_s: float = Field(
        default=0.1,
        gt=0,
        allow_inf_nan=False,
        description="Seconds between two looks of an idle worker into the queue.",
    )
    job_poll_s: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds between two looks of a worker at its running job, at most a third of the lease; "
        "its end is noticed at once.",
    )
    log_poll_s: float = Field(
        default=0.5,
        gt=0,
        allow_inf_nan=False,
        description="Seconds between two looks of `autoinfer log --follow` for new events.",
    )

    _origins: dict[str, Origin] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _below_data_dir(cls, data: object) -> object:
        """Whatever is not given and lies in the data folder follows from it."""
        if not isinstance(data, dict) or not isinstance(data.get("data_dir"), str | Path):
            return data
        filled = dict(data)
        root = filled["data_dir"] = _absolute(data["data_dir"])
        for name, place in BELOW_DATA_DIR.items():
            filled[name] = _absolute(data[name]) if data.get(name) not in (None, "") else root / place
        for name in GIVEN_PATHS:
            if filled.get(name):
                filled[name] = _absolute(filled[name])
        if filled.get("artifacts") and "://" not in str(filled["artifacts"]):
            filled["artifacts"] = str(_absolute(filled["artifacts"]))
        filled["database_url"] = data.get("database_url") or f"sqlite:///{root / DATABASE_FILE}"
        return filled

    @field_validator("unnamed_gpu_memory")
    @classmethod
    def _is_a_size(cls, text: str | None) -> str | None:
        """Kept as it is written, for other processes are given it so."""
        if text is not None:
            try:
                parse_bytes(text)
            except UsageError as error:
                raise ValueError(f"{error.message} {error.hint}") from None
        return text

    @model_validator(mode="after")
    def _looks_fit_the_lease(self) -> Settings:
        if self.job_poll_s * LOOKS_IN_A_LEASE > self.lease_s:
            raise ValueError(
                f"job_poll_s is {self.job_poll_s:g} and lease_s {self.lease_s:g}: a worker extends its lease "
                "when it looks at its job, so a lease must hold at least three looks"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed: the environment is read where it is passed in too, by `load_settings`."""
        return (init_settings,)

    def origins(self) -> Mapping[str, Origin]:
        """Where each value comes from, by setting; known to settings that `load_settings` read."""
        defaults = {name: self.default_origin(name) for name in type(self).model_fields}
        return MappingProxyType({**defaults, **self._origins})

    @staticmethod
    def default_origin(name: str) -> Origin:
        """The origin of a value that nobody gave."""
        follows = name in BELOW_DATA_DIR or name == "database_url"
        return Origin(Source.DEFAULT, "in data_dir" if follows else "packaged")

    def with_origins(self, origins: Mapping[str, Origin]) -> Settings:
        """The same values with their origins."""
        copy = self.model_copy()
        copy._origins = dict(origins)
        return copy

    def shown(self) -> dict[str, str | float | bool | None]:
        """The values as they may be shown: paths as text, passwords of URLs as `***`."""
        values = self.model_dump(mode="json")
        shown = {name: without_password(str(values[name])) for name in _ADDRESSES if values[name]}
        return values | shown

    def as_environment(self) -> dict[str, str]:
        """The variables that give a process started from here the same settings."""
        values = self.model_dump(mode="json")
        return {
            f"{ENVIRONMENT_PREFIX}{name.upper()}": str(value)
            for name, value in values.items()
            if value is not None
        }


def without_password(url: str) -> str:
    """The URL with `***` for its password, before its host or among its parameters."""
    url = _PASSWORD_PARAMETER.sub(r"\1***", url)
    try:
        parts = urlsplit(url)
        if parts.password is None:
            return url
    except ValueError:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{user.partition(':')[0]}:***@{host}"))


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()
