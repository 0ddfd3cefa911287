"""`docs/dashboard.md` names every page, key and figure of the dashboard, and shows it in both themes."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.app import PAGES
from dashboard.navigation import ENTRIES
from dashboard.web.metrics import prometheus
from dashboard.web.timing import Timings
from experiments.telemetry.history import DeviceHistory
from experiments.telemetry.reading import DeviceKind, DeviceReading
from knowledge.queries.vitals import vitals
from tests.new_database import new_database
from tests.pictures import FOLDER, MOST_BYTES, THEMES, pictures, told_in

PAGE = (FOLDER.parent / "dashboard.md").read_text(encoding="utf-8")

WHOLE = DeviceHistory(
    "desk",
    (
        (
            datetime(2026, 11, 22, tzinfo=UTC),
            DeviceReading("cuda:0", DeviceKind.GPU, "Some GPU", 1.0, 1, 2, 3.0, 4.0, 5.0, 6.0, 7.0, ()),
        ),
    ),
)
"""A device that reports everything."""

README = (FOLDER.parents[1] / "README.md").read_text(encoding="utf-8")
SHOWN = [each.name for each in pictures("E-0001", "H-001", "E-0002")]


def test_every_page_has_a_line_with_its_address_and_its_command() -> None:
    rows = re.findall(r"^\| ([^|]+) \| `(/[^`]*)` \| [^|]+ \| `autoinfer ", PAGE, re.MULTILINE)
    assert len(rows) == len(PAGES)
    for page in PAGES:
        at = re.sub(r"\\{\w+\\}", r"[A-Z]-\\d+", re.escape(page.path))
        assert any(title == page.title and re.match(rf"{at}(\?|$)", path) for title, path in rows), page.title


def test_every_letter_and_every_figure_is_told(tmp_path: Path) -> None:
    for entry in ENTRIES:
        assert f"`{entry.letter}` {entry.title}" in PAGE
    with closing(new_database(tmp_path)) as database, database.read() as session:
        text = prometheus(vitals(session), 0, Timings(), [WHOLE])
    families = re.findall(r"# TYPE (\w+)", text)
    assert len(families) > 15
    for family in families:
        assert f"`{family}`" in PAGE


@pytest.mark.parametrize("name", SHOWN)
def test_every_picture_is_there_in_both_themes_and_shown(name: str) -> None:
    for theme in THEMES:
        assert (FOLDER / f"{name}-{theme}.webp").stat().st_size > 0
        assert f"pictures/{name}-{theme}.webp" in PAGE


def test_the_pictures_are_small_together_and_none_is_left_over() -> None:
    files = list(FOLDER.iterdir())
    assert {each.name for each in files} == {f"{name}-{theme}.webp" for name in SHOWN for theme in THEMES}
    assert sum(each.stat().st_size for each in files) <= MOST_BYTES


def test_the_readme_shows_the_now_page_in_both_themes() -> None:
    for theme in THEMES:
        assert f"docs/pictures/now-{theme}.webp" in README


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://127.0.0.1:8420 of reference", []),
        ("at 10.1.2.3, port 80", ["10.1.2.3"]),
        ("in /home/me/data now", ["/home/me/data"]),
        ("desk/cpu#12 ended", ["desk"]),
    ],
)
def test_a_picture_that_tells_of_its_machine_is_refused(text: str, told: list[str]) -> None:
    assert told_in(text, [("desk", "HOST")]) == told
