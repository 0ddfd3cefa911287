"""What axe finds on a page as it stands, and whether it scrolls sideways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

OF_LOOKS = ("color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size")
"""Rules whose outcome depends on the theme or on the width of the window."""

Part = Literal["html", "main"]
"""The whole page, or what is its own: what stands around it is the same on all."""

AGAIN = """([part, rules]) => axe.run(part, {
  resultTypes: ["violations"], runOnly: rules,
}).then(found => found.violations)"""


def faults_of(page: Page, part: Part = "html") -> list[str]:
    """What axe finds by all its rules, a line each with the element it found it on."""
    return _told(Axe().run(page, part).response["violations"])


def faults_of_looks(page: Page, part: Part = "html") -> list[str]:
    """What axe finds by the rules of `OF_LOOKS`, on a page that `faults_of` has looked at before."""
    return _told(page.evaluate(AGAIN, [part, OF_LOOKS]))


def sideways(page: Page) -> list[str]:
    """A sentence where the page is wider than its window."""
    pixels = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return [f"scrolls {pixels} px sideways"] if pixels > 0 else []


def _told(violations: Sequence[Any]) -> list[str]:
    return [f"{each['id']}: {node['html'][:160]}" for each in violations for node in each["nodes"]]
