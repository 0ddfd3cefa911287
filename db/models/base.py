"""The declarative base and the column types of all models, valid on SQLite and PostgreSQL alike."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, Double, Enum, Integer, MetaData
from sqlalchemy.orm import DeclarativeBase

JsonObject = dict[str, Any]
"""A JSON object whose shape is owned by the room that writes it (mostly `experiments/`)."""

DIGEST_LENGTH = 64
"""Characters of a SHA-256 digest in hexadecimal."""

NAME_LENGTH = 200
"""Longest name stored (models, devices, owners, kinds), in characters."""

_WORD_LENGTH = 24
"""Longest word of a closed vocabulary, in characters."""

BigId = BigInteger().with_variant(Integer(), "sqlite")
"""A key for tables that grow by thousands a minute; SQLite numbers rows only in a column typed INTEGER."""


def words(vocabulary: type[StrEnum]) -> Enum:
    """Return the column type that stores the members of `vocabulary` by value and refuses any other word."""
    return Enum(
        vocabulary,
        native_enum=False,
        create_constraint=False,
        length=_WORD_LENGTH,
        validate_strings=True,
        values_callable=lambda members: [member.value for member in members],
    )


class Base(DeclarativeBase):
    """Base of all models; constraint names are fixed so that migrations can address them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {JsonObject: JSON(none_as_null=True), float: Double()}  # noqa: RUF012 - read by SQLAlchemy
    # Values computed by the database come back with the INSERT or UPDATE, so that they outlive the session.
    __mapper_args__ = {"eager_defaults": True}  # noqa: RUF012 - read by SQLAlchemy
