"""`docs/corpora.md` lists every source as the registry does."""

from pathlib import Path

import pytest

from experiments.corpora.calibration import list_sources
from experiments.corpora.calibration.registry import KINDS

PAGE = (Path(__file__).parents[3] / "docs" / "corpora.md").read_text(encoding="utf-8")


def test_the_table_is_the_registry() -> None:
    section = PAGE.split("\n## Sources\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    table = tuple(tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines)
    assert table == tuple((f"`{form}`", text) for form, text in list_sources())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.prefix)
def test_a_source_is_found_by_what_its_form_begins_with(kind: object) -> None:
    from experiments.corpora.calibration.source import SourceKind

    assert isinstance(kind, SourceKind)
    assert kind.form.startswith(kind.prefix)
    assert len([each for each in KINDS if each.prefix == kind.prefix]) == 1
    assert kind.help.endswith(".")
