"""The campaign's own questions: from its file to hypotheses that stand first in the queue.

`check_questions` is asked before a campaign begins: an unknown knob, a value of another type than the
knob's and a knob that means nothing beside the others are mistakes of writing. A value that the space does
not have, and what this model, engine or parameter budget does not allow, is no mistake of writing, for one
file is asked of many models: such a question becomes a hypothesis that is infeasible, with the cause, and
the campaign goes on. What another campaign answered already is not tested again, unless the file says
`ask_again`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

from sqlalchemy.orm import Session

from agent.campaign.decision.desk import Desk
from agent.campaign.decision.leaving import QUESTIONS
from agent.campaign.queue.accept import accept, put_down
from agent.campaign.queue.answered_there import answered_there
from agent.ground.drafter import space_of
from agent.ground.legal import Legal
from agent.proposers.claims import refuted_if, unpredicted
from agent.proposers.port import Draft
from agent.surrogate.levers import joined
from configs.campaign import CampaignSpec
from configs.errors import UsageError
from configs.questions import FEWEST, KnobSetting, Question
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.knob import Knob
from experiments.space.legality import with_stored_kernels
from experiments.space.space import Space


def check_questions(spec: CampaignSpec, space: Space, where: str) -> None:
    """Raise `UsageError` for a question with an unknown knob, a value of a type that its knob never has, or
    an inactive knob.

    The message names `where`, which is the campaign's file, the field and the question.
    """
    for number, question in enumerate(spec.questions):
        for arm, knobs in (("control", question.control), ("candidate", question.candidate)):
            try:
                _check_written(knobs, space)
            except UsageError as error:
                field = f"questions.{number}.{arm}"
                raise UsageError(
                    f"{where}: {field} of the question {question.id}: {error.message}", error.hint
                ) from None


def pose_questions(session: Session, desk: Desk) -> None:
    """Write the questions down that are no hypotheses yet: queued, infeasible with the cause, or answered by
    another campaign."""
    for question in desk.facts.unasked:
        try:
            control, candidate = arms_of(question, desk.legal, desk.baseline_configuration)
            if control == candidate:
                raise UsageError("Both arms are the same on this baseline.", "Name other knobs.")
            draft = _draft(question, control, candidate, desk.space, desk.beliefs.predict)
            there = None if desk.facts.spec.ask_again else answered_there(session, desk.facts, draft)
            if there is None:
                accept(session, desk.facts.id, draft, question.metric, desk.space, question=question.id)
            else:
                put_down(session, desk.facts.id, draft, question.metric, question=question.id, answered=there)
        except UsageError as error:
            _put_down_as_infeasible(session, desk, question, error.message)


def arms_of(question: Question, legal: Legal, baseline: Configuration) -> tuple[Configuration, Configuration]:
    """The control and the candidate of a question on a baseline; raises `UsageError` with the cause where one
    can't be."""
    return (_arm(question.control, legal, baseline), _arm(question.candidate, legal, baseline))


def _put_down_as_infeasible(session: Session, desk: Desk, question: Question, cause: str) -> None:
    # with what this model and machine do not have
    space = with_stored_kernels(space_of(desk.facts.spec), desk.legal.packing)
    space = space.that_has(desk.baseline_configuration)
    control, candidate = (
        _as_written(knobs, space, desk.baseline_configuration)
        for knobs in (question.control, question.candidate)
    )

    def nothing_known(before: Configuration, after: Configuration, metric: Metric) -> Prediction:
        return unpredicted(metric, question.min_effect)

    put_down(
        session,
        desk.facts.id,
        _draft(question, control, candidate, space, nothing_known),
        question.metric,
        question=question.id,
        impossible=cause,
    )


def _draft(
    question: Question,
    control: Configuration,
    candidate: Configuration,
    space: Space,
    predict: Callable[[Configuration, Configuration, Metric], Prediction],
) -> Draft:
    metric = Metric(question.metric)
    named = {space.knob(name).lever for name in {*question.control, *question.candidate}}
    return Draft(
        claim=question.claim,
        control=control,
        candidate=candidate,
        lever=joined(space.levers_between(control, candidate) or tuple(sorted(named))),
        prediction=predict(control, candidate, metric),
        min_effect=question.min_effect,
        refuted_if=refuted_if(metric, question.min_effect),
        rationale=f"{question.asks.rstrip()} {question.why.strip()}",
        proposer=QUESTIONS,
        metric=metric,
    )


def _check_written(knobs: Mapping[str, KnobSetting], space: Space) -> None:
    """Raise `UsageError` for what is a mistake of writing whatever the model is."""
    given: dict[str, KnobValue] = {}
    for name, value in knobs.items():
        knob = space.knob(name)
        if value == FEWEST and not knob.allows(FEWEST):
            if not knob.values:
                raise UsageError(f"{name} has no values to take the fewest of.", f"It can be {knob.choices}.")
            value = knob.values[0]
        if not _is_of_its_type(value, knob):
            knob.check(value)
        given[name] = value
    if all(space.knob(name).allows(value) for name, value in given.items()):
        space.with_change(space.configuration({}), given)


def _is_of_its_type(value: KnobValue, knob: Knob) -> bool:
    return type(value) in {*map(type, knob.values), *([str] if knob.also is not None else [])}


def _arm(knobs: Mapping[str, KnobSetting], legal: Legal, baseline: Configuration) -> Configuration:
    """The arm on the baseline, with the first values in place of `FEWEST` at which it can be.

    Raises `UsageError` with the cause when it can't be at all.
    """
    space = legal.space
    wanted = [name for name, value in knobs.items() if value == FEWEST]
    cause = ""
    for values in product(*(space.knob(name).values for name in wanted)):
        given = {**knobs, **dict(zip(wanted, values, strict=True))}
        never = legal.why_never(given)
        if never is not None:
            cause = never
            continue
        try:
            found = space.with_change(baseline, given)
        except UsageError as error:
            cause = legal.why_not(given) or str(error)
            continue
        refusal = legal.refused(found)
        if refusal is None:
            return found
        cause = refusal
    raise UsageError(cause, "Ask for another arm.")


def _as_written(knobs: Mapping[str, KnobSetting], space: Space, baseline: Configuration) -> Configuration:
    """The arm as the file has it, to be shown with what speaks against it; the last value for `FEWEST`."""
    given = {name: space.knob(name).values[-1] if value == FEWEST else value for name, value in knobs.items()}
    try:
        return space.with_change(baseline, given)
    except UsageError:
        return Configuration.of({**baseline, **given})
