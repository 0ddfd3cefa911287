"""Steps on the graph, by relation and kind, and the names that a user means. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from configs.errors import UsageError
from configs.targets import is_rented
from db import states
from db.labels import Noun, format_label, parse_label
from experiments.space.space import NEAR
from knowledge.graph.pieces import OF_EVIDENCE
from knowledge.graph.typed_graph import MOST_NEAR, Graph, NodeKind, Relation
from knowledge.machines import is_called, machine

WAITING = ("proposed", "queued", "testing")
"""States of a hypothesis that is not decided yet."""

EVIDENT = (Noun.FINDING, Noun.EXPERIMENT, Noun.HYPOTHESIS)
"""What can fall, and what something led to."""

AGREEING = frozenset(OF_EVIDENCE[each].value for each in states.AGREEING)
"""Relations to a finding of verdicts that say the same."""

_LISTS = {
    Noun.HYPOTHESIS: "autoinfer hypotheses",
    Noun.EXPERIMENT: "autoinfer experiments",
    Noun.FINDING: "autoinfer findings",
}
_KINDS = {
    Noun.CAMPAIGN: NodeKind.CAMPAIGN,
    Noun.HYPOTHESIS: NodeKind.HYPOTHESIS,
    Noun.EXPERIMENT: NodeKind.EXPERIMENT,
    Noun.FINDING: NodeKind.FINDING,
}


class UnknownName(UsageError):
    """Something is called what nothing here is called; the hint names what there is, which a file that was
    imported may have called as it likes."""

    def __init__(self, message: str, names: Sequence[str], hint: Callable[[Sequence[str]], str]) -> None:
        super().__init__(message, hint(names))
        self._names, self._hint = names, hint

    def marked(self, name: Callable[[str], str], text: Callable[[str], str]) -> tuple[str, str]:
        """As of every error, with every name there is as `name` tells it."""
        return self.message, self._hint([name(each) for each in self._names])


def to(graph: Graph, node: str, *relations: Relation, kind: NodeKind | None = None) -> list[str]:
    """Return where edges of these relations lead from a node, in the order of their making."""
    ends = dict.fromkeys(end for _, end, key in graph.out_edges(node, keys=True) if key in relations)
    return _of_kind(graph, ends, kind)


def into(graph: Graph, node: str, *relations: Relation, kind: NodeKind | None = None) -> list[str]:
    """Return where edges of these relations into a node come from."""
    ends = dict.fromkeys(end for end, _, key in graph.in_edges(node, keys=True) if key in relations)
    return _of_kind(graph, ends, kind)


def _of_kind(graph: Graph, nodes: Iterable[str], kind: NodeKind | None) -> list[str]:
    return [each for each in nodes if kind is None or graph.nodes[each]["kind"] == kind]


def tests_of(graph: Graph, hypothesis: str) -> list[str]:
    """Return the experiments of a hypothesis, oldest first."""
    return sorted(into(graph, hypothesis, Relation.TESTS), key=number_of)


def hypothesis_of(graph: Graph, experiment: str) -> str | None:
    """Return what an experiment tests, None of a baseline."""
    return next(iter(to(graph, experiment, Relation.TESTS)), None)


def campaign_of_node(graph: Graph, node: str) -> str | None:
    """Return the campaign of a hypothesis or an experiment."""
    found = to(graph, node, Relation.PART_OF)
    if not found and graph.nodes[node]["kind"] == NodeKind.EXPERIMENT:
        hypothesis = hypothesis_of(graph, node)
        found = [] if hypothesis is None else to(graph, hypothesis, Relation.PART_OF)
    return next(iter(found), None)


def changes_of(graph: Graph, node: str) -> dict[str, tuple[str, str]]:
    """Return the knobs that a hypothesis or finding changes, each with the values before and after."""
    found = {}
    for _, other, key, data in graph.out_edges(node, keys=True, data=True):
        if key == Relation.CHANGES:
            found[other.removeprefix("knob:")] = data.get("before", ""), data.get("after", "")
    return found


def change_of(graph: Graph, node: str, knob: str) -> tuple[str, str] | None:
    """Return the values before and after of one knob; None where it is not changed."""
    data = graph.get_edge_data(node, f"knob:{knob}", Relation.CHANGES.value)
    return None if data is None else (data.get("before", ""), data.get("after", ""))


def changes_words(changes: Mapping[str, tuple[str, str]], without: str | None = None) -> list[str]:
    """Return changes in words, `serving.threads 2 → 1`, but for the knob `without`: those that were set, and
    how many knobs came or went with them; all of them where none was set."""
    left = {name: ends for name, ends in changes.items() if name != without}
    were_set = {name: ends for name, ends in left.items() if all(ends)}
    if not were_set and without is not None and all(changes.get(without, ("", ""))):
        return []  # what comes or goes with the knob that is spoken of
    told = [
        f"{name} {before or '–'} → {after or '–'}" for name, (before, after) in (were_set or left).items()
    ]
    along = len(left) - len(were_set) if were_set else 0
    knobs = "knob" if along == 1 else "knobs"
    return [*told, f"{along} {knobs} that came or went with it"] if along else told


def origins(graph: Graph) -> Callable[[str], str | None]:
    """Return what finds the supported hypothesis whose candidate is a hypothesis's control: the best when it
    was proposed. None where that is the baseline, or a configuration that nothing supported leads to."""
    reached: dict[tuple[str | None, int], list[str]] = {}
    for node, data in graph.nodes(data=True):
        if data["kind"] == NodeKind.HYPOTHESIS and data.get("state") == "supported":
            reached.setdefault((campaign_of_node(graph, node), data.get("candidate")), []).append(node)

    def origin(hypothesis: str) -> str | None:
        if starts_at_baseline(graph, hypothesis):
            return None
        at = campaign_of_node(graph, hypothesis), graph.nodes[hypothesis].get("control")
        earlier = [each for each in reached.get(at, ()) if number_of(each) < number_of(hypothesis)]
        return max(earlier, key=number_of, default=None)

    return origin


def starts_at_baseline(graph: Graph, hypothesis: str) -> bool:
    """Return whether a hypothesis changes the baseline of its campaign itself."""
    campaign = campaign_of_node(graph, hypothesis)
    if campaign is None:
        return False
    baseline = graph.nodes[campaign].get("baseline")
    return baseline is not None and graph.nodes[hypothesis].get("control") == baseline


def label_in(graph: Graph, text: str, *nouns: Noun) -> str:
    """Return the label that a user means, of one of these nouns, as it stands in the graph.

    Raises `UsageError` for what is no label, another noun, and what does not exist, with the last there is.
    """
    noun, number = parse_label(text)
    if noun not in nouns:
        wanted = " or ".join(each.phrase for each in nouns)
        raise UsageError(
            f"{text!r} names {noun.phrase}, but {wanted} is wanted here.",
            f"Give a label such as {format_label(nouns[0], 1)}.",
        )
    label = format_label(noun, number)
    if label not in graph:
        known = [node for node, kind in graph.nodes(data="kind") if kind == _KINDS[noun].value]
        last = max(known, key=number_of, default=None)
        there = f"the last is {last}" if last else f"there is no {noun.word} yet"
        raise UsageError(f"{label} does not exist; {there}.", f"List what there is: {_LISTS[noun]}")
    return label


def knob_in(graph: Graph, name: str, space: Collection[str]) -> str:
    """Return the knob that is meant, of the space or the graph; raises `UnknownName` with the nearest."""
    known = sorted({*space, *_named(graph, NodeKind.KNOB)})
    if name in known:
        return name
    last = name.rsplit(".", 1)[-1]
    near = [each for each in known if each.rsplit(".", 1)[-1] == last]
    near += [each for each in get_close_matches(name, known, MOST_NEAR, NEAR) if each not in near]
    said = f"There is no knob {name!r}."
    if near:
        raise UnknownName(said, near[:MOST_NEAR], lambda names: f"Did you mean {' or '.join(names)}?")
    raise UnknownName(said, known, lambda names: f"The knobs are {', '.join(names)}.")


def places_of(graph: Graph, hypothesis: str) -> list[str]:
    """Return where a hypothesis is to be tested: what is to be confirmed elsewhere there, all other on the
    hardware of its campaign."""
    elsewhere = graph.nodes[hypothesis].get("target")
    if elsewhere:
        return [elsewhere]
    campaign = campaign_of_node(graph, hypothesis)
    runs_on = () if campaign is None else to(graph, campaign, Relation.RUNS_ON)
    return [str(graph.nodes[each]["target"]) for each in runs_on]


def known_as(graph: Graph, targets: Collection[str]) -> frozenset[str]:
    """Return these targets and the names by which jobs call them, `modal:L4` of `gpu:NVIDIA L4:24 GB`: those
    of hypotheses of which a test ran there, and those of a GPU that one of the targets has in its name."""
    words = {word for each in targets for word in each.partition(":")[2].partition(":")[0].split()}
    found = set(targets)
    for node, data in graph.nodes(data=True):
        name = data.get("target")
        if not name or name in found or data["kind"] != NodeKind.HYPOTHESIS:
            continue
        is_named = is_rented(name) and name.partition(":")[2].rstrip("!") in words
        ran = (graph.nodes[each].get("target") for each in tests_of(graph, node))
        if is_named or any(each in targets for each in ran):
            found.add(name)
    return frozenset(found)


def hardware_in(graph: Graph, text: str) -> frozenset[str]:
    """Return the targets with this in their names; raises `UnknownName` with those there are."""
    targets = frozenset(_targets(graph))
    found = frozenset(each for each in targets if is_called(each, text))
    if found:
        return found
    raise UnknownName(
        f"Nothing is known of hardware with {text!r} in its name.",
        sorted(machine(each) for each in targets),
        lambda names: f"There is: {', '.join(names) or 'none, for nothing was measured yet'}.",
    )


def _named(graph: Graph, kind: NodeKind) -> Iterator[str]:
    for _, data in graph.nodes(data=True):
        if data["kind"] == kind.value:
            yield data["title"]


def _title(graph: Graph, node: str) -> str:
    return str(graph.nodes[node]["title"])


def _targets(graph: Graph) -> Iterator[str]:
    """Keys of hardware, and where something was tested or is to be confirmed."""
    kinds = (NodeKind.HARDWARE, NodeKind.EXPERIMENT, NodeKind.HYPOTHESIS)
    for _, data in graph.nodes(data=True):
        if data["kind"] in kinds and data.get("target"):
            yield data["target"]


def number_of(label: str) -> int:
    """Return the number of a label."""
    return int(label.partition("-")[2])
