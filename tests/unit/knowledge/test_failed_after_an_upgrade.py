"""An experiment of which nothing came up counts with the versions that the engine had, as far as it told."""

from collections.abc import Mapping

import pytest

from db.models import Experiment, Finding
from db.states import FindingStatus, VerdictOutcome
from knowledge.findings.facts import versions_of_experiments
from tests.history.campaign_history import VERSIONS, History

NO_MEMORY = ("out_of_memory", "There is no room for the weights.")


def fail_again(history: History, would_run_with: Mapping[str, str] | None) -> int:
    """A change that was supported, and a fresh run of it that does not come up; its experiment."""
    hypothesis_id = history.propose({"serving.threads": 1})
    first = history.judge(hypothesis_id, VerdictOutcome.SUPPORTED)
    again = history.judge(
        hypothesis_id,
        VerdictOutcome.INFEASIBLE,
        effect=None,
        reproduces=first.experiment_id,
        failure=NO_MEMORY,
        would_run_with=would_run_with,
    )
    return again.experiment_id


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (None, FindingStatus.CONTRADICTED),
        ({"torch": VERSIONS["torch"]}, FindingStatus.CONTRADICTED),
        ({"torch": "2.14.0"}, FindingStatus.SUPERSEDED),
    ],
    ids=["nothing told", "no upgrade", "upgraded"],
)
def test_what_does_not_run_is_held_against_what_ran_with_the_same_versions_alone(
    history: History, told: Mapping[str, str] | None, status: FindingStatus
) -> None:
    fail_again(history, told)
    with history.database.read() as session:
        assert session.get_one(Finding, 1).status is status


def test_what_it_did_not_tell_counts_as_at_its_campaign_s_last_launch(history: History) -> None:
    failed = fail_again(history, {"torch": "2.14.0", "of no launch": "1"})
    with history.database.read() as session:
        versions = versions_of_experiments(session, [session.get_one(Experiment, failed)])[failed]
    assert {name: versions[name] for name in VERSIONS} == {**VERSIONS, "torch": "2.14.0"}
    assert "of no launch" not in versions
