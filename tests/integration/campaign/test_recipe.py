"""A recipe of a campaign's best: what it promises, where there is none, and what is read as one."""

import json
from math import exp
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import select

from agent.recipe.folder import BUILD, README, RECIPE, SERVE, files_of
from agent.recipe.making import recipe_of
from agent.recipe.recipe import Recipe, read_recipe
from configs.errors import UsageError
from db.models import Campaign, Environment, Launch
from tests.integration.campaign.deployed import GAIN, Deployed, deployed, first
from tests.simulated.campaign import registered_here

__all__ = ["deployed", "first"]


def test_a_recipe_promises_what_its_own_test_measured_and_says_how_it_is_served(
    first: tuple[Path, Recipe],
) -> None:
    _, recipe = first
    assert (recipe.campaign, recipe.experiment, recipe.rests_on) == ("C-1", "E-0002", ("E-0002",))
    assert recipe.changed == {"simulated.tpot_ms": 7.0}
    assert recipe.promise.effect_log == pytest.approx(GAIN, abs=0.02)
    assert not recipe.promise.chained
    files = files_of(recipe)
    assert json.loads(files[RECIPE])["seal"] == recipe.seal
    model = recipe.serve.words[1]
    shell = recipe.serve.shell.replace(model, '"$RECIPE_MODEL"')
    assert files[SERVE].endswith(f"{shell}\n")
    assert f"The model is taken from `{model}`; from elsewhere" in files[README]
    assert BUILD not in files, "nothing is built for it"
    assert "cuda" not in files[README], "it was found on a processor"
    assert read_recipe(files[RECIPE], "recipe.json") == recipe


def test_what_a_person_reads_says_what_the_gain_costs_in_quality(first: tuple[Path, Recipe]) -> None:
    _, recipe = first
    bits = {"difference": 0.005, "low": 0.003, "high": 0.007, "margin": 0.01, "count": 128}
    tasks = {"difference": -4.42, "low": -6.05, "high": -2.85, "margin": 2.0, "count": 1200}
    scored = recipe.promise.model_copy(update={"bits_per_byte": bits, "task_points_lost": tasks})
    told = files_of(recipe.model_copy(update={"promise": scored}))[README]
    assert "- Bits per byte: +0.50 % [+0.30, +0.70] over 128 documents, allowed +1.0 %\n" in told
    minus = "\N{MINUS SIGN}"
    assert (
        f"- Tasks lost: {minus}4.42 points [{minus}6.05, {minus}2.85] over 1,200 items, allowed +2.0 points\n"
        in told
    )
    unknown = recipe.promise.model_copy(update={"bits_per_byte": None, "task_points_lost": None})
    assert "quality was not measured" in files_of(recipe.model_copy(update={"promise": unknown}))[README]


def test_versions_and_revision_are_those_of_most_launches_of_the_test_that_made_the_best(
    deployed: Deployed,
) -> None:
    """Not of what else ran, nor of scores of the reference that were made before, whose launch is kept with
    each test that took them."""
    with deployed.database.write() as session:
        own = {launch.id: launch.experiment_id == 2 for launch in session.scalars(select(Launch))}
        ids = [number for number, is_own in own.items() if is_own]
        assert len(ids) > 2
        for number, is_own in own.items():
            launch = session.get_one(Launch, number)
            was = session.get_one(Environment, launch.environment_digest).data
            word = "other" if not is_own else "score" if number == ids[-1] else "timed"
            machine = {**was.get("machine", {}), "git_revision": word, "packages": {"torch": word}}
            session.add(Environment(digest=f"{word}-{number}", data={**was, "machine": machine}))
            launch.environment_digest = f"{word}-{number}"
    with registered_here(deployed.folder), deployed.database.read() as session:
        found = recipe_of(session, 1, deployed.folder / "cache")
    assert found.versions["torch"] == found.machine["git_revision"] == "timed"


def test_what_must_be_found_again_is_less_than_the_least_that_was_promised(
    first: tuple[Path, Recipe],
) -> None:
    promise = first[1].promise
    assert promise.low_log < promise.effect_log < promise.high_log < promise.bound_log < 0
    assert exp(promise.bound_log) == pytest.approx(1 - promise.least_effect)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{}", "format: field required"),
        ("nonsense", "invalid JSON"),
        ("[]", "object"),
    ],
)
def test_what_is_no_recipe_is_refused_with_the_place(broken: str, said: str) -> None:
    with pytest.raises(UsageError, match="is no recipe") as caught:
        read_recipe(broken, "x.json")
    assert said.lower() in caught.value.message.lower()


def test_a_value_that_may_be_one_of_several_kinds_is_refused_with_all_of_them(
    first: tuple[Path, Recipe],
) -> None:
    told = {**json.loads(first[1].model_dump_json()), "baseline": {"simulated.threads": [1]}}
    with pytest.raises(UsageError) as caught:
        read_recipe(json.dumps(told), "x.json")
    wanted = "baseline.simulated.threads: it should be true or false, a whole number, a number or text."
    assert caught.value.message == f"x.json is no recipe: {wanted}"


def test_a_gain_that_is_none_can_t_be_promised(first: tuple[Path, Recipe]) -> None:
    text = first[1].model_dump_json().replace(f'"high_log":{first[1].promise.high_log}', '"high_log":0.1')
    with pytest.raises(UsageError, match=r"promise\.high_log"):
        read_recipe(text, "x.json")


def test_a_gain_beyond_all_belief_is_refused_before_anything_is_made_of_it(
    first: tuple[Path, Recipe],
) -> None:
    told = json.loads(first[1].model_dump_json())
    for name in ("effect_log", "low_log"):
        wrong = {**told, "promise": {**told["promise"], name: 1e308}}
        with pytest.raises(UsageError, match=f"promise.{name}"):
            read_recipe(json.dumps(wrong), "x.json")


def test_a_best_without_a_baseline_is_not_deployed_nor_checked(deployed: Deployed, tmp_path: Path) -> None:
    with deployed.database.write() as session:
        session.get_one(Campaign, 1).baseline_configuration_id = None
    with deployed.database.read() as session, pytest.raises(UsageError, match="C-1 has no baseline"):
        recipe_of(session, 1, tmp_path)
    with pytest.raises(UsageError, match="C-1 has no baseline"):
        deployed.check(deployed.recipe)


def test_nothing_is_deployed_of_made_up_weights_or_where_nothing_beats_the_baseline(
    deployed: Deployed, tmp_path: Path
) -> None:
    with deployed.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.best_experiment_id = None
    with deployed.database.read() as session, pytest.raises(UsageError, match="beats its baseline"):
        recipe_of(session, 1, tmp_path)
    with deployed.database.write() as session:
        campaign = session.get_one(Campaign, 1)
        campaign.spec = {**campaign.spec, "weights": "dummy"}
    with deployed.database.read() as session, pytest.raises(UsageError, match="made-up weights"):
        recipe_of(session, 1, tmp_path)


def test_an_engine_that_names_no_command_is_refused(deployed: Deployed, tmp_path: Path) -> None:
    with (
        patch("agent.recipe.making.load_engine", lambda name: object()),
        deployed.database.read() as session,
        pytest.raises(UsageError, match="names no command"),
    ):
        recipe_of(session, 1, tmp_path)
