"""What drafting did to the text and how much it gave, from its check and from the timed runs. Pure.

**The text.** Each checked token was read back without a draft (`engines.port.DraftingCheck`). Verifying
several tokens at once rounds otherwise than decoding one, so a near-tie may turn without any fault; how often
it does is counted in the same launch without a draft, over the same tokens. Drafting changes the text when

- any token diverges beyond a near-tie: no rounding of this engine explains it, however often tokens turn; or
- near-ties are more than the turns without a draft explain: of n + f of them, under equal rates, n would be
  binomial with one half; a one-sided chance below `CHANCE_ALPHA` says that it is not.

**How much it gave.** The acceptance length is the mean number of tokens a verification step gave to the text,
over the checked prompts, or the timed ones until they are checked; what the last step gave beyond the end of
the text counts no more than it does in TPOT. It is held against the length at which a token would take as
long as in the control: the time of a step over the control's TPOT, from the timed runs. That is the
break-even length of drafting where the control does not draft and nothing else differs; otherwise it says
from when the whole change draws level with what the control does, such as a drafter and the pruning that
pays for it with the whole model and its MTP head. By position, whole steps are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from scipy.special import bdtrc

from agent.judge.pairs import TIMED_STAGES
from experiments.engines.reference.drafting.acceptance import (
    DROPPED_HEAD_LENGTH,
    acceptance_length,
    break_even_length,
    by_content_class,
    content_class,
    head_seems_dropped,
    kept_steps,
    position_rates,
)
from experiments.measurement.content_prompts import CONTENT_CLASSES
from experiments.measurement.drafting_due import METHOD, check_is_due, is_drafting
from experiments.measurement.evidence import Arm, Evidence, Json, LaunchRecord, Metric, Stage

CHANCE_ALPHA = 0.01
"""Chance to call a drafting that turns tokens as often as none does a change of the text, by the second rule
alone. One in a hundred: the rule guards against many near-ties, and seven of them against none, whose
chance is 0.5^7 = 0.8 %, are enough."""

FEWEST_PROMPTS = 4
"""Prompts of each class of content that must be checked: 4 × 3 × 63 tokens without one divergence say, with
95 % confidence, that fewer than one token in 250 diverges (rule of three)."""

UNTOLD = "untold"
"""The method of an arm that drafts and whose launches do not tell by what."""

OWN_METRICS = frozenset({Metric.TPOT_MS, Metric.STEP_TOKENS, Metric.STEP_WEIGHT_BYTES})
"""Metrics that a record under arm control tells of the control alone, never of another reference."""

WITHOUT_WEIGHTS = frozenset({"ngram"})
"""Methods with no weights of their own: few accepted drafts are no sign of dropped ones."""


@dataclass(frozen=True)
class DraftingReport:
    """What is known of an arm's drafting.

    Counts are sums over the checked prompts; `prompts` counts those by class, empty while nothing was
    checked. `by_position` is the share of steps whose i-th draft token stood, `by_class_and_position` the
    same of each class; `draws_level` a length in tokens a step, None without timed runs of both arms, and
    `break_even` that length where drafting alone was added. `step_ms` is the median time of a step in the
    timed runs.
    """

    acceptance: float
    steps: int
    by_position: tuple[float, ...]
    by_class: Mapping[str, float]
    by_class_and_position: Mapping[str, tuple[float, ...]]
    prompts: Mapping[str, int]
    checked_tokens: int
    divergences: int
    near_ties: int
    flips_without_draft: int
    near_tie_logits: float | None
    draws_level: float | None
    break_even: float | None
    dropped: bool
    step_ms: float | None = None

    @property
    def enough(self) -> bool:
        """Whether enough prompts of each class were checked."""
        return all(self.prompts.get(content, 0) >= FEWEST_PROMPTS for content in CONTENT_CLASSES)

    @property
    def changes_text(self) -> bool:
        """Whether the text differs by more than the engine's own near-ties explain."""
        if self.divergences:
            return True
        if self.near_ties <= self.flips_without_draft:
            return False
        together = self.near_ties + self.flips_without_draft
        return float(bdtrc(self.near_ties - 1, together, 0.5)) < CHANCE_ALPHA

    def sentence(self) -> str:
        """The check in words, with its numbers; without a full stop."""
        if not self.enough:
            counted = ", ".join(f"{self.prompts.get(content, 0)} {content}" for content in CONTENT_CLASSES)
            return f"drafting was checked on too few prompts ({counted}; {FEWEST_PROMPTS} of each are needed)"
        told = "drafting changes the text" if self.changes_text else "drafting keeps the text"
        return (
            f"{told} ({self.divergences} divergences and {self.near_ties} near-ties in "
            f"{self.checked_tokens:,} tokens, {self.flips_without_draft} turned without a draft; "
            f"{self.acceptance:.2f} tokens a step)"
        )

    def as_json(self) -> dict[str, Json]:
        """What a verdict stores of it."""
        return {
            "acceptance_length": self.acceptance,
            "acceptance_by_position": list(self.by_position),
            "acceptance_length_by_class": dict(self.by_class),
            "acceptance_by_class_and_position": {
                content: list(rates) for content, rates in self.by_class_and_position.items()
            },
            "draws_level_acceptance_length": self.draws_level,
            "break_even_acceptance_length": self.break_even,
            "step_ms": self.step_ms,
            "steps": self.steps,
            "prompts": dict(self.prompts),
            "checked_tokens": self.checked_tokens,
            "divergences": self.divergences,
            "near_ties": self.near_ties,
            "near_tie_logits": self.near_tie_logits,
            "flips_without_draft": self.flips_without_draft,
            "changes_text": self.changes_text if self.prompts else None,
        }


