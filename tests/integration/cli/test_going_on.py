"""A campaign that judged nothing says how to go on, at its end and whenever it is asked, and goes on so."""

from tests.integration.cli.command import Autoinfer

BESIDE = "--no-worker --no-dashboard"
SAID = "Nothing was judged; go on with: autoinfer run --resume C-1"


def test_one_whose_budget_was_spent_before_a_verdict_says_how_to_go_on_and_does(autoinfer: Autoinfer) -> None:
    ended = autoinfer(f"run --new --budget 1s {BESIDE}")
    assert ended.out.splitlines()[-1] == f"{SAID} --budget 30m"
    assert f"{SAID} --budget 30m" in autoinfer("summary").out.splitlines()
    assert autoinfer("summary --json").json()["go_on"] == f"{SAID} --budget 30m"
    again = autoinfer(f"run --resume C-1 --budget 1s {BESIDE} --json")
    assert again.json()["go_on"] == f"{SAID} --budget 30m"
    assert "the budget of 1s" not in again.json()["stopped_because"], "what was spent stays spent"


def test_one_that_judged_something_says_nothing_of_it_when_it_is_stopped(with_history: Autoinfer) -> None:
    assert with_history("campaign stop").code == 0
    assert SAID not in with_history("summary").out
    assert with_history("summary --json").json()["go_on"] is None
