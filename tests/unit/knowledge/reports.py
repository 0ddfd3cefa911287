"""The report of a test's campaign, read, and what its file names."""

from datetime import UTC, datetime
from html.parser import HTMLParser

from knowledge.report.gathering import report
from knowledge.report.view import ReportView
from tests.history.campaign_history import History

MADE = datetime(2026, 11, 23, 12, tzinfo=UTC)
SECTIONS = 15


def read(history: History, made_at: datetime = MADE, campaign_id: int = 1) -> ReportView:
    with history.database.read() as session:
        return report(session, campaign_id, made_at)


class Page(HTMLParser):
    """What a file names that a browser would ask for, its ids and the targets of its own links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("src", "srcset", "data", "poster", "action") or (tag == "link" and name == "href"):
                self.asked.append(value or "")
            if name == "style" or name.startswith("on"):
                self.asked.append(f"{name}={value}")
            if name == "href" and tag != "link":
                (self.links if (value or "").startswith("#") else self.asked).append(value or "")
