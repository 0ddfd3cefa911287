"""Stored configurations in a space that was changed since: new knobs get their defaults.

A campaign may be older than a knob of its space. What was measured then had the knob at the engine's own
default, which is the knob's; with that written out, old and new configurations can be compared again.

A knob that stood at its default and means nothing beside the others by now is left out for the same reason:
the engine chose there, and had no choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from agent.ground.sweep import swept
from configs.errors import UsageError
from experiments.space.configuration import Configuration
from experiments.space.knob import same_value
from experiments.space.loading import load_space
from experiments.space.space import Space

_MOST_KEPT = 16_384
"""Settled configurations that are kept: more than a campaign of 5,000 experiments has, each a few hundred
bytes. Fewer than a campaign has would be none: they are asked for in one order, again and again."""


def settled(stored: Configuration, space_name: str) -> Configuration:
    """The stored configuration with the defaults of active knobs that it lacks, without those of idle ones.

    It stays as it is where the space can't be read or has no place for it any more, such as for a knob that
    was set and means nothing beside the others by now: nobody knows that the engine passed over it.
    """
    return _settled(stored, space_name, _written_at_ns(space_name))


def all_settled(stored: Mapping[int, Configuration], space_name: str) -> dict[int, Configuration]:
    """The stored configurations by their ids, each as `settled`; the space's file is looked at once."""
    written_at_ns = _written_at_ns(space_name)
    return {number: _settled(each, space_name, written_at_ns) for number, each in stored.items()}


def stored_digests(
    space_name: str,
    stored: Iterable[Configuration],
    sweep: Iterable[str],
    start: Configuration | None = None,
) -> Mapping[str, str]:
    """Under which digest a settled configuration was measured, where that differs from its own.

    `stored` are baseline and naive as they were written down; the others of the baseline's sweep, which
    crossed `start` (the default if not given), had the same knobs.
    """
    known = tuple(stored)
    found = {settled(each, space_name).digest: each.digest for each in known}
    found = {now: then for now, then in found.items() if now != then}
    space = _space(space_name, _written_at_ns(space_name))
    if not found or space is None:
        return {}
    names = {name for each in known for name in each}
    try:
        crossed = swept(space.that_has(names), start, sweep)
    except UsageError:
        return found
    for each in crossed:
        then = Configuration.of({name: value for name, value in each.items() if name in names})
        found.setdefault(each.digest, then.digest)
    return found


@lru_cache(maxsize=_MOST_KEPT)
def _settled(stored: Configuration, space_name: str, written_at_ns: int) -> Configuration:
    space = _space(space_name, written_at_ns)
    if space is None:
        return stored
    space = space.that_has(stored)  # what the model has is not lost by another knob
    try:
        found = space.with_change(stored, {})
    except UsageError:
        return stored
    dropped = [name for name in stored if name not in found]
    chosen_by_the_engine = all(same_value(stored[name], space.knob(name).default) for name in dropped)
    return found if chosen_by_the_engine else stored


@lru_cache(maxsize=8)
def _space(name: str, written_at_ns: int) -> Space | None:
    """The space; the time is there to make the cache forget a file that was changed."""
    try:
        return load_space(name)
    except UsageError:
        return None


def _written_at_ns(space_name: str) -> int:
    """When the space's file was written, ns; 0 for a packaged one, which stays as it is."""
    try:
        return Path(space_name).expanduser().stat().st_mtime_ns
    except OSError:
        return 0
