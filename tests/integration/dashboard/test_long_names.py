"""A long name without a space, as a process may have, on a phone: it breaks, and nothing scrolls sideways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from db import events
from db.event_kinds import EventKind
from db.labels import Noun, format_label
from db.models import Campaign
from tests.history.campaign_history import a_full_history
from tests.integration.dashboard.accessibility import sideways
from tests.integration.dashboard.browser import Theme, browser
from tests.integration.dashboard.serving import serving

__all__ = ["browser"]

PROCESS = "a_process_whose_name_has_fifty_characters_and_no_end"
WORDS = f"process 7 ({PROCESS}) holds 9.0 GB. cuda:1 rests"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("rests")
    history = a_full_history(folder)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, history.campaign_id)
        campaign.spec = {**campaign.spec, "target": "cuda:0,cuda:1"}
        label = format_label(Noun.CAMPAIGN, history.campaign_id)
        data = {"device": "cuda:1", "in_a_row": 1}
        events.append(session, EventKind.CAMPAIGN_DEVICE_RESTS, WORDS, label, history.campaign_id, data)
    history.close()
    with serving(folder) as found:
        yield found


@pytest.mark.parametrize("theme", ["dark", pytest.param("light", marks=pytest.mark.bench_only)])
@pytest.mark.parametrize("path", ["/", "/campaigns/C-1?story=true", "/log"])
def test_a_long_name_of_a_process_breaks_on_a_phone(
    browser: Browser, address: str, path: str, theme: Theme
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{address}{path}")
    expect(page.get_by_text(PROCESS).first).to_be_visible()
    assert sideways(page) == []
    context.close()
