"""Rows that are stored once under the digest of their content: configurations and environments."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from db.models.base import JsonObject
from db.models.campaign import Configuration
from db.models.experiment import Environment


def put_configuration(session: Session, digest: str, knobs: JsonObject) -> int:
    """Return the id of the configuration with this digest, storing its canonical `knobs` if it is new."""
    known = select(Configuration.id).where(Configuration.digest == digest)
    if (configuration_id := session.scalar(known)) is not None:
        return configuration_id
    try:
        with session.begin_nested():
            configuration = Configuration(digest=digest, knobs=knobs)
            session.add(configuration)
            session.flush()
            return configuration.id
    except IntegrityError:  # another transaction stored the same content at the same time
        return session.execute(known).scalar_one()


def put_environment(session: Session, digest: str, data: JsonObject) -> str:
    """Store the environment with this digest if it is new, and return the digest."""
    if session.get(Environment, digest) is None:
        try:
            with session.begin_nested():
                session.add(Environment(digest=digest, data=data))
        except IntegrityError:  # another transaction stored the same content at the same time
            pass
    return digest
