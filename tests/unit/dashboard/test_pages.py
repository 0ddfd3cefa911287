"""What all pages have in common: rows for spreadsheets, addresses of labels, events that change them."""

from __future__ import annotations

import csv
import io

from dashboard.app import PAGES
from dashboard.navigation import ENTRIES
from dashboard.page import Table, as_csv
from dashboard.rendering.subjects import subject_url


def test_a_table_is_csv_that_can_be_read_back() -> None:
    told = as_csv(Table(("id", "text"), [(1, 'a "b",\nc'), (2, None), (3, {"knob": 1})]))
    assert list(csv.reader(io.StringIO(told))) == [
        ["id", "text"],
        ["1", 'a "b",\nc'],
        ["2", ""],
        ["3", '{"knob": 1}'],
    ]


def test_no_cell_is_a_formula() -> None:
    told = as_csv(Table(("claim",), [("=HYPERLINK()",), ("-1+1",), ("@x",), ("plain",)]))
    assert told.splitlines()[1:] == ["'=HYPERLINK()", "'-1+1", "'@x", "plain"]


def test_a_label_leads_to_its_page_and_what_is_no_label_to_none() -> None:
    assert subject_url("E-0012") == "/experiments/E-0012"
    assert subject_url("vm/cpu#670") is None
    assert subject_url(None) is None


def test_every_page_of_the_bar_is_there_under_a_letter_of_its_own() -> None:
    assert {entry.path for entry in ENTRIES} <= {page.path for page in PAGES}
    assert len({entry.letter for entry in ENTRIES}) == len(ENTRIES)
