"""Nodes, edges and attributes as the builders of the graph write them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from db.states import EvidenceRelation
from knowledge.figures import in_scale
from knowledge.graph.sketch import Sketch
from knowledge.graph.typed_graph import NodeKind, Relation
from knowledge.machines import machine

OF_EVIDENCE = {each: Relation(each.value) for each in EvidenceRelation}
"""What a verdict says of a finding, as an edge."""


def ends_of(change: Mapping[str, object]) -> dict[str, str]:
    """The values of a knob before and after."""
    return {end: text_of(change.get(end)) for end in ("before", "after")}


def joined(graph: Sketch, source: str, target: str, relation: Relation) -> None:
    """Add an edge where both of its ends are in the graph."""
    if graph.has(source) and graph.has(target):
        graph.add_edge(source, target, word(relation))


def add_node(graph: Sketch, name: str, kind: NodeKind, title: str, **attributes: str) -> str:
    """Add a node and return its name."""
    graph.add_node(name, word(kind), title, **attributes)
    return name


def add_edge(graph: Sketch, source: str, target: str, relation: Relation) -> None:
    """Add an edge; both of its ends must be there."""
    graph.add_edge(source, target, word(relation))


def model_name(model: str, fingerprint: str) -> str:
    """Return the name of a model's node."""
    return f"model:{model}@{fingerprint[:12]}" if fingerprint else f"model:{model}"


def model_node(graph: Sketch, model: str, fingerprint: str) -> str:
    """Return the node of a model, added if it is not there."""
    name = model_name(model, fingerprint)
    if name in graph.nodes:
        return name
    return add_node(graph, name, NodeKind.MODEL, model, fingerprint=fingerprint)


def hardware_node(graph: Sketch, target: str) -> str:
    """Return the node of a target, added if it is not there."""
    name = f"hardware:{target}"
    return (
        name
        if name in graph.nodes
        else add_node(graph, name, NodeKind.HARDWARE, machine(target), target=target)
    )


def knob_node(graph: Sketch, knob: str) -> str:
    """Return the node of a knob, added if it is not there."""
    name = f"knob:{knob}"
    return name if name in graph.nodes else add_node(graph, name, NodeKind.KNOB, knob)


def tell(attributes: dict[str, Any], **values: str | int | None) -> None:
    """Write what is known of a node; GraphML has no word for what is not."""
    attributes.update({name: value for name, value in values.items() if value is not None})


def tell_effect(attributes: dict[str, Any], metric: str, values: tuple[float | None, ...]) -> None:
    """Write an effect and its interval, with the metric that they are on."""
    if values[0] is not None:
        attributes["metric"] = metric
    for name, value in zip(("effect", "effect_low", "effect_high"), values, strict=True):
        if value is not None:
            attributes[name] = in_scale(value, metric)


def word(member: StrEnum) -> str:
    """The value as a plain text; not by `value`, which is a property in Python and slow."""
    word: str = member._value_
    return word


def text_of(value: object) -> str:
    """Return a value as it is written, `true` for one that is on; empty for none."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
