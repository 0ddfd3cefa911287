"""A campaign that judged nothing says how to go on, at its end and whenever it is asked, and goes on so."""

from sqlalchemy import select

from agent.campaign.beginning.create import stored_spec
from db.models import Campaign
from db.session import open_database
from db.states import CampaignState
from tests.integration.cli.command import Autoinfer
from tests.integration.mcp.calling import ask
from tests.new_database import database_url

BESIDE = "--no-worker --no-dashboard"
SAID = "Nothing was judged; go on with: autoinfer run --resume C-1"


def test_one_whose_budget_was_spent_before_a_verdict_says_how_to_go_on_and_does(autoinfer: Autoinfer) -> None:
    ended = autoinfer(f"run --new --budget 1s {BESIDE}")
    assert ended.out.splitlines()[-1] == f"{SAID} --budget 30m"
    assert f"{SAID} --budget 30m" in autoinfer("summary").out.splitlines()
    assert autoinfer("summary --json").json()["go_on"] == f"{SAID} --budget 30m"
    again = autoinfer(f"run --resume C-1 --budget 1s {BESIDE} --json")
    assert again.json()["go_on"] == f"{SAID} --budget 30m"
    assert "the budget of 1 s" not in again.json()["stopped_because"], "what was spent stays spent"


def test_one_that_judged_something_says_nothing_of_it_when_it_is_stopped(with_history: Autoinfer) -> None:
    assert with_history("campaign stop").code == 0
    assert SAID not in with_history("summary").out
    assert with_history("summary --json").json()["go_on"] is None


def test_who_stops_one_that_judged_nothing_and_a_coding_agent_are_told_how_to_go_on(
    autoinfer: Autoinfer,
) -> None:
    assert autoinfer(f"run --new --budget 1s {BESIDE}").code == 0
    said = f"{SAID} --budget 30m"
    assert ask(autoinfer.data_dir, "summary").structured["go_on"] == said
    let_run(autoinfer)
    undriven = "Go on with: autoinfer run --resume C-1 --budget 30m"
    assert ask(autoinfer.data_dir, "summary").structured["go_on"] == undriven
    headline, go_on, *_ = autoinfer("summary").out.splitlines()
    assert headline.endswith(": it was interrupted, and nothing drives it.")
    assert go_on == undriven
    assert "It was interrupted, and nothing drives it." in autoinfer("story").out
    assert autoinfer("campaign stop").out == f"C-1 has ended.\n{said}\n"
    let_run(autoinfer)
    assert autoinfer("campaign stop --json").json()["go_on"] == said


def let_run(autoinfer: Autoinfer) -> None:
    """Leave the campaign as a process leaves it that was killed."""
    database = open_database(database_url(autoinfer.data_dir))
    with database.write() as session:
        session.get_one(Campaign, 1).state = CampaignState.RUNNING
    database.close()


def test_a_workload_by_options_is_kept_with_the_campaign_and_told_and_no_other_goes_on_with_it(
    autoinfer: Autoinfer,
) -> None:
    asked = "--prompt-tokens 64 --new-tokens 16"
    told = autoinfer(f"run --budget 1s {asked} {BESIDE}")
    assert "workload: 1 request at once of 64 + 16 tokens" in told.out
    again = autoinfer(f"run --resume C-1 --budget 1s --prompt-tokens 96 {BESIDE}")
    assert again.code == 2
    assert "C-1 goes on as it was begun, so --prompt-tokens has no meaning beside --resume." in again.err
    database = open_database(database_url(autoinfer.data_dir))
    with database.read() as session:
        (spec,) = (stored_spec(each) for each in session.scalars(select(Campaign)))
    database.close()
    assert spec is not None
    workload = spec.plan.workload
    assert (workload.concurrency, workload.prompt_tokens, workload.new_tokens) == (1, 64, 16)
