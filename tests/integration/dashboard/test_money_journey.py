"""A budget is set, a price approved and a change typed in a browser, while the page is pushed anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.history.paid_history import a_paid_history
from tests.integration.dashboard.accessibility import faults_of, faults_of_looks, sideways
from tests.integration.dashboard.browser import browser, looking
from tests.integration.dashboard.serving import serving

__all__ = ["browser"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_money_is_steered_from_the_costs_page_and_no_push_takes_away_what_is_typed(
    browser: Browser, tmp_path: Path
) -> None:
    a_paid_history(tmp_path).close()
    with serving(tmp_path) as address, looking(browser, address) as (page, complaints):
        page.goto(address + "/costs")
        page.get_by_text("Set a budget", exact=True).click()
        form = page.locator("#co-new form")
        form.get_by_label("Which").fill("modal:L4")
        form.get_by_label("Limit, dollars").fill("4.50")
        page.get_by_role("button", name="Approve $2.00 for J-6").click()
        expect(page.locator("#said")).to_contain_text("J-6 may be submitted when its turn comes")
        expect(page.locator("#co-w-J-6 .btn")).to_have_count(0)  # by a push
        expect(form.get_by_label("Which")).to_have_value("modal:L4")
        form.get_by_role("button", name="Set the budget").click()
        expect(page.locator("#said")).to_contain_text("The budget of modal:L4 is $4.50.")
        row = page.locator("#co-bud li", has_text="modal:L4")
        expect(row).to_contain_text("$4.50 left of $4.50")  # by a push
        row.locator("summary").click()
        row.get_by_label("Limit, dollars").fill("lots")
        row.get_by_role("button", name="Set", exact=True).click()
        expect(page.locator("#said")).to_contain_text("'lots' is no amount in US dollars.")
        row.get_by_label("Limit, dollars").fill("6")
        row.get_by_role("button", name="Set", exact=True).click()
        expect(row).to_contain_text("$6.00 left of $6.00")
        page.get_by_text("End everything…").click()
        page.get_by_label("End all of it").check()
        page.get_by_role("button", name="End everything that is paid for").click()
        expect(page.locator("#said")).to_contain_text("There is no executor 'files'")
        assert faults_of(page) == []
        page.emulate_media(color_scheme="dark")
        assert faults_of_looks(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        page.reload()
        assert sideways(page) == []
        assert faults_of(page) == []
        assert [each for each in complaints.found if "409" not in each and "503" not in each] == []
