"""What is near a node, found step by step in SQL: the number of statements goes with the depth alone.

A campaign, a model or hardware hangs together with nearly everything, so a walk that meets one shows it and
goes no further there; only one that begins at it does. Where more lies near than may be shown, the nearest
and then the newest are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, SQLColumnExpression, String, cast, func, or_, select
from sqlalchemy.orm import Session

from configs.errors import UsageError
from db.labels import Noun, format_label, parse_label
from db.models import Campaign, Experiment, Finding, FindingEvidence, Hypothesis, HypothesisParent, Verdict
from knowledge.graph.building import Part, build_part
from knowledge.graph.pieces import model_name
from knowledge.graph.typed_graph import Graph
from knowledge.queries.found.ties import ties_of_findings
from knowledge.queries.order.carried import findings_carried
from knowledge.stored import findings_behind, separates_of

MOST_NODES = 48
"""Nodes of a neighbourhood, so that it is still read as a picture."""

MOST_OF_A_KIND = 24
"""Of what a node touches by one relation, the newest that a step takes."""

_NOUNS = (Noun.CAMPAIGN, Noun.HYPOTHESIS, Noun.EXPERIMENT, Noun.FINDING)


@dataclass(frozen=True)
class Around:
    """A neighbourhood: `left_out` says whether more lies as near."""

    node: str
    graph: Graph
    left_out: bool


def node_name(text: str) -> str:
    """Return the node that a user means: labels in any case and padding, other names as they are.

    Raises `UsageError` for what is no label.
    """
    return text if ":" in text else format_label(*parse_label(text))


def around(session: Session, node: str, depth: int) -> Around:
    """Return what lies within `depth` edges of a node, with all edges between.

    Raises `UsageError` for a node that is not in the graph.
    """
    near: dict[str, int] = {node: 0}
    frontier = [node]
    left_out = False
    for distance in range(1, depth + 1):
        met = _met(session, frontier, begins=distance == 1)
        found = sorted({each for each in met if each not in near}, key=_age, reverse=True)
        left_out = left_out or len(near) + len(found) > MOST_NODES
        frontier = found[: max(0, MOST_NODES - len(near))]
        near.update(dict.fromkeys(frontier, distance))
    graph = build_part(session, _part(near))
    if node not in graph:
        raise UsageError(
            f"{node} is not in the graph.",
            "A node is a label such as H-001, or knob:NAME, model:NAME, hardware:NAME.",
        )
    shown: Graph = graph.subgraph([each for each in graph if each in near]).copy()
    return Around(node, shown, left_out)


def newest_finding(session: Session) -> str | None:
    """Return the label of the last finding, or of the last hypothesis where none was found yet."""
    for noun, column in ((Noun.FINDING, Finding.id), (Noun.HYPOTHESIS, Hypothesis.id)):
        newest = session.scalar(select(func.max(column)))
        if newest is not None:
            return format_label(noun, newest)
    newest = session.scalar(select(func.max(Campaign.id)))
    return None if newest is None else format_label(Noun.CAMPAIGN, newest)


def _age(node: str) -> tuple[int, str]:
    """Names before labels, then by number: what is met sorts by it, the newest last."""
    return (0, node) if ":" in node else (int(node.partition("-")[2]), node)


def _part(nodes: Iterable[str]) -> Part:
    ids = _ids(nodes)
    return Part(*(ids[noun] for noun in _NOUNS))


def _ids(nodes: Iterable[str]) -> dict[Noun, list[int]]:
    found: dict[Noun, list[int]] = {noun: [] for noun in _NOUNS}
    for node in nodes:
        if ":" not in node:
            noun, number = parse_label(node)
            found.setdefault(noun, []).append(number)
    return found


def _met(session: Session, frontier: list[str], *, begins: bool) -> Iterator[str]:
    """What the nodes of a step touch."""
    ids = _ids(frontier)
    if ids[Noun.HYPOTHESIS]:
        yield from _of_hypotheses(session, ids[Noun.HYPOTHESIS])
    if ids[Noun.EXPERIMENT]:
        yield from _of_experiments(session, ids[Noun.EXPERIMENT])
    if ids[Noun.FINDING]:
        yield from _of_findings(session, ids[Noun.FINDING])
    named = [each for each in frontier if ":" in each]
    knobs = [each.partition(":")[2] for each in named if each.startswith("knob:")]
    if knobs:
        yield from _of_knobs(session, knobs)
    if begins:
        for campaign in ids[Noun.CAMPAIGN]:
            yield from _of_campaign(session, campaign)
        for each in named:
            yield from _of_ground(session, each)


def _of_hypotheses(session: Session, ids: list[int]) -> Iterator[str]:
    rows = select(Hypothesis.campaign_id, Hypothesis.change, Hypothesis.confirms_experiment_id).where(
        Hypothesis.id.in_(ids)
    )
    for campaign_id, change, confirms in session.execute(rows):
        yield format_label(Noun.CAMPAIGN, campaign_id)
        yield from findings_behind(change)
        separates = separates_of(change)
        if separates is not None:
            yield separates
        if confirms is not None:
            yield format_label(Noun.EXPERIMENT, confirms)
        yield from (f"knob:{each['knob']}" for each in change.get("changes", []))
    edges = select(HypothesisParent.hypothesis_id, HypothesisParent.parent_id).where(
        or_(HypothesisParent.hypothesis_id.in_(ids), HypothesisParent.parent_id.in_(ids))
    )
    newest = edges.order_by(HypothesisParent.hypothesis_id.desc()).limit(MOST_OF_A_KIND)
    for edge in session.execute(newest):
        yield from (format_label(Noun.HYPOTHESIS, each) for each in edge)
    yield from _labels(
        session, Noun.EXPERIMENT, select(Experiment.id).where(Experiment.hypothesis_id.in_(ids))
    )


def _of_experiments(session: Session, ids: list[int]) -> Iterator[str]:
    rows = select(
        Experiment.id, Experiment.hypothesis_id, Experiment.campaign_id, Experiment.reproduces_experiment_id
    ).where(or_(Experiment.id.in_(ids), Experiment.reproduces_experiment_id.in_(ids)))
    for row in session.execute(rows.order_by(Experiment.id.desc()).limit(len(ids) + MOST_OF_A_KIND)):
        yield format_label(Noun.EXPERIMENT, row.id)
        if row.id not in ids:
            continue
        if row.hypothesis_id is None:
            yield format_label(Noun.CAMPAIGN, row.campaign_id)
        else:
            yield format_label(Noun.HYPOTHESIS, row.hypothesis_id)
        if row.reproduces_experiment_id is not None:
            yield format_label(Noun.EXPERIMENT, row.reproduces_experiment_id)
    evidence = (
        select(FindingEvidence.finding_id)
        .join(Verdict, Verdict.id == FindingEvidence.verdict_id)
        .where(Verdict.experiment_id.in_(ids))
        .distinct()
    )
    for found in session.scalars(evidence):
        yield format_label(Noun.FINDING, found)
    yield from _named_by_hypotheses(session, [format_label(Noun.EXPERIMENT, each) for each in ids])
    confirmed = select(Hypothesis.id).where(Hypothesis.confirms_experiment_id.in_(ids))
    yield from _labels(session, Noun.HYPOTHESIS, confirmed)


def _of_findings(session: Session, ids: list[int]) -> Iterator[str]:
    rows = select(Finding.id, Finding.scope, Finding.superseded_by_id).where(
        or_(Finding.id.in_(ids), Finding.superseded_by_id.in_(ids))
    )
    for row in session.execute(rows):
        yield format_label(Noun.FINDING, row.id)
        if row.id not in ids:
            continue
        yield from (f"knob:{knob}" for knob in row.scope.get("knobs", []))
        if "model" in row.scope:
            yield model_name(row.scope["model"], row.scope.get("model_fingerprint", ""))
        if "target" in row.scope:
            yield f"hardware:{row.scope['target']}"
        if row.superseded_by_id is not None:
            yield format_label(Noun.FINDING, row.superseded_by_id)
    evidence = (
        select(Verdict.experiment_id)
        .join(FindingEvidence, FindingEvidence.verdict_id == Verdict.id)
        .where(FindingEvidence.finding_id.in_(ids))
        .order_by(Verdict.id.desc())
        .limit(MOST_OF_A_KIND)
    )
    for experiment in session.scalars(evidence):
        yield format_label(Noun.EXPERIMENT, experiment)
    labels = {format_label(Noun.FINDING, each) for each in ids}
    yield from _named_by_hypotheses(session, sorted(labels))
    for campaign, (began, _) in findings_carried(session).items():
        if labels.intersection(began):
            yield format_label(Noun.CAMPAIGN, campaign)
    for ties in ties_of_findings(session, ids).values():
        yield from (tie.id for tie in ties)


def _named_by_hypotheses(session: Session, labels: list[str]) -> Iterator[str]:
    """Hypotheses whose change names one of these findings or experiments."""
    named = [cast(Hypothesis.change, String).contains(f'"{each}"', autoescape=True) for each in labels]
    yield from _labels(session, Noun.HYPOTHESIS, select(Hypothesis.id).where(or_(*named)))


def _of_knobs(session: Session, knobs: list[str]) -> Iterator[str]:
    changed = [
        cast(Hypothesis.change, String).contains(f'"knob":"{knob}"', autoescape=True) for knob in knobs
    ]
    yield from _labels(session, Noun.HYPOTHESIS, select(Hypothesis.id).where(or_(*changed)))
    named = [cast(Finding.scope, String).contains(f'"knob":"{knob}"', autoescape=True) for knob in knobs]
    yield from _labels(session, Noun.FINDING, select(Finding.id).where(or_(*named)))


def _of_campaign(session: Session, campaign_id: int) -> Iterator[str]:
    campaign = session.get(Campaign, campaign_id)
    if campaign is None:
        return
    yield model_name(campaign.model, campaign.model_fingerprint)
    yield f"hardware:{campaign.target}"
    began, _ = findings_carried(session, [campaign_id]).get(campaign_id, ((), 0.0))
    yield from began
    mine = select(Hypothesis.id).where(Hypothesis.campaign_id == campaign_id)
    yield from _labels(session, Noun.HYPOTHESIS, mine)
    alone = select(Experiment.id).where(
        Experiment.campaign_id == campaign_id, Experiment.hypothesis_id.is_(None)
    )
    yield from _labels(session, Noun.EXPERIMENT, alone)


def _of_ground(session: Session, node: str) -> Iterator[str]:
    """What hangs on a model or on hardware."""
    kind, _, name = node.partition(":")
    if kind == "hardware":
        campaigns, scoped = Campaign.target == name, Finding.scope["target"].as_string() == name
    elif kind == "model":
        scope = Finding.scope
        campaigns = _of_model(name, Campaign.model, Campaign.model_fingerprint)
        scoped = _of_model(
            name, scope["model"].as_string(), func.coalesce(scope["model_fingerprint"].as_string(), "")
        )
    else:
        return
    yield from _labels(session, Noun.CAMPAIGN, select(Campaign.id).where(campaigns))
    yield from _labels(session, Noun.FINDING, select(Finding.id).where(scoped))


def _of_model(
    name: str, model: SQLColumnExpression[str], fingerprint: SQLColumnExpression[str]
) -> ColumnElement[bool]:
    """Whether a row's model has this name in the graph: `model_name` the other way round."""
    bare, _, digest = name.rpartition("@")
    return or_(
        (model == name) & (fingerprint == ""),
        (model == bare) & fingerprint.startswith(digest, autoescape=True) & (fingerprint != ""),
    )


def _labels(session: Session, noun: Noun, query: Select[Any]) -> Iterator[str]:
    """The newest of what a query gives, as labels."""
    column = query.selected_columns[0]
    for number in session.scalars(query.order_by(column.desc()).limit(MOST_OF_A_KIND)):
        yield format_label(noun, number)
