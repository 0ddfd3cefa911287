from __future__ import annotations

import os
from pathlib import Path

import pytest

from configs.code_cache import default_cache_dir
from configs.data_dir import default_data_dir
from configs.errors import PermissionRefused, UsageError
from configs.settings import Settings, Source, without_password
from configs.settings_sources import load_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def load(
    home: Path,
    command_line: dict[str, object] | None = None,
    file: str | None = None,
    data_file: str | None = None,
    settings_file: Path | None = None,
    **variables: str,
) -> Settings:
    """Settings as a process under `home` with these sources would have them, working in `home/work`."""
    if file is not None:
        (home / "work" / "autoinfer.toml").write_text(file, encoding="utf-8")
    if data_file is not None:
        folder = home / ".local" / "share" / "autoinfer"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "autoinfer.toml").write_text(data_file, encoding="utf-8")
    return load_settings(
        command_line,
        environment={"HOME": str(home), "PATH": "/bin", **variables},
        working_dir=home / "work",
        settings_file=settings_file,
    )


def test_each_source_yields_to_the_one_above(home: Path) -> None:
    default = load(home)
    in_data = load(home, data_file="stage_limit_s = 10")
    in_file = load(home, file="stage_limit_s = 20")
    in_environment = load(home, AUTOINFER_STAGE_LIMIT_S="30")
    on_line = load(home, {"stage_limit_s": 40}, AUTOINFER_STAGE_LIMIT_S="30")
    found = [s.stage_limit_s for s in (default, in_data, in_file, in_environment, on_line)]
    assert found == [None, 10, 20, 30, 40]
    origins = [
        s.origins()["stage_limit_s"] for s in (default, in_data, in_file, in_environment, on_line)
    ]  # fmt: skip
    assert [origin.source for origin in origins] == [
        Source.DEFAULT, Source.FILE, Source.FILE, Source.ENVIRONMENT, Source.COMMAND_LINE,
    ]  # fmt: skip
    assert [origin.place for origin in origins] == [
        "packaged",
        str(home / ".local/share/autoinfer/autoinfer.toml"),
        str(home / "work/autoinfer.toml"),
        "AUTOINFER_STAGE_LIMIT_S",
        "--stage-limit-s",
    ]


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_can_come_from_the_environment(home: Path, name: str) -> None:
    value = {
        "lease_s": "40",
        "database_url": "sqlite:////tmp/x.db",
        "run_generated_code": "True",
        "unnamed_gpu_memory": "3GB",
    }.get(name)
    value = value or ("3" if name.endswith("_s") else str(home / "elsewhere"))
    settings = load(home, **{f"AUTOINFER_{name.upper()}": value})
    assert str(settings.model_dump(mode="json")[name]).removesuffix(".0") == value
    assert settings.origins()[name].source is Source.ENVIRONMENT
    others = {each: origin.source for each, origin in settings.origins().items() if each != name}
    assert set(others) == set(Settings.model_fields) - {name}
    assert set(others.values()) == {Source.DEFAULT}


def test_an_option_that_was_not_given_yields(home: Path) -> None:
    settings = load(home, {"data_dir": None, "database_url": None}, AUTOINFER_DATA_DIR=str(home / "d"))
    assert settings.data_dir == home / "d"


def test_moving_the_data_dir_moves_all_state(home: Path) -> None:
    settings = load(home, AUTOINFER_DATA_DIR=str(home / "d"))
    assert settings.database_url == f"sqlite:///{home}/d/autoinfer.db"
    places = [settings.artifacts_dir, settings.cache_dir, settings.log_dir]
    assert places == [home / "d/artifacts", home / "d/cache", home / "d/logs"]
    assert str(settings.origins()["artifacts_dir"]) == "default (in data_dir)"


def test_a_relative_folder_is_meant_from_where_the_user_stands(home: Path) -> None:
    settings = load(home, {"data_dir": "here"}, AUTOINFER_CACHE_DIR="cache")
    assert settings.data_dir == home / "work/here"
    assert settings.cache_dir == home / "work/cache"


def test_a_named_settings_file_replaces_the_one_in_the_working_folder(home: Path) -> None:
    own = home / "own.toml"
    own.write_text("stage_limit_s = 77", encoding="utf-8")
    settings = load(home, file="stage_limit_s = 20\nload_limit_s = 21", settings_file=own)
    assert (settings.stage_limit_s, settings.load_limit_s) == (77, 900)
    with pytest.raises(UsageError, match="There is no settings file"):
        load(home, settings_file=home / "none.toml")


