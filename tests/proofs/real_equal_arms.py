"""Equal arms on the reference engine: what a stored series of `autoinfer aa` says of the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import UsageError
from tests.proofs.counting import Share


@dataclass(frozen=True)
class RealSeries:
    """A series: how it was made, how its launches vary, and what the judge said of its pairs.

    `experiments` are whole experiments of consecutive pairs, each pair used once; `first_looks` judge every
    pair as the quick pair of an experiment; `beyond` are those whose interval then lay beyond `min_effect`.
    """

    label: str
    engine: str
    model: str
    target: str
    metric: str
    launches: int
    launch_sd_log: float
    launch_sd_bounds: tuple[float, float]
    freedom: int
    judge: str
    min_effect: float
    experiments: int
    experiments_supported: int
    experiments_refuted: int
    first_looks: int
    first_supported: int
    beyond: int

    @property
    def supported(self) -> Share:
        """Whole experiments called supported."""
        return Share(self.experiments_supported, self.experiments)


def read_series_of(database: str) -> RealSeries | None:
    """The longest series in a database (an address or a file); None where it holds none that was measured."""
    from sqlalchemy import select

    from agent.noise.report import as_document, series_report
    from db.models import Campaign
    from db.noise import SERIES_NAME
    from db.session import open_database

    address = database if "://" in database else f"sqlite:///{Path(database).resolve()}"
    opened = open_database(address)
    try:
        with opened.read() as session:
            ids = list(session.scalars(select(Campaign.id).where(Campaign.name == SERIES_NAME)))
            documents = [as_document(series_report(session, each)) for each in ids]
    finally:
        opened.close()
    measured = [each for each in documents if each["launches"] and each["launch_sd_log"] is not None]
    if not measured:
        return None
    return _of_document(max(measured, key=lambda each: int(each["launches"])))


def _of_document(told: Mapping[str, Any]) -> RealSeries:
    judged, sd = told["judged"], told["launch_sd_log"]
    experiments, looks = judged["experiments"], judged["first_looks"]
    try:
        return RealSeries(
            label=told["series"],
            engine=told["engine"],
            model=told["model"],
            target=told["target"],
            metric=told["metric"],
            launches=told["launches"],
            launch_sd_log=sd["value"],
            launch_sd_bounds=(sd["low"], sd["high"]),
            freedom=sd["n"],
            judge=judged["judge"],
            min_effect=judged["min_effect"],
            experiments=experiments["n"],
            experiments_supported=experiments["supported"]["count"],
            experiments_refuted=experiments["refuted"]["count"],
            first_looks=looks["n"],
            first_supported=looks["supported"]["count"],
            beyond=looks["beyond_min_effect"]["count"],
        )
    except KeyError as missing:
        raise UsageError(
            f"The report of series {told.get('series')} lacks {missing}.", "Measure it with this version."
        ) from None
