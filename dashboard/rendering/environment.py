"""The templates' environment: escaped by default, strict about names, with figures as filters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from configs.asked_over import asked_over_words
from configs.authors import author_words
from configs.moments import OffsetSince, format_clock, format_day, format_moment, format_offsets
from configs.quantities import format_usd
from dashboard.rendering import figures
from dashboard.rendering.linking import (
    breakable,
    came_up,
    coded,
    first_clause,
    in_short,
    leading,
    levers_told,
    linked,
    together,
    without_beside,
)
from dashboard.rendering.subjects import subject_url
from knowledge.figures import between, margin, metric_word, number, signed, size
from knowledge.graph.tree import relation_words
from knowledge.machines import machine, machines_named
from knowledge.proposers import proposer_words
from knowledge.stored import judge_words

ROOM = Path(__file__).parents[1]
TEMPLATES = ROOM / "templates"
STATIC = ROOM / "static"

DIGEST_LENGTH = 10
"""Hexadecimal digits of a file's content in its address, so that a changed file has another one."""


@cache
def environment() -> Environment:
    """The one environment; its templates are compiled once."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in (
        "exact",
        "unit",
        "percent",
        "interval",
        "effect",
        "ends",
        "seconds",
        "kwh",
        "until",
        "instant",
        "reading",
        "age",
    ):
        found.filters[name] = getattr(figures, name)
    found.filters["clock"], found.filters["day"] = format_clock, format_day
    found.filters["moment"], found.filters["zones"] = format_moment, format_offsets
    found.filters["since_s"] = since_s
    found.filters["number"], found.filters["between"], found.filters["signed"] = number, between, signed
    found.filters["usd"], found.filters["machine"] = format_usd, machine
    found.filters["machines_named"] = machines_named
    found.filters["author"], found.filters["judge"] = author_words, judge_words
    found.filters["proposer"], found.filters["in_short"] = proposer_words, in_short
    found.filters["relation"], found.filters["asked_over"] = relation_words, asked_over_words
    found.filters["metric"], found.filters["margin"] = metric_word, margin
    found.filters["size"], found.filters["whole"] = size, figures.whole
    found.filters["linked"], found.filters["coded"] = linked, coded
    found.filters["breakable"], found.filters["came_up"] = breakable, came_up
    found.filters["leading"], found.filters["levers"] = leading, levers_told
    found.filters["without_beside"], found.filters["first_clause"] = without_beside, first_clause
    found.filters["energy_told"] = figures.energy
    found.globals["static"] = static
    found.globals["is_installed"] = is_installed
    found.globals["subject_url"] = subject_url
    return found


def render(template: str, context: Mapping[str, Any]) -> str:
    """A template with its values, in whose sentences no line ends between a figure and its unit."""
    return together(environment().get_template(template).render(context))


def since_s(offsets: Sequence[OffsetSince]) -> str:
    """Offsets of a zone for a script, `[[1774746000, 7200]]`: since when, in seconds since 1970, and how many
    seconds ahead of UTC."""
    return json.dumps([[int(at.timestamp()), int(offset.total_seconds())] for at, offset in offsets])


@cache
def static(path: str) -> str:
    """The address of a static file, which says its content; a file that is missing keeps the plain one."""
    file = STATIC / path
    if not file.is_file():
        return f"/static/{path}"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:DIGEST_LENGTH]
    return f"/static/{path}?v={digest}"


@cache
def is_installed(path: str) -> bool:
    """Whether a static file is there: libraries come from npm, and pages do without where it is missing."""
    return (STATIC / path).is_file()
