"""How the JSON columns are read: the one place that knows their shapes, and what to make of an absent part.

The rooms that write them own the shapes: a campaign's `spec` and an experiment's `plan` are dumps of what the
loop dispatched, so this page reads what it needs and never fails on what it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from db.models import Verdict
from db.models.base import JsonObject
from experiments.space.configuration import Configuration
from knowledge.figures import DEFAULT_METRIC

QUALITY_HELD, QUALITY_WORSE = "held", "worse"
"""States of quality in a verdict that settle it; any other leaves it open."""

VERSIONS = "versions"
"""Where a launch's resolved configuration tells the versions of its packages."""

LEVER_JOINT = "+"
"""Between the names of levers where a change touches several: `compile+pruning`."""


SEPARATES = "separates"
"""Where a hypothesis's `change` keeps which confounded experiment it separates the causes of."""

STANDS_FOR = "stands_for"
"""Where it keeps there the id of the confounded hypothesis, where it makes the same claim anew."""

CORNER = "corner"
"""Where it keeps there over which corner its way goes (`agent.proposers.separation.Corner`)."""

HELD = "held"
"""Where it keeps there the knobs that are fixed in both arms for that."""

FORESEEN = "foreseen"
"""Where it keeps there that the hypothesis in whose place it stands was not tested at all: what confounded
the experiment would have confounded that too."""


DISPUTES = "disputes"
"""Where a hypothesis's `change` keeps which findings' dispute it takes apart, and by which knob."""


TOLD_BY = "told_by"
"""Where the scope of a finding that was written down keeps by whom, where that was not the user."""


FROM_MODEL = "from_model"
"""Where a hypothesis's `change` keeps the answer of a language model that it is of, and the findings that it
builds on."""


ANSWERED_BY = "answered_by"
"""Where a hypothesis's `change` keeps the id of the experiment of another campaign that answers its question,
where that is not tested again."""


UNDER_WAY = "under_way"
"""What the `outcome` of a language model's answer says as long as none was seen; gone once it is settled."""


def answer_of(change: Mapping[str, object]) -> int | None:
    """Return the id of the language model's answer that a hypothesis is of, from its `change`."""
    told = change.get(FROM_MODEL)
    return told["answer"] if isinstance(told, dict) and isinstance(told.get("answer"), int) else None


def answered_by_of(change: Mapping[str, object]) -> int | None:
    """Return the id of another campaign's experiment that answers a question, from its hypothesis's
    `change`."""
    number_ = change.get(ANSWERED_BY)
    return number_ if isinstance(number_, int) else None


_FINDING = re.compile(r"F-[0-9]{1,15}", re.ASCII)
BUILDS_ON = "builds_on"
"""Where a hypothesis's `change`, or what it keeps of its proposer, has the labels of the findings because of
which it was proposed."""


def builds_on(change: Mapping[str, object]) -> tuple[str, ...]:
    """Return the labels of the findings that a hypothesis builds on, by its proposer's own word."""
    told = change.get(FROM_MODEL)
    lists = [change.get(BUILDS_ON), told.get(BUILDS_ON) if isinstance(told, dict) else None]
    return tuple(str(label) for each in lists if isinstance(each, list) for label in each)


def findings_behind(change: Mapping[str, object]) -> tuple[str, ...]:
    """Return the labels of the findings that a hypothesis builds on or whose dispute it takes apart."""
    parts = [each for each in change.values() if isinstance(each, dict)]
    found = [change.get(BUILDS_ON), *(each.get(BUILDS_ON) for each in parts), disputes_of(change)]
    lists = [each for each in found if isinstance(each, list | tuple)]
    named = (str(label) for each in lists for label in each)
    return tuple(dict.fromkeys(each for each in named if _FINDING.fullmatch(each)))


def disputes_of(change: Mapping[str, object]) -> tuple[str, ...]:
    """Return the labels of the findings whose dispute a hypothesis takes apart, from its `change`."""
    told = change.get(DISPUTES)
    named = told.get("findings") if isinstance(told, dict) else None
    return tuple(str(each) for each in named) if isinstance(named, list | tuple) else ()


def separates_of(change: Mapping[str, object]) -> str | None:
    """Return the label of the confounded experiment that a hypothesis separates, from its `change`."""
    told = change.get(SEPARATES)
    return str(told["experiment"]) if isinstance(told, dict) and "experiment" in told else None


def stands_for_of(change: Mapping[str, object]) -> int | None:
    """Return the id of the confounded hypothesis whose claim a hypothesis makes anew, from its `change`."""
    told = change.get(SEPARATES)
    number_ = told.get(STANDS_FOR) if isinstance(told, dict) else None
    return number_ if isinstance(number_, int) else None


def was_foreseen(change: Mapping[str, object]) -> bool:
    """Whether a hypothesis makes anew the claim of one that was not tested, from its `change`."""
    told = change.get(SEPARATES)
    return isinstance(told, dict) and told.get(FORESEEN) is True


def held_of(change: Mapping[str, object]) -> JsonObject:
    """Return the knobs that such a hypothesis fixes in both arms, from its `change`."""
    told = change.get(SEPARATES)
    held = told.get(HELD) if isinstance(told, dict) else None
    return dict(held) if isinstance(held, dict) else {}


def alpha_of(spec: JsonObject) -> float | None:
    """Return the alpha of a campaign's plan."""
    plan = spec.get("plan")
    return number(plan.get("alpha")) if isinstance(plan, dict) else None


def engine_of(spec: JsonObject) -> str:
    """Return the engine a campaign runs on: `spec["engine"]`."""
    return str(spec.get("engine", "reference"))


def metric_of(plan: Mapping[str, object]) -> str:
    """Return the judged metric of a stopping plan."""
    return str(plan.get("metric", DEFAULT_METRIC))


def judge_words(judge: Mapping[str, object]) -> str:
    """Return which judge gave a stored verdict: `launch-interval, version 9`."""
    name, version = str(judge.get("name") or "not known"), str(judge.get("version") or "")
    return f"{name}, version {version}" if version else name


def verdict_metric(verdict: Verdict) -> str:
    """Return the metric that a verdict's effect is on, as its judge says."""
    details = verdict.judge.get("details")
    return metric_of(details if isinstance(details, dict) else {})


def workload_of(plan: Mapping[str, object]) -> Mapping[str, object]:
    """Return the workload of a stopping plan, as a mapping; empty when it says nothing."""
    workload = plan.get("workload")
    return workload if isinstance(workload, dict) else {}


def min_effect_of(plan: Mapping[str, object]) -> float | None:
    """Return the margin of a stopping plan, relative."""
    found = plan.get("min_effect")
    return float(found) if isinstance(found, int | float) else None


def quality_held(quality: JsonObject | None) -> bool | None:
    """Return whether a verdict found that quality held; `None` when it was not measured or stayed open."""
    state = (quality or {}).get("state")
    return {QUALITY_HELD: True, QUALITY_WORSE: False}.get(str(state))


def versions_of(resolved: Mapping[str, object]) -> Mapping[str, object]:
    """Return the versions that a launch told in its resolved configuration, by package."""
    versions = resolved.get(VERSIONS)
    return versions if isinstance(versions, dict) else {}


def configuration_of(knobs: JsonObject) -> Configuration:
    """Return a stored configuration in its canonical form."""
    return Configuration.of(knobs)


def number(value: object) -> float | None:
    """Return a JSON number as a float, and anything else as `None`."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
