"""A campaign's file that says only in what it differs from a packaged one: `like: levers`. Pure but for
reading the packaged file."""

from __future__ import annotations

from collections.abc import Mapping

from configs.catalog import Document, Kind, packaged_names, read_document
from configs.errors import UsageError
from configs.targets import OF_FIRST_TOKENS, serving_on
from configs.validation import nearest

LIKE = "like"
"""The field that names the packaged campaign."""

NAME = "name"
"""The one field that is never taken from it: another campaign has a name of its own."""


WHOLE = ("baseline.sweep", "baseline.start")
"""Mappings of knobs, which the file gives as a whole."""


def filled_in(document: Document, options: Mapping[str, object] | None = None) -> object:
    """The data of a campaign's file, what it leaves out taken from the packaged campaign that it is `like`;
    as it is where it is like none.

    A part such as `plan` is filled in field by field; a list, and a mapping of knobs, is the file's or the
    other's as a whole. Where the file or one of the `options` (by field, as of the command line) names a
    target or an engine, the space and the sweep that go with it are taken with it, and where the file is
    about first tokens the sweep that goes with that, unless the file gives those too. Raises `UsageError` for
    a name that is not packaged, and for what is no target.
    """
    own = document.data
    if not isinstance(own, dict) or LIKE not in own:
        return own
    names = packaged_names(Kind.CAMPAIGNS)
    name = own[LIKE]
    if name not in names:
        raise UsageError(
            f"{document.where}: {LIKE} is {name!r}, which is no packaged campaign.",
            nearest(str(name), names, otherwise="Those packaged are"),
        )
    other = read_document(Kind.CAMPAIGNS, name).data
    assert isinstance(other, dict)
    given = {field: value for field, value in own.items() if field != LIKE}
    base = {field: value for field, value in other.items() if field != NAME}
    asked = {field: value for field, value in (options or {}).items() if value is not None}
    for path, value in _serving(base, {**given, **asked}).items():
        base = _merged(base, _nested(path.split("."), value))
    return _merged(base, given)


def _serving(base: Mapping[str, object], asked: Mapping[str, object]) -> Mapping[str, object]:
    """What goes with the target, the engine or the objective that is asked for; nothing of one that is not
    well formed, which is told when the whole is checked."""
    target, engine, metric = asked.get("target", base["target"]), asked.get("engine"), _metric(asked)
    if not ({"target", "engine"} & set(asked) or metric in OF_FIRST_TOKENS) or not isinstance(target, str):
        return {}
    served = serving_on(target, engine if isinstance(engine, str) else None, metric)
    if asked.get("space", served.get("space")) != served.get("space"):  # which may have no such knob
        return serving_on(target, engine if isinstance(engine, str) else None)
    return served


def _metric(asked: Mapping[str, object]) -> str | None:
    """What the campaign is about, where that is asked for."""
    plan = asked.get("plan")
    metric = asked.get("plan.metric", plan.get("metric") if isinstance(plan, dict) else None)
    return metric if isinstance(metric, str) else None


def _nested(path: list[str], value: object) -> dict[str, object]:
    return {path[0]: value if len(path) == 1 else _nested(path[1:], value)}


def _merged(base: Mapping[str, object], given: Mapping[str, object], within: str = "") -> dict[str, object]:
    found = dict(base)
    for field, value in given.items():
        before, path = found.get(field), f"{within}{field}"
        if isinstance(before, dict) and isinstance(value, dict) and path not in WHOLE:
            found[field] = _merged(before, value, f"{path}.")
        else:
            found[field] = value
    return found
