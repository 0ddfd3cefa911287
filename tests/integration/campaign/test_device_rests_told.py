"""What pages, the summary and the campaign's sheet say of a device that rests."""

import re
from collections.abc import Callable

import pytest

from agent.campaign.device_rests import FIRST_LOOK_S
from cli.sheets.campaign import print_campaign
from db.clock import after
from db.models import Campaign
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.devices import devices_at_rest
from knowledge.queries.facts import campaign_facts
from knowledge.queries.found.verification import verification
from knowledge.queries.present.now import NowView, Standing
from knowledge.telling.summary import summarize
from tests.integration.campaign.shared_bench import BUSY, FREE, NOTEBOOK, TAKEN, SharedBench, bench

__all__ = ["bench"]


def test_pages_and_summary_say_that_it_rests_and_no_more_when_it_is_back(bench: SharedBench) -> None:
    bench.found["cuda:0"] = TAKEN
    shown: list[NowView] = []
    words: list[str] = []

    def look() -> None:
        shown.append(bench.shown())
        with bench.database.read() as session:
            assert [each.device for each in campaign_detail(session, bench.campaign_id).devices_at_rest] == [
                each.device for each in devices_at_rest(session, bench.campaign_id)
            ]
            part = summarize(campaign_facts(session, bench.campaign_id)).at_rest
            words.append("" if part is None else f"{part.sentence} {' '.join(part.lines)}")

    bench.drive(
        bench.end(failure=BUSY),
        bench.nothing,
        look,
        bench.says(FREE),
        bench.passes(FIRST_LOOK_S),
        bench.nothing,
        bench.one_runs,
        look,
    )
    first, second = shown
    assert first.campaign is not None
    assert first.campaign.standing is Standing.RESTING
    assert [each.device for each in first.at_rest] == ["cuda:0"]
    assert NOTEBOOK in first.at_rest[0].told
    assert words[0].startswith("cuda:0 rests, because others use it.")
    assert re.search(rf"since [-0-9]+ [:0-9]+ UTC; told then: .*{re.escape(NOTEBOOK)}", words[0])
    assert (second.at_rest, words[1]) == ((), "")


def lets_go(bench: SharedBench) -> None:
    """The loop gave its lease back as it died."""


def lease_runs_out(bench: SharedBench) -> None:
    with bench.database.write() as session:
        campaign = session.get_one(Campaign, bench.campaign_id)
        campaign.owner, campaign.owner_lease_expires_at = "elsewhere#1#x", after(-1)


@pytest.mark.parametrize("gone", [lets_go, lease_runs_out])
def test_of_an_interrupted_campaign_is_said_that_it_rested(
    bench: SharedBench, gone: Callable[[SharedBench], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.drive(bench.end(failure=BUSY), bench.nothing, die)
    gone(bench)
    shown = bench.shown()
    assert shown.campaign is not None
    assert shown.campaign.standing is Standing.INTERRUPTED
    assert [(each.device, each.interrupted) for each in shown.at_rest] == [("cuda:0", True)]
    with bench.database.read() as session:
        part = summarize(campaign_facts(session, bench.campaign_id)).at_rest
        print_campaign(campaign_detail(session, bench.campaign_id), verification(session, bench.campaign_id))
    assert part is not None
    assert part.sentence == "cuda:0 rested when the campaign was interrupted, because others used it."
    assert "at rest when it was interrupted: cuda:0" in " ".join(capsys.readouterr().out.split())
    assert part.lines == ("looked at as soon as it goes on: autoinfer run --resume C-1",)
