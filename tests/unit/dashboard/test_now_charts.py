"""The charts of the Now page: the waterfall's bars with their labels, and the small glyph of an effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dashboard.charts.glyph import Scale, glyph, scale_of
from dashboard.charts.waterfall import Segment, ends, step
from knowledge.queries.view import EffectView

CSS = Path(__file__).parents[3] / "dashboard/static/css"

LEAST_CONTRAST = 4.5
"""Of small text, by level AA of WCAG 2.2."""


def test_an_end_lays_its_segments_one_after_the_other_over_its_whole_time() -> None:
    bars = ends([Segment(2.0, "w-floor", "floor 2"), Segment(6.0, "w-o1", "GEMM")], most_ms=10.0)
    assert [bar.x for bar in bars] == pytest.approx([0.0, 20.0])
    assert bars[-1].x + bars[-1].width == pytest.approx(80.0, abs=0.2)
    assert [bar.label for bar in bars] == ["floor 2", "GEMM"]


def test_a_label_is_written_where_its_own_bar_holds_it_and_on_a_phone_where_that_one_does() -> None:
    python = Segment(16.3, "w-o1", "outside the parts: Python, dispatch 16.3")
    dispatch, gdn, rest = ends([python, Segment(11.7, "w-o2", "GDN 11.7"), Segment(12.0, "w-o3")], 40.0)
    assert [dispatch.label, gdn.label, rest.label] == ["", "GDN 11.7", ""]
    (short,) = ends([Segment(8.0, "w-o1", "9.55 above")], most_ms=40.0)
    assert (short.label, short.is_narrow) == ("9.55 above", False)
    (long,) = ends([Segment(30.0, "w-o1", "9.55 above")], most_ms=40.0)
    assert long.is_narrow


def test_a_step_won_ends_where_the_next_begins() -> None:
    ghost, won = step(10.0, 4.0, most_ms=10.0)
    assert (ghost.width, won.x, won.width, won.shade) == pytest.approx((40.0, 40.0, 60.0, "w-won"))
    _, following = step(4.0, 3.0, most_ms=10.0)
    assert following.x + following.width == pytest.approx(won.x)


def test_a_step_that_made_it_slower_is_told_apart() -> None:
    _, lost = step(4.0, 5.0, most_ms=10.0)
    assert (lost.x, lost.width, lost.shade) == pytest.approx((40.0, 10.0, "w-lost"))


def test_all_effects_of_a_list_share_a_scale_that_holds_them_and_no_effect() -> None:
    effects = [
        EffectView(relative=-0.09, low=-0.24, high=0.08),
        EffectView(relative=-0.03, low=-0.048, high=-0.004),
    ]
    scale = scale_of(effects, min_effect=0.03)
    assert (scale.low, scale.high) == pytest.approx((-0.24, 0.08))
    marks = [glyph(each, 0.03, scale) for each in effects]
    assert marks[0].zero == marks[1].zero == 75.0
    assert marks[0].least < marks[0].zero
    assert (marks[0].low, marks[0].high) == (0.0, 100.0)
    assert marks[1].low < marks[1].middle < marks[1].high < marks[1].zero


def test_what_lies_beyond_the_scale_is_drawn_to_its_edge() -> None:
    scale = Scale(-0.1, 0.1)
    assert (scale.place(5.0), scale.place(-5.0)) == (100.0, 0.0)
    assert scale_of([EffectView(relative=4.0, low=1.0, high=9.0)]).high < 1.0
    assert scale_of([]).low < 0 < scale_of([]).high


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("place", range(1, 6))
@pytest.mark.parametrize("sheet", ["now.css", "report.css"])
def test_what_is_written_on_a_bar_can_be_read_in_both_themes(sheet: str, place: int, theme: int) -> None:
    rules = re.findall(r"([^{}]*)\{ fill: var\((--[\w-]+)\); \}", (CSS / sheet).read_text())
    (ink,) = [name for selectors, name in rules if f".wt-w-o{place}" in selectors]
    assert contrast(colour(ink, theme), colour(f"--over-{place}", theme)) >= LEAST_CONTRAST


def colour(name: str, theme: int) -> str:
    """A token's colour in the light theme (0) or the dark one (1)."""
    told = re.search(rf"^  {name}: (.*);$", (CSS / "tokens.css").read_text(), re.MULTILINE)
    assert told is not None
    found = re.findall(r"#[0-9a-f]{6}", told[1])
    return str(found[min(theme, len(found) - 1)])


def contrast(one: str, other: str) -> float:
    """The ratio of two colours' relative luminances (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(hexadecimal: str) -> float:
    shares = [int(hexadecimal[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
