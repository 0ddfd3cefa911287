"""What is told on the terminal when a campaign begins."""

from pathlib import Path

import pytest

from cli.telling import Teller
from configs.campaign import load_campaign
from tests.history.campaign_history import a_full_history


@pytest.mark.parametrize("budget", ["1s", "90m", "8h"])
def test_the_header_names_the_budget_as_a_user_writes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str
) -> None:
    history = a_full_history(tmp_path)
    Teller(history.database, 1, quiet=False).header(load_campaign("default", {"budget": budget}), "here.db")
    history.close()
    assert f"budget {'1h30m' if budget == '90m' else budget}\n" in capsys.readouterr().out
