"""Reading YAML and checking it against a model, with errors that name the place and the value."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from configs.addresses import without_secrets
from configs.errors import UsageError

Model = TypeVar("Model", bound=BaseModel)

KEPT_TEXTS = 64
"""Texts whose data are kept, more than a campaign has: reading one takes longer than copying what it says,
and a campaign's loop asks for its own again at every turn."""


class _Loader(yaml.SafeLoader):
    """YAML with the booleans and floats of version 1.2, in which `off` is a word; a key may stand once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_REPLACED = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _REPLACED[0], re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_Loader.add_implicit_resolver(
    _REPLACED[1],
    re.compile(r"^[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"),
    list("-+.0123456789"),
)


def parse_yaml(text: str, where: str) -> object:
    """The data of a YAML text; `where` names it in the error.

    Booleans are `true` and `false` alone, so that `off` stays a word; dates stay text. Raises `UsageError`
    with the line for text that is no YAML and for a key that stands twice.
    """
    try:
        return deepcopy(_loaded(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise UsageError(f"{where}{line} is not valid YAML: {problem}.", "Correct it there.") from None
    except RecursionError:
        raise UsageError(f"{where} is nested too deeply.", "Make it flatter.") from None


@lru_cache(maxsize=KEPT_TEXTS)
def _loaded(text: str) -> object:
    """Nobody may change what it returns."""
    return yaml.load(text, _Loader)


_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
"""Pydantic's faults of a bounded number: our word for the bound, and where the fault holds it."""


KINDS = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "an object",
    "none_required": "nothing",
}
"""Pydantic's faults of a wrong type: what would do."""


def validated(model: type[Model], data: object, where: str, *, hint: str = "Correct it there.") -> Model:
    """The data as `model`; raises `UsageError` that names the place, the field and the value, with `hint`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"{where}: {first_fault(error, data)}", _hint(error, model, hint)) from None


@dataclass(frozen=True)
class Fault:
    """What a validation found wrong: the dotted field, its value and the reason; as text a sentence."""

    field: str
    value: object
    reason: str

    @property
    def told(self) -> str | None:
        """The value as it was written; None of one that is too long to be told."""
        value = self.value
        if isinstance(value, float):
            return f"{value:g}"
        return str(value) if _is_short(value) else None

    def __str__(self) -> str:
        shown = f" is {self.value!r}" if _is_short(self.value) else ""
        return f"{self.field}{shown}: {self.reason}." if self.field else f"{self.reason}."


def first_fault(error: ValidationError, written: object = None) -> Fault:
    """The first fault of a validation: field, value (of an address nothing that may be a secret), reason.

    Of the data that were `written`, where they are given, it names what stands there, though a short form
    stands for more (`budget: 0`) or may be one of several kinds of value.
    """
    fault = error.errors(include_url=False)[0]
    missing = fault["type"] == "missing"
    place, value = fault["loc"], fault["input"]
    if isinstance(written, Mapping):
        place, there = _place_written(fault["loc"][:-1] if missing else fault["loc"], written)
        place += fault["loc"][-1:] if missing else ()
        value = there if _is_short(there) else value
    field = ".".join(str(part) for part in place)
    if fault["type"] == "extra_forbidden":
        return Fault("", None, f"there is no field {field}")
    if missing:
        return Fault("", None, f"the field {field} is missing")
    if isinstance(value, str) and ("://" in value or "@" in value or field.endswith("_url")):
        value = without_secrets(value)
    return Fault(field, value, _reason(fault, value))


def _reason(fault: ErrorDetails, value: object) -> str:
    if fault["type"] in _BOUNDS:
        word, held = _BOUNDS[fault["type"]]
        bound = fault["ctx"][held]
        percent = isinstance(value, str) and value.endswith("%")
        return f"it must be {word} {f'{bound:.0%}' if percent else f'{bound}'.removesuffix('.0')}"
    if fault["type"] == "model_type":
        return "it has fields of its own, and this is none of them"
    if fault["type"] in KINDS:
        return f"it must be {KINDS[fault['type']]}"
    return str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".")


def _is_short(value: object) -> bool:
    return isinstance(value, str | int | float) or value is None


def _place_written(place: tuple[str | int, ...], data: Any) -> tuple[tuple[str | int, ...], object]:
    """How much of a fault's place stands in the data, and what stands there: a short form has nothing below
    it, and of several kinds of value pydantic names the kind as if it were a field."""
    found: tuple[str | int, ...] = ()
    for part in place:
        listed = isinstance(data, list | tuple) and isinstance(part, int) and part < len(data)
        if listed or (isinstance(data, Mapping) and part in data):
            data = data[part]
            found += (part,)
    return found, data


def alternatives(error: ValidationError) -> tuple[tuple[str | int, ...], str] | None:
    """The place of the first fault and what would do there, where it may be one of several kinds of value;
    None where there is one kind alone.

    Pydantic then tells a fault for each kind, of which the first alone would say something wrong.
    """
    faults = error.errors(include_url=False)
    place, value = faults[0]["loc"][:-1], faults[0]["input"]
    same = [each for each in faults if each["loc"][:-1] == place and each["input"] == value]
    kinds = list(dict.fromkeys(KINDS[each["type"]] for each in same if each["type"] in KINDS))
    if len(same) < 2 or len(kinds) < 2:
        return None
    return place, f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def nearest(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """`Did you mean …?` for the nearest known names; `otherwise` with all of them where none is near.

    `otherwise` begins the sentence, such as `The settings are`.
    """
    names = list(known)
    near = get_close_matches(name, names, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else f"{otherwise} {', '.join(names) or 'none'}."


def _hint(error: ValidationError, model: type[BaseModel], otherwise: str) -> str:
    fault = error.errors(include_url=False)[0]
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        return nearest(str(fault["loc"][0]), model.model_fields, otherwise="The fields are")
    return otherwise
