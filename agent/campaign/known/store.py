"""Configurations between the database and the space."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session

from db import content
from db.models import Configuration as ConfigurationRow
from experiments.space.configuration import Configuration

_MOST_KEPT = 16_384
"""Configurations that are kept as read: more than a campaign of 5,000 experiments has."""


def configuration_id(session: Session, configuration: Configuration) -> int:
    """The id of a configuration's row, made when it is new."""
    return content.put_configuration(session, configuration.digest, dict(configuration))


def configurations(session: Session, ids: Iterable[int | None]) -> dict[int, Configuration]:
    """Configurations by row id, in one statement; None among the ids is passed over."""
    wanted = {each for each in ids if each is not None}
    columns = select(ConfigurationRow.id, cast(ConfigurationRow.knobs, Text))
    rows = session.execute(columns.where(ConfigurationRow.id.in_(wanted)))
    return {number: _read(knobs) for number, knobs in rows}


@lru_cache(maxsize=_MOST_KEPT)
def _read(knobs: str) -> Configuration:
    """A configuration from the text that is stored: most are asked for again after every event."""
    return Configuration.of(json.loads(knobs))
