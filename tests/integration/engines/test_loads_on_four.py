"""What later loads of a job took on four H200s, their drivers begun ahead: figures of docs/vllm.md."""

from pathlib import Path
from statistics import median

from sqlalchemy import select

from db.models import Launch
from experiments.measurement.evidence import Stage
from tests.recorded.levers_on_four import levers_on_four

LATER = (Stage.NOISE.value, Stage.VALIDATION.value, Stage.FULL.value)
"""Stages whose launches a job had loaded others before."""


def test_twenty_later_loads_took_as_long_as_the_docs_say(tmp_path: Path) -> None:
    database = levers_on_four(tmp_path)
    with database.read() as session:
        told = session.scalars(select(Launch.load_s).where(Launch.stage.in_(LATER)))
        took_s = sorted(set(told))  # what scored a control before serves later tests: one load, told again
    database.close()
    page = (Path(__file__).parents[3] / "docs" / "vllm.md").read_text(encoding="utf-8").replace("\n", " ")
    said = f"{len(took_s)} later loads of its jobs took {took_s[0]:.0f} to {took_s[-1]:.0f} s"
    assert f"{said}, in the median {median(took_s):.0f} (" in page
