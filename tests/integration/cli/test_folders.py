"""`autoinfer run` writes where its worker will write before it begins a campaign."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.integration.cli.command import Autoinfer


@pytest.mark.parametrize("name", ["jobs", "logs", "artifacts", "cache"])
def test_a_folder_that_can_t_be_written_is_told_before_the_campaign(autoinfer: Autoinfer, name: str) -> None:
    autoinfer.data_dir.mkdir(exist_ok=True)
    (autoinfer.data_dir / name).write_text("a file in the way")
    ran = autoinfer("run")
    assert ran.code != 0
    assert f"{autoinfer.data_dir / name}, where " in ran.err
    assert "is no folder" in ran.err
    with closing(sqlite3.connect(autoinfer.data_dir / "autoinfer.db")) as database:
        assert database.execute("SELECT count(*) FROM campaign").fetchone() == (0,)


def test_a_cache_that_no_compiler_can_be_handed_is_told_before_a_campaign_on_a_processor(
    autoinfer: Autoinfer, tmp_path: Path
) -> None:
    ran = autoinfer("run --target cpu", AUTOINFER_CACHE_DIR=str(tmp_path / "my cache"))
    assert ran.code == 2
    assert "my cache" in ran.err
    assert "Set AUTOINFER_CACHE_DIR to a folder whose path has no space" in ran.err
    assert autoinfer("campaign list --json").json()["items"] == []
