"""The page of devices in a browser: readings in columns down the page, and none alone in a row on a phone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.integration.dashboard.browser import browser
from tests.integration.dashboard.serving import serving
from tests.new_database import new_database

__all__ = ["browser"]

LEFT_EDGES = """which => [...document.querySelectorAll(which)]
    .map(each => Math.round(each.getBoundingClientRect().left))"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("recorded")
    new_database(folder).close()
    with serving(folder, 0, "--replay-devices", "h200-x2") as found:
        yield found


def opened(browser: Browser, address: str, width: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(f"{address}/gpus")
    page.locator(".gpu-l .rd").first.wait_for()
    return page


def test_readings_and_processes_stand_in_the_same_columns_for_every_device(
    browser: Browser, address: str
) -> None:
    page = opened(browser, address, 1280)
    of_a_gpu = page.evaluate(LEFT_EDGES, "[id$='cuda-0'] .rd")
    assert len(of_a_gpu) == 5
    assert page.evaluate(LEFT_EDGES, "[id$='cuda-1'] .rd") == of_a_gpu
    assert page.evaluate(LEFT_EDGES, "[id$='-cpu'] .rd") == of_a_gpu[:2]
    beside = page.evaluate(LEFT_EDGES, ".gpu-m > :nth-child(2)")
    assert beside == [of_a_gpu[3]] * 2
    page.close()


def test_on_a_phone_the_utilization_has_the_row_that_would_be_half_empty(
    browser: Browser, address: str
) -> None:
    page = opened(browser, address, 390)
    whole, *others = page.evaluate(LEFT_EDGES, "[id$='cuda-0'] .rd")
    first, second = others[:2]
    assert whole == first < second
    assert others == [first, second] * 2
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.close()
