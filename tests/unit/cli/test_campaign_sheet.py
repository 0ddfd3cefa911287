"""The sheet of `autoinfer show C-1`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cli.sheets.campaign import print_campaign
from db.models import Campaign
from knowledge.queries.campaigns import campaign_detail
from knowledge.queries.found.verification import verification
from tests.history.campaign_history import a_full_history


def test_it_ran_as_long_as_the_loop_counted_and_not_since_it_began(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = a_full_history(tmp_path)
    with history.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        assert campaign.started_at is not None
        campaign.started_at -= timedelta(days=2)
        campaign.budget = {**campaign.budget, "spent_s": 291.0}
    with history.database.read() as session:
        print_campaign(campaign_detail(session, 1), verification(session, 1))
    history.close()
    told = " ".join(capsys.readouterr().out.split())
    assert "spent 4 experiments in 2 min 48 s, beside 1 that has not ended" in told
    assert "; 4 min 51 s spent, by the clock while it ran" in told
    assert "2 d" not in told
