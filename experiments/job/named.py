"""Engines and judges by their entry-point names; light to import, unlike what they load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from configs.asked_over import IN_ENGINE, AskedOver
from configs.errors import UsageError
from configs.models import ModelProfile
from configs.registry import Port, names, registered
from configs.targets import kind_of
from experiments.engines.port import Engine
from experiments.measurement.judging import Judge
from experiments.measurement.plan import Workload
from experiments.space.configuration import KnobValue
from experiments.space.space import Space


def load_engine(name: str) -> Engine:
    """Return the engine registered under `name`; raises `UsageError` when none is, or it can't be loaded."""
    return cast(Engine, registered(Port.ENGINE, name)())


def engine_for(engine: Engine, at_once: int | None, workload: Workload | None = None) -> Engine:
    """The engine as one that is to have room for at most `at_once` launches and is asked for `workload`, in
    the way that this says; itself where these are None, or it does not look at them. Raises `UsageError`
    where it is to be asked over HTTP and has no server."""
    if at_once is not None and (limited := getattr(engine, "up_at_once", None)) is not None:
        engine = cast(Engine, limited(at_once))
    if workload is not None and (asked_for := getattr(engine, "asked_for", None)) is not None:
        scored = workload.evaluation_tokens_per_document
        engine = cast(Engine, asked_for(workload.concurrency, workload.context_tokens, scored))
    return engine if workload is None else asked_in_the_way(engine, workload.asked_over)


def asked_in_the_way(engine: Engine, way: AskedOver) -> Engine:
    """The engine as one whose launches are asked in a way; raises `UsageError` where it can't be."""
    if getattr(engine, "serves_http", False):
        return cast(Engine, engine.asked_over(way))  # type: ignore[attr-defined]
    if way != IN_ENGINE:
        raise UsageError(
            f"The engine {engine.name} has no HTTP server that could be asked.",
            "Ask it in its own process: asked_over: engine (in a campaign's file below plan.workload).",
        )
    return engine


def serves_packed(name: str) -> bool:
    """Whether an engine computes with packed quantized weights; False for one that is not registered here,
    with which nothing can be measured either."""
    return name in names(Port.ENGINE) and bool(getattr(load_engine(name), "serves_packed", False))


def times_kernels(name: str) -> bool:
    """Whether an engine can time its kernels for packed weights without loading a model; False for one that
    is not registered here."""
    return name in names(Port.ENGINE) and hasattr(load_engine(name), "time_kernels")


def unknown_values(
    name: str, space: Space, device: str, profile: ModelProfile
) -> Mapping[tuple[str, KnobValue], str]:
    """Why the version of an engine that would serve on the device does not know values of a space, or does
    not take them there for a model of this shape, by knob and value; empty for one that does not say, or is
    not registered here."""
    if name not in names(Port.ENGINE):
        return {}
    asked = getattr(load_engine(name), "unknown_values", None)
    return {} if asked is None else cast(Mapping[tuple[str, KnobValue], str], asked(space, device, profile))


def version_told(name: str, device: str) -> str:
    """An engine with the version that would serve on the device, in words, or with why none would and what to
    do; the name alone of one that does not say, or is not registered here."""
    engine = load_engine(name) if name in names(Port.ENGINE) else None
    asked = getattr(engine, "version_on", None)
    if asked is None:
        return name
    version = asked(device)
    if version is not None:
        return f"{name} {version}"
    told = getattr(engine, "why_no_version_on", None)
    why = (told and told(device)) or f"none for {kind_of(device)} is installed here"
    return f"{name} ({why.rstrip('.')}; nothing is held against what its version lacks)"


def newer_told(name: str, device: str) -> str | None:
    """What it means that the version of an engine that would serve on the device is newer than what it was
    run with; None where it is not, and for one that does not say or is not registered here."""
    asked = getattr(load_engine(name), "newer_on", None) if name in names(Port.ENGINE) else None
    return None if asked is None else cast("str | None", asked(device))


def version_number_on(name: str, device: str) -> tuple[int, int] | None:
    """Major and minor version of an engine that would serve on the device; None for one that does not say, or
    is not there."""
    asked = getattr(load_engine(name), "version_number_on", None) if name in names(Port.ENGINE) else None
    return None if asked is None else cast("tuple[int, int] | None", asked(device))


def unsure_values(name: str, space: Space, device: str) -> Mapping[tuple[str, KnobValue], str]:
    """Of which values of a space it is not known whether an engine takes them on the device, and why, by knob
    and value; empty for one that does not say, or is not registered here."""
    if name not in names(Port.ENGINE):
        return {}
    asked = getattr(load_engine(name), "unsure_values", None)
    return {} if asked is None else cast(Mapping[tuple[str, KnobValue], str], asked(space, device))


def load_judge(name: str) -> Judge:
    """Return the judge registered under `name`; raises `UsageError` when none is, or it can't be loaded."""
    return cast(Judge, registered(Port.JUDGE, name)())
