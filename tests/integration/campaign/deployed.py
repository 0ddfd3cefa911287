"""A campaign whose best was tested against the baseline by real processes, and its recipe."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from pathlib import Path

import pytest
from sqlalchemy import select

from agent.campaign.learning.outcome import note_best
from agent.recipe.checking import Checked, check
from agent.recipe.making import recipe_of
from agent.recipe.planning import CHECK_S
from agent.recipe.recipe import Recipe
from db.models import (
    Finding,
    Verdict,
)
from db.session import Database, open_database
from db.states import FindingStatus
from tests.integration.campaign.test_promoting import ORIGINAL, measured, run
from tests.new_database import FILE_NAME, database_url
from tests.simulated.campaign import registered_here

GAIN = log(0.7)
"""What the simulated engine's answer gains: 7 ms a token in place of 10."""


@dataclass(frozen=True)
class Deployed:
    """A campaign whose best was tested against the baseline, and its recipe."""

    database: Database
    folder: Path
    recipe: Recipe

    def check(self, recipe: Recipe, within_s: float = CHECK_S) -> Checked:
        return check(self.database, recipe, lambda: run(self.database, self.folder, "cpu"), within_s=within_s)

    def findings(self) -> list[tuple[FindingStatus, str | None]]:
        with self.database.read() as session:
            rows = session.execute(select(Finding.status, Finding.stale_cause).order_by(Finding.id))
            return [(status, cause) for status, cause in rows]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Recipe]:
    """Measured once; tests that write work on copies of its database."""
    folder = tmp_path_factory.mktemp("first")
    made = measured(folder)
    with made.database.write() as session:
        note_best(session, 1)
    with registered_here(folder), made.database.read() as session:
        recipe = recipe_of(session, 1, folder / "cache")
    made.database.close()
    return folder, recipe


@pytest.fixture
def deployed(first: tuple[Path, Recipe], tmp_path: Path) -> Iterator[Deployed]:
    folder, recipe = first
    shutil.copy(folder / FILE_NAME, tmp_path / FILE_NAME)
    database = open_database(database_url(tmp_path))
    yield Deployed(database, folder, recipe)
    database.close()


def promising(recipe: Recipe, effect: float) -> Recipe:
    """The recipe as if its file promised another effect, within a hundredth."""
    promise = recipe.promise.model_copy(
        update={"effect_log": effect, "low_log": effect - 0.01, "high_log": effect + 0.01}
    )
    return recipe.model_copy(update={"promise": promise})


def remembering(database: Database, effect: float) -> None:
    """Let the database say that the first test had found another effect, within a hundredth."""
    with database.write() as session:
        verdict = session.scalars(select(Verdict).where(Verdict.experiment_id == ORIGINAL)).one()
        verdict.effect_log = effect
        verdict.interval_low_log, verdict.interval_high_log = effect - 0.01, effect + 0.01
