"""Reading settings: command line over `AUTOINFER_…` variables over settings files over packaged defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from configs.code_cache import CACHE_FOLDER, default_cache_dir
from configs.data_dir import default_data_dir
from configs.errors import PermissionRefused, UsageError
from configs.language_model import KEY_VARIABLE
from configs.runpod_variables import RUNPOD_VARIABLES
from configs.settings import BELOW_DATA_DIR, ENVIRONMENT_PREFIX, GIVEN_PATHS, Origin, Settings, Source
from configs.validation import first_fault, nearest

SETTINGS_FILE = "autoinfer.toml"
"""The settings file, looked for in the working folder and in the data folder."""

TEST_PREFIX = f"{ENVIRONMENT_PREFIX}TEST_"
"""Variables of our own tests (where to kill a process); no settings."""

_READ_ELSEWHERE = (*RUNPOD_VARIABLES, KEY_VARIABLE)
"""Variables that are no settings, because whoever needs them reads them: secrets, and what stands by one."""

OPTIONS = {"data_dir": "--data-dir", "database_url": "--db"}
"""The command-line options that stand for a setting."""


@dataclass(frozen=True)
class _Layer:
    """The values of one source."""

    source: Source
    values: Mapping[str, object]
    places: Mapping[str, str]


def load_settings(
    command_line: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str],
    working_dir: Path,
    settings_file: Path | None = None,
) -> Settings:
    """The settings of this process.

    `command_line` holds settings by name; None stands for an option that was not given. `settings_file` is
    read in place of `autoinfer.toml` in the working folder. The `autoinfer.toml` in the data folder is read
    as well, under the other; it cannot move the data folder.

    Raises `UsageError` for unknown names and wrong values, saying where they come from, and
    `PermissionRefused` when a settings file may not be read.
    """
    file = working_dir / SETTINGS_FILE if settings_file is None else working_dir / settings_file.expanduser()
    layers = [
        _of_command_line(command_line or {}),
        _of_environment(environment),
        _of_file(file, needed=settings_file is not None),
    ]
    named = next((layer.values["data_dir"] for layer in layers if "data_dir" in layer.values), None)
    root = default_data_dir(environment) if named is None else working_dir / Path(str(named)).expanduser()
    if not _same_file(root / SETTINGS_FILE, file):
        layers.append(_of_data_dir(root))
    return _merged(layers, root, working_dir, default_cache_dir(root, environment))


def _merged(layers: list[_Layer], root: Path, working_dir: Path, cache_dir: Path) -> Settings:
    values: dict[str, object] = {"data_dir": root}
    origins: dict[str, Origin] = {}
    if cache_dir != root / CACHE_FOLDER:
        values["cache_dir"] = cache_dir
        origins["cache_dir"] = Origin(Source.DEFAULT, "for data_dir, in which none can be")
    for layer in reversed(layers):
        for name, value in layer.values.items():
            values[name] = value
            origins[name] = Origin(layer.source, layer.places[name])
    for name in ("data_dir", *GIVEN_PATHS, *BELOW_DATA_DIR):
        # A relative folder is meant from where the user stands, wherever it is written.
        if isinstance(values.get(name), str | Path):
            values[name] = working_dir / Path(str(values[name])).expanduser()
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise _wrong_value(error, origins) from None
    return settings.with_origins(origins)


def _same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _of_command_line(given: Mapping[str, object]) -> _Layer:
    values = {name: value for name, value in given.items() if value is not None}
    for name in values:
        _check_name(name, "the command line")
    places = {name: OPTIONS.get(name, f"--{name.replace('_', '-')}") for name in values}
    for name, value in values.items():
        _refuse_empty(value, f"{places[name]} on the command line")
    return _Layer(Source.COMMAND_LINE, values, places)


def _of_environment(environment: Mapping[str, str]) -> _Layer:
    values, places = {}, {}
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable.startswith(TEST_PREFIX):
            continue
        if variable in _READ_ELSEWHERE:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if variable != variable.upper() or name not in Settings.model_fields:
            known = [f"{ENVIRONMENT_PREFIX}{each.upper()}" for each in Settings.model_fields]
            known += _READ_ELSEWHERE
            raise UsageError(
                f"The environment variable {variable} is no setting of autoinfer.",
                nearest(variable.upper(), known, otherwise="The variables are"),
            )
        _refuse_empty(environment[variable], f"the environment variable {variable}")
        values[name], places[name] = environment[variable], variable
    return _Layer(Source.ENVIRONMENT, values, places)


def _of_data_dir(root: Path) -> _Layer:
    layer = _of_file(root / SETTINGS_FILE)
    if "data_dir" in layer.values:
        raise UsageError(
            f"{root / SETTINGS_FILE} sets data_dir, but lies in the data folder itself.",
            f"Take data_dir out of it; set it in {SETTINGS_FILE} where you work, or as AUTOINFER_DATA_DIR.",
        )
    return layer


def _of_file(path: Path, *, needed: bool = False) -> _Layer:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if needed:
            raise UsageError(f"There is no settings file {path}.", "Check the path.") from None
        values = {}
    except IsADirectoryError:
        raise UsageError(f"The settings file {path} is a folder.", "Name the file in it.") from None
    except PermissionError:
        raise PermissionRefused(f"The settings file {path} may not be read.", "Ask its owner.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The settings file {path} is not valid TOML: {error}.", "Correct it.") from None
    for name, value in values.items():
        _check_name(name, f"the file {path}")
        _refuse_empty(value, f"{name} in the file {path}")
    return _Layer(Source.FILE, values, dict.fromkeys(values, str(path)))


def _check_name(name: str, where: str) -> None:
    if name not in Settings.model_fields:
        raise UsageError(
            f"There is no setting {name!r}, which {where} gives.",
            nearest(name, Settings.model_fields, otherwise="The settings are"),
        )


def _refuse_empty(value: object, what: str) -> None:
    if isinstance(value, str) and not value.strip():
        raise UsageError(f"{what[0].upper()}{what[1:]} is empty.", "Give it a value, or leave it out.")


def _wrong_value(error: ValidationError, origins: Mapping[str, Origin]) -> UsageError:
    place = error.errors(include_url=False)[0]["loc"]
    # A rule that binds two settings has no place of its own; there is one, of lease and look.
    names = [str(place[0])] if place else ["lease_s", "job_poll_s"]
    given = [f"{name} comes from the {origins[name]}" for name in names if name in origins]
    return UsageError(
        f"The settings do not hold: {first_fault(error)}", f"Correct it: {' and '.join(given)}."
    )