def test_the_default_data_dir_follows_the_platform() -> None:
    assert default_data_dir({"HOME": "/h"}, "linux") == Path("/h/.local/share/autoinfer")
    assert default_data_dir({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "linux") == Path("/x/autoinfer")
    relative = {"HOME": "/h", "XDG_DATA_HOME": "x"}
    assert default_data_dir(relative, "linux") == Path("/h/.local/share/autoinfer")
    assert default_data_dir({"HOME": "/h"}, "darwin") == Path("/h/Library/Application Support/autoinfer")


@pytest.mark.parametrize(
    ("sources", "said", "hint"),
    [
        ({"AUTOINFER_LEAS_S": "1"}, "variable AUTOINFER_LEAS_S is no setting", "AUTOINFER_LEASE_S"),
        ({"AUTOINFER_lease_s": "1"}, "variable AUTOINFER_lease_s is no setting", "AUTOINFER_LEASE_S"),
        ({"AUTOINFER_DATA_DIR": " "}, "variable AUTOINFER_DATA_DIR is empty", "leave it out"),
        ({"AUTOINFER_LEASE_S": "soon"}, "lease_s is 'soon'", "environment (AUTOINFER_LEASE_S)"),
        ({"AUTOINFER_LEASE_S": "inf"}, "lease_s is 'inf'", "environment (AUTOINFER_LEASE_S)"),
        ({"AUTOINFER_STAGE_LIMIT_S": "-1"}, "stage_limit_s is '-1'", "(AUTOINFER_STAGE_LIMIT_S)"),
        (
            {"AUTOINFER_UNNAMED_GPU_MEMORY": "3"},
            "unnamed_gpu_memory is '3': '3' is no size of memory. Write a number and MB or GB, such as 8GB.",
            "environment (AUTOINFER_UNNAMED_GPU_MEMORY)",
        ),
        ({"AUTOINFER_JOB_POLL_S": "11"}, "at least three looks", "job_poll_s comes from the env"),
        ({"command_line": {"leas_s": 1}}, "no setting 'leas_s', which the command line gives", "lease_s"),
        ({"command_line": {"lease_s": "x"}}, "lease_s is 'x'", "command line (--lease-s)"),
        ({"command_line": {"database_url": ""}}, "--db on the command line is empty", "leave it out"),
        ({"file": "leas_s = 1"}, "no setting 'leas_s', which the file ", "lease_s"),
        ({"file": "lease_s = [1]"}, "lease_s: it must be a number", "autoinfer.toml"),
        ({"file": "lease_s = "}, "is not valid TOML", "Correct it"),
        ({"file": "data_dir = 5"}, "data_dir", "autoinfer.toml"),
        ({"data_file": "data_dir = '/x'"}, "lies in the data folder itself", "AUTOINFER_DATA_DIR"),
    ],
)
def test_a_wrong_setting_is_told_with_where_it_comes_from(
    home: Path, sources: dict[str, object], said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load(home, **sources)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    assert said in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_settings_file_that_may_not_be_read_is_told_so(home: Path) -> None:
    path = home / "work" / "autoinfer.toml"
    path.write_text("", encoding="utf-8")
    path.chmod(0)
    with pytest.raises(PermissionRefused, match="may not be read"):
        load(home)


def test_variables_of_other_programs_and_of_our_tests_are_left_alone(home: Path) -> None:
    assert load(home, AUTOINFERX="1", AUTOINFER_TEST_KILL_AT="after-claim") == load(home)
    assert load(home, AUTOINFER_RUNPOD_BOARD="postgresql://board") == load(home)


def test_a_child_process_gets_the_same_settings(home: Path) -> None:
    parent = load(home, {"data_dir": home / "d", "lease_s": 60}, file="log_poll_s = 2")
    child = load_settings(environment=parent.as_environment(), working_dir=Path("/"))
    assert child.model_dump() == parent.model_dump()


def test_a_password_is_not_shown(home: Path) -> None:
    assert (
        without_password("postgresql://h/x?user=me&password=secret")
        == "postgresql://h/x?user=me&password=***"
    )
    url = "postgresql+psycopg://me:secret@db.example:5432/x"
    settings = load(home, AUTOINFER_DATABASE_URL=url)
    assert settings.database_url == url
    assert settings.shown()["database_url"] == "postgresql+psycopg://me:***@db.example:5432/x"
    assert without_password("sqlite:////home/me/a.db") == "sqlite:////home/me/a.db"


def test_settings_made_directly_read_neither_environment_nor_files(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOINFER_LEASE_S", "999")
    monkeypatch.chdir(home / "work")
    (home / "work" / "autoinfer.toml").write_text("load_limit_s = 999", encoding="utf-8")
    settings = Settings(data_dir=home / "d")
    assert (settings.lease_s, settings.load_limit_s) == (30, 900)
    assert settings.artifacts_dir == home / "d" / "artifacts"


def test_compiled_code_of_a_data_folder_that_compilers_can_t_be_handed_lies_among_the_users_caches(
    tmp_path: Path,
) -> None:
    def cache_of(data_dir: str, **variables: str) -> Settings:
        environment = {"HOME": "/h", "AUTOINFER_DATA_DIR": data_dir, **variables}
        return load_settings(environment=environment, working_dir=tmp_path)

    assert cache_of("/d/here").cache_dir == Path("/d/here/cache")
    beside = cache_of("/d/My Documents")
    assert beside.cache_dir.parent == Path("/h/.cache/autoinfer")
    assert str(beside.origins()["cache_dir"]) == "default (for data_dir, in which none can be)"
    assert beside.log_dir == Path("/d/My Documents/logs")
    assert beside.cache_dir == cache_of("/d/My Documents").cache_dir
    assert beside.cache_dir != cache_of("/d/Her Documents").cache_dir
    assert cache_of("/d/a'b", XDG_CACHE_HOME="/c").cache_dir.parent == Path("/c/autoinfer")
    assert cache_of("/d/a b", HOME="/my home").cache_dir == Path("/d/a b/cache")
    assert cache_of("/d/a b", AUTOINFER_CACHE_DIR="/e").cache_dir == Path("/e")


def test_the_default_cache_dir_follows_the_platform() -> None:
    data_dir = default_data_dir({"HOME": "/h"}, "darwin")
    cache_dir = default_cache_dir(data_dir, {"HOME": "/h", "XDG_CACHE_HOME": "/c"}, "darwin")
    assert cache_dir.parent == Path("/h/Library/Caches/autoinfer")
