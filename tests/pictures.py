"""Makes the pictures of the documentation from a campaign: `python -m tests.pictures DATA_DIR [NAME …]`.

The database of the data folder is copied, the dashboard serves the copy, and a Chromium looks at its pages,
in light and in dark. What would tell of the machine, its folders and its name, is written over by words that
say so; a picture that still tells it is refused, and so are pictures that together are too large.
"""

from __future__ import annotations

import io
import re
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import select

from db.labels import Noun, format_label
from db.models import Experiment, Hypothesis, Verdict, Worker
from db.session import open_database
from tests.integration.dashboard.browser import NAMES, NO_BROWSER, Complaints
from tests.integration.dashboard.serving import serving

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
WIDTH, PHONE_WIDTH = 1200, 390

MOST_BYTES = 850_000
"""Of all pictures together: they are in the repository."""

COLOURS = 64
"""Of a picture: a theme has some forty, and the edges of letters lie between them."""

FILLED_IN = "/enqueue?claim=Four+tokens+pay&set=drafting.method%3Dmtp&set=drafting.draft_tokens%3D4"

SETTLES_MS = 1500
"""Until fonts, curves and the first push are there."""

TELLING = re.compile(
    r"/(?:home|root|tmp|opt|work|usr|var|mnt|srv|Users)/\S*|\b(?!127\.0\.0\.1\b)\d{1,3}(?:\.\d{1,3}){3}\b"
)
"""A folder of a machine, or an address of one."""

WRITE_OVER = """hidden => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    for (const [told, said] of hidden)
      texts.currentNode.data = texts.currentNode.data.replace(new RegExp(told, "g"), said);
}"""


@dataclass(frozen=True)
class Picture:
    """A page as it is shown: its address, the height of the view, and what is opened before."""

    name: str
    path: str
    height: int = 860
    width: int = WIDTH
    opens: str | None = None
    of_a_gpu: bool = False
    """Whether the devices are those of the packaged recording, and not this machine's."""


def pictures(experiment: str, hypothesis: str, other: str) -> tuple[Picture, ...]:
    """All pictures, of an experiment, its hypothesis and another experiment to compare it with."""
    return (
        Picture("now", "/", 1020),
        Picture("now-phone", "/", 844, PHONE_WIDTH),
        Picture("queue", "/queue"),
        Picture("what-if", f"/queue/what-if?hypothesis={hypothesis}", 620),
        Picture("enqueue", FILLED_IN, 960),
        Picture("experiments", "/experiments", 700),
        Picture("experiment", f"/experiments/{experiment}", 1110),
        Picture("compare", f"/compare?ids={experiment},{other}&differences=true"),
        Picture("hypotheses", "/hypotheses", 700),
        Picture("knowledge", "/knowledge"),
        Picture("pareto", "/pareto", 700),
        Picture("costs", "/costs", 640),
        Picture("gpus", "/gpus", 900, of_a_gpu=True),
        Picture("log", "/log", 620),
        Picture("find", "/", 540, opens="Control+k"),
    )


def main(arguments: Sequence[str]) -> int:
    """Make the named pictures of a data folder's newest campaign, or all of them; the exit code."""
    if not arguments or not (Path(arguments[0]) / "autoinfer.db").exists():
        print("Name the data folder of a finished campaign: make pictures PICTURES_OF=DIR", file=sys.stderr)
        return 2
    names = arguments[1:]
    unknown = set(names) - {each.name for each in pictures("", "", "")}
    if unknown:
        print(f"There is no picture {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 2
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        print(NO_BROWSER, file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    with copied(Path(arguments[0])) as (data_dir, wanted, hosts), sync_playwright() as playwright:
        hidden = [(re.escape(str(data_dir)), "DATA_DIR")]
        hidden += [(rf"\b{re.escape(host)}(?=/)|^{re.escape(host)}$", "HOST") for host in hosts]
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        with serving(data_dir) as own, serving(data_dir, 0, "--replay-devices", "h200") as recorded:
            for picture in (each for each in wanted if not names or each.name in names):
                for theme in THEMES:
                    address = recorded if picture.of_a_gpu else own
                    data = taken(browser, address, picture, theme, hidden)
                    (FOLDER / f"{picture.name}-{theme}.webp").write_bytes(data)
                    print(f"{picture.name}-{theme}.webp {len(data) / 1000:.0f} kB")
        browser.close()
    size = sum(each.stat().st_size for each in FOLDER.glob("*.webp"))
    print(f"{size / 1000:.0f} kB together")
    return 0 if size <= MOST_BYTES else 1


@contextmanager
def copied(data_dir: Path) -> Iterator[tuple[Path, tuple[Picture, ...], tuple[str, ...]]]:
    """A copy of the database in a folder of its own, brought up to date; what to show of it; its hosts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "autoinfer.db"
        with closing(sqlite3.connect(data_dir / "autoinfer.db")) as of, closing(sqlite3.connect(file)) as to:
            of.backup(to)
        database = open_database(f"sqlite:///{file}", upgrade=True)
        with database.read() as session:
            judged = session.execute(
                select(Experiment.id, Experiment.hypothesis_id, Verdict.outcome)
                .join(Verdict, Verdict.experiment_id == Experiment.id)
                .order_by(Experiment.id)
            ).all()
            waiting = session.scalars(
                select(Hypothesis.id).where(Hypothesis.state == "queued").order_by(Hypothesis.rank)
            ).first()
            hosts = tuple(session.scalars(select(Worker.host).distinct()))
        database.close()
        best = next((row for row in judged if row.outcome == "supported"), judged[-1])
        other = next((row for row in reversed(judged) if row.id != best.id), best)
        labels = [format_label(Noun.EXPERIMENT, each.id) for each in (best, other)]
        shown = format_label(Noun.HYPOTHESIS, waiting or best.hypothesis_id)
        yield Path(folder), pictures(labels[0], shown, labels[1]), (*hosts, socket.gethostname())


def taken(
    browser: Browser, address: str, picture: Picture, theme: Theme, hidden: Sequence[tuple[str, str]]
) -> bytes:
    """A picture as a PNG with a palette.

    Raises `ValueError` where the page complained, or still tells of the machine.
    """
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme=theme,
        reduced_motion="reduce",
    )
    with closing(context):
        page = context.new_page()
        complaints = Complaints(urlsplit(address).netloc)
        complaints.watch(page)
        page.goto(f"{address}{picture.path}", wait_until="load")
        if picture.opens is not None:
            page.keyboard.press(picture.opens)
        page.wait_for_timeout(SETTLES_MS)
        page.evaluate(WRITE_OVER, [list(each) for each in hidden])
        still = told_in(page.inner_text("body"), hidden)
        if complaints.found or still:
            raise ValueError(f"{picture.path}: {complaints.found or still}")
        return with_a_palette(page.screenshot(animations="disabled", caret="hide"))


def told_in(text: str, hidden: Sequence[tuple[str, str]]) -> list[str]:
    """What a page's text tells of the machine that it was made on."""
    found = [each.group() for each in TELLING.finditer(text)]
    return found + [told for told, _ in hidden if re.search(told, text, re.MULTILINE)]


def with_a_palette(png: bytes) -> bytes:
    """The picture with `COLOURS` colours as lossless WebP, which makes it smaller than PNG does."""
    with Image.open(io.BytesIO(png)) as image:
        # This method keeps what is rare, such as the red of one mark, which the default gives up for greys.
        few = image.convert("RGB").quantize(
            COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE
        )
    written = io.BytesIO()
    few.convert("RGB").save(written, "WEBP", lossless=True, quality=100, method=6)
    return written.getvalue()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
