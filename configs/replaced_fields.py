"""A field of a campaign's file that an option of the command line replaces, by its dotted name."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from configs.errors import UsageError
from configs.validation import nearest


def replaced(model: type[BaseModel], data: dict[str, object], name: str, value: object) -> dict[str, object]:
    """The data with another value in the field of this dotted name, of a campaign whose fields `model` has.

    Raises `UsageError` for a name that is none of a field.
    """
    return _replaced(model, data, name, name.split("."), value)


def _replaced(
    model: type[BaseModel], data: dict[str, object], name: str, path: list[str], value: object
) -> dict[str, object]:
    field, rest = path[0], path[1:]
    known = _fields_at(model, name.split(".")[: -len(path)]) or data
    if field not in known:
        raise UsageError(
            f"A campaign has no field {name!r}.", nearest(field, known, otherwise="The fields are")
        )
    if not rest:
        return {**data, field: value}
    inner = data.get(field, {})  # a part that the file leaves out has defaults
    if not isinstance(inner, dict):
        raise UsageError(f"A campaign has no field {name!r}.", f"{field} has no fields of its own.")
    return {**data, field: _replaced(model, inner, name, rest, value)}


def _fields_at(model: type[BaseModel], path: list[str]) -> Mapping[str, object]:
    """The fields of the part of a campaign at this path, those that may be left out too; none for a part that
    has none of its own."""
    for field in path:
        inner = model.model_fields[field].annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return {}
        model = inner
    return model.model_fields