def drafting_report(evidence: Evidence, arm: Arm = Arm.CANDIDATE) -> DraftingReport | None:
    """What an arm's drafting did by now; None where nothing tells that it drafts."""
    checked = [record for record in evidence.of(arm, Stage.EVALUATE) if _was_checked(record)]
    timed = evidence.of(arm, *TIMED_STAGES)
    told = checked or [record for record in timed if record.of(Metric.STEP_TOKENS)]
    requests = _requests(told)
    whole = tuple(tokens for request in requests for tokens in request.steps)
    if not whole:
        return None
    counts = {metric: _total(checked, metric) for metric in _COUNTS}
    limits = [value for record in checked for value in record.values(Metric.NEAR_TIE_LOGITS)]
    drafted = max(whole) - 1
    classes = by_content_class((request.item, request.steps) for request in requests if checked)
    draws_level = _draws_level(evidence) if arm == Arm.CANDIDATE else None
    return DraftingReport(
        acceptance=acceptance_length([tokens for request in requests for tokens in request.kept]),
        steps=len(whole),
        by_position=position_rates(whole, drafted),
        by_class={
            content: acceptance_length(tokens)
            for content, tokens in by_content_class(
                (request.item, request.kept) for request in requests if checked
            ).items()
        },
        by_class_and_position={content: position_rates(steps, drafted) for content, steps in classes.items()},
        prompts=_prompts(checked),
        checked_tokens=counts[Metric.CHECKED_TOKENS],
        divergences=counts[Metric.DIVERGENCES],
        near_ties=counts[Metric.NEAR_TIES],
        flips_without_draft=counts[Metric.FLIPS_WITHOUT_DRAFT],
        near_tie_logits=max(limits) if limits else None,
        draws_level=draws_level,
        break_even=draws_level if _is_drafting_alone(evidence) else None,
        step_ms=_step_ms(evidence, arm),
        dropped=head_seems_dropped(whole) and method_of(evidence, arm) not in WITHOUT_WEIGHTS,
    )


def arm_is_due(evidence: Evidence, arm: Arm) -> bool:
    """Whether an evaluation must tell what an arm's drafting does; see `measurement.drafting_due`."""
    return check_is_due(evidence.changes, is_drafting(method_of(evidence, arm)))


def dropped_head(report: DraftingReport) -> str:
    """Why drafts that hardly ever stand end an experiment, in a sentence."""
    return (
        f"Drafts hardly ever stand: {report.acceptance:.2f} tokens a step over {report.steps} steps, at "
        f"most {DROPPED_HEAD_LENGTH:g}, as with a dropped head or a drafter of another model"
    )


_OF_REQUESTS = frozenset({Metric.TTFT_MS, Metric.E2EL_MS, Metric.TPOT_MS, Metric.CHECKED_TOKENS})
_COUNTS = (Metric.CHECKED_TOKENS, Metric.DIVERGENCES, Metric.NEAR_TIES, Metric.FLIPS_WITHOUT_DRAFT)


