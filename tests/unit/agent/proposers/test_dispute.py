"""What is tested of a dispute: one suspect a hypothesis, the same change, and no more than can be tried."""

from collections.abc import Mapping
from dataclasses import replace

from agent.proposers.dispute import MOST_SUSPECTS, PROPOSER, Disputed, Suspect, suspects, take_apart
from experiments.measurement.evidence import Metric
from experiments.measurement.plan import Prediction
from experiments.space.configuration import Configuration, KnobValue
from experiments.space.loading import load_space

SPACE = load_space("reference")
CONTROL = SPACE.configuration({})
CANDIDATE = SPACE.with_change(CONTROL, {"pruning.method": "depth"})


def predict(control: Configuration, candidate: Configuration, metric: Metric) -> Prediction:
    return Prediction(log_ratio_mean=0.0, log_ratio_sd=0.1)


def disputed(
    control_there: Mapping[str, KnobValue] | None = None, ran_there: Mapping[str, str] | None = None
) -> Disputed:
    return Disputed(
        hypothesis_id=4,
        claim="Fewer layers make a token at least 3 % faster.",
        control=CONTROL,
        candidate=CANDIDATE,
        metric=Metric.TPOT_MS,
        min_effect=0.03,
        question="F-001 says that it helps, F-002 that it does not help: is it the hardware?",
        control_there=control_there or {},
        ran_here={"dtype": "float32", "threads": "2"},
        ran_there=ran_there or {},
    )


def test_each_suspect_is_tried_by_itself_with_the_same_change() -> None:
    found = take_apart(SPACE, disputed({"serving.threads": 4}, {"dtype": "bfloat16"}), predict)
    assert [suspect for suspect, _ in found] == [
        Suspect("serving.threads", 4),
        Suspect("serving.dtype", "bfloat16"),
    ]
    for suspect, draft in found:
        assert draft.control == SPACE.with_change(CONTROL, {suspect.knob: suspect.value})
        assert draft.control.changes_to(draft.candidate) == CONTROL.changes_to(CANDIDATE)
        assert (draft.proposer, draft.parents) == (PROPOSER, (4,))


def test_what_is_alike_or_was_changed_or_was_not_told_here_is_no_suspect() -> None:
    alike = disputed({"serving.threads": 2, "pruning.method": "depth"}, {"threads": "2", "kernel": "x"})
    assert suspects(SPACE, alike) == ()
    untold = replace(disputed(ran_there={"dtype": "bfloat16"}), ran_here={})
    assert suspects(SPACE, untold) == ()


def test_what_this_space_or_this_model_does_not_allow_is_left_out() -> None:
    assert take_apart(SPACE, disputed({"serving.threads": 3}), predict) == ()
    refused = take_apart(SPACE, disputed({"serving.threads": 4}), predict, refused=lambda _: "no")
    assert refused == ()


def test_no_more_suspects_are_tried_than_one_dispute_is_worth() -> None:
    there: dict[str, KnobValue] = {
        "serving.threads": 4,
        "serving.dtype": "bfloat16",
        "serving.compile": "default",
        "drafting.method": "ngram",
    }
    assert len(suspects(SPACE, disputed(there))) == 4
    assert len(take_apart(SPACE, disputed(there), predict)) == MOST_SUSPECTS == 3
