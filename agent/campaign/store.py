"""Configurations between the database and the space."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from db import content
from db.models import Configuration as ConfigurationRow
from experiments.space.configuration import Configuration


def configuration_id(session: Session, configuration: Configuration) -> int:
    """The id of a configuration's row, made when it is new."""
    return content.put_configuration(session, configuration.digest, dict(configuration))


def configurations(session: Session, ids: Iterable[int | None]) -> dict[int, Configuration]:
    """Configurations by row id, in one statement; None among the ids is passed over."""
    wanted = {each for each in ids if each is not None}
    rows = session.scalars(select(ConfigurationRow).where(ConfigurationRow.id.in_(wanted)))
    return {row.id: Configuration.of(row.knobs) for row in rows}