def _was_checked(record: LaunchRecord) -> bool:
    return bool(record.of(Metric.DIVERGENCES))


@dataclass(frozen=True)
class _Request:
    """A text written with drafts: its steps, and how many tokens it kept after its first (None: not told).

    Decode time in ms; None where it was not timed.
    """

    item: str
    steps: tuple[int, ...]
    tokens: int | None
    decode_ms: float | None

    @property
    def kept(self) -> tuple[int, ...]:
        return self.steps if self.tokens is None else kept_steps(self.steps, self.tokens)


def _requests(records: Iterable[LaunchRecord]) -> list[_Request]:
    found = []
    for record in records:
        steps: dict[tuple[int, str], list[int]] = {}
        values: dict[tuple[int, str], dict[Metric, float]] = {}
        for sample in record.samples:
            request = (sample.block, sample.item)
            if sample.metric == Metric.STEP_TOKENS:
                steps.setdefault(request, []).append(int(sample.value))
            elif sample.metric in _OF_REQUESTS:
                values.setdefault(request, {})[sample.metric] = sample.value
        found += [
            _request(item, each, values.get((block, item), {})) for (block, item), each in steps.items()
        ]
    return found


def _request(item: str, steps: list[int], told: Mapping[Metric, float]) -> _Request:
    decode_ms = None
    tokens = told.get(Metric.CHECKED_TOKENS)
    if {Metric.E2EL_MS, Metric.TTFT_MS} <= told.keys():
        decode_ms = told[Metric.E2EL_MS] - told[Metric.TTFT_MS]
        if Metric.TPOT_MS in told:
            tokens = decode_ms / told[Metric.TPOT_MS]
    return _Request(item, tuple(steps), None if tokens is None else round(tokens), decode_ms)


def _prompts(checked: Iterable[LaunchRecord]) -> Mapping[str, int]:
    items = {s.item for record in checked for s in record.of(Metric.DIVERGENCES)}
    return dict(sorted(Counter(content_class(item) for item in items).items()))


def _total(checked: Iterable[LaunchRecord], metric: Metric) -> int:
    return int(sum(value for record in checked for value in record.values(metric)))


def _draws_level(evidence: Evidence) -> float | None:
    """Median time of a step of the candidate over the median TPOT of the control."""
    step_ms = _step_ms(evidence, Arm.CANDIDATE)
    control = [v for record in evidence.of(Arm.CONTROL, *TIMED_STAGES) for v in record.values(Metric.TPOT_MS)]
    return break_even_length(step_ms, median(control)) if step_ms is not None and control else None


def _is_drafting_alone(evidence: Evidence) -> bool:
    """Whether nothing but drafting differs from a control that does not draft: what another lever saves or
    costs would be in the time of a step too."""
    others = any(change.knob.partition(".")[0] != "drafting" for change in evidence.changes)
    return not others and not is_drafting(method_of(evidence, Arm.CONTROL))


def _step_ms(evidence: Evidence, arm: Arm) -> float | None:
    """Median over timed requests of the time of a step; None without one."""
    timed = _requests(evidence.of(arm, *TIMED_STAGES))
    step_ms = [each.decode_ms / len(each.steps) for each in timed if each.decode_ms is not None]
    return median(step_ms) if step_ms else None


def method_of(evidence: Evidence, arm: Arm) -> str | None:
    """An arm's method: the claimed one, else what launches of the arm itself resolved to; None if nothing
    tells that it drafts."""
    for change in evidence.changes:
        if change.knob == METHOD:
            claimed = change.before if arm == Arm.CONTROL else change.after
            return None if claimed is None else str(claimed)
    own = [record for record in evidence.of(arm) if _is_of_the_arm(record)]
    for record in own:
        told = record.resolved.get("drafting")
        if isinstance(told, dict) and is_drafting(method := told.get("method")):  # type: ignore[arg-type]
            return str(method)
    both = any(change.knob.partition(".")[0] == "drafting" for change in evidence.changes)
    return UNTOLD if both or any(record.of(Metric.STEP_TOKENS) for record in own) else None


def _is_of_the_arm(record: LaunchRecord) -> bool:
    """Whether a record is one of the arm's own configuration: what a reference lends the control is scores,
    and neither times nor bytes nor steps."""
    return record.arm == Arm.CANDIDATE or any(record.of(metric) for metric in OWN_METRICS)
