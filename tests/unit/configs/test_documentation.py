"""`docs/configuration.md` names every setting, campaign field, knob and profile as it is, and no other."""

from __future__ import annotations

import re
from operator import attrgetter
from pathlib import Path

import pytest
from pydantic import BaseModel

from configs.campaign import CampaignSpec, load_campaign
from configs.catalog import Kind, packaged_names
from configs.settings import DATABASE_FILE, ENVIRONMENT_PREFIX, Settings
from configs.settings_sources import load_settings
from experiments.job.context import DEFAULT_STAGE_LIMITS_S
from experiments.space.knob import Knob, listed, written
from experiments.space.loading import load_space

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text(encoding="utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """The table under a heading: the cells of each row by its first cell, without code marks."""
    section = re.split(rf"\n##+ {heading}\n", PAGE, maxsplit=1)[1]
    section = re.split(r"\n##+ ", section, maxsplit=1)[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {row[0].strip("`"): [cell.replace("`", "") for cell in row[1:]] for row in cells}


def block(language: str, with_field: str = "") -> str:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(next(each for each in found if f"{with_field}:" in each or not with_field))


def fields(model: type[BaseModel], prefix: str = "") -> dict[str, object]:
    """Dotted names of all fields; the budget is written in short."""
    found: dict[str, object] = {}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if name != "budget" and isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= fields(inner, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = field
    return found


def test_every_setting_is_documented_with_its_variable_and_default() -> None:
    documented = rows("Settings")
    assert set(documented) == set(Settings.model_fields)
    settings = load_settings(environment={"HOME": "/home/me"}, working_dir=Path("/home/me"))
    for name, (variable, default, meaning) in documented.items():
        value = settings.model_dump()[name]
        assert variable == f"{ENVIRONMENT_PREFIX}{name.upper()}"
        assert len(meaning) > 20
        if name == "data_dir":
            assert value == Path(default.replace("~", "/home/me"))
        elif name == "database_url":
            assert default == f"{DATABASE_FILE} in data_dir"
        elif value is None:
            assert default == "none"
        elif isinstance(value, Path):
            assert default == f"{value.relative_to(settings.data_dir)} in data_dir"
        elif isinstance(value, bool):
            assert default == str(value).lower()
        else:
            assert float(default) == value


def test_the_limits_of_stages_are_documented() -> None:
    documented = rows("The limits of stages")
    assert {stage: float(limit) for stage, (limit,) in documented.items()} == {
        stage.value: limit for stage, limit in DEFAULT_STAGE_LIMITS_S.items()
    }


def test_every_campaign_field_is_documented_with_its_default() -> None:
    documented = rows("Campaigns")
    assert set(documented) == set(fields(CampaignSpec))
    spec = load_campaign("default")
    for name, (default, meaning) in documented.items():
        given = default.strip("[]").split(", ") if default.startswith("[") else default
        typed = float(default) if re.fullmatch(r"[\d.]+", default) else given
        typed = {"[]": [], "none": None}.get(default, typed)
        assert typed is not None or attrgetter(name)(spec) is None, name
        assert load_campaign("default", {name: typed}) == spec, name
        assert len(meaning) > 10


HEADINGS = {"reference": "Knobs", "levers": "The space of all levers", "vllm": "The space of vLLM"}
"""Packaged spaces and the heading under which each stands."""


def documented_knobs() -> list[tuple[str, Knob]]:
    return [(HEADINGS[name], knob) for name in packaged_names(Kind.SPACES) for knob in load_space(name).knobs]


@pytest.mark.parametrize(
    ("heading", "knob"), documented_knobs(), ids=lambda each: getattr(each, "name", each)
)
def test_every_knob_is_documented_as_it_is(heading: str, knob: Knob) -> None:
    lever, values, default, active, meaning = rows(heading)[knob.name]
    assert lever == knob.lever
    also = [] if knob.also is None else [knob.also_like]
    assert values == ", ".join([*map(written, knob.values), *also])
    assert knob.default is not None
    assert default == written(knob.default)
    assert active == (" and ".join(f"{n} is {listed(v)}" for n, v in knob.when) or "always")
    assert len(meaning) > 20


@pytest.mark.parametrize(("space", "heading"), HEADINGS.items())
def test_no_knob_is_documented_that_is_not_there(space: str, heading: str) -> None:
    assert set(rows(heading)) == {knob.name for knob in load_space(space).knobs}


@pytest.mark.parametrize("kind", [Kind.MODELS, Kind.HARDWARE])
def test_every_packaged_profile_is_named(kind: Kind) -> None:
    missing = [name for name in packaged_names(kind) if f"`{name}`" not in PAGE]
    assert missing == []


def test_the_examples_are_accepted(tmp_path: Path) -> None:
    settings_file = tmp_path / "autoinfer.toml"
    settings_file.write_text(block("toml"), encoding="utf-8")
    settings = load_settings(environment={"HOME": str(tmp_path)}, working_dir=tmp_path)
    assert settings.stage_limit_s == 3600
    space_file = tmp_path / "own.yaml"
    space_file.write_text(block("yaml", "knobs"), encoding="utf-8")
    assert load_space(space_file).knob("quantization.group_size").values == (32, 64, 96, 128)
    campaign_file = tmp_path / "mine.yaml"
    campaign_file.write_text(block("yaml", "like"), encoding="utf-8")
    spec = load_campaign(campaign_file)
    assert (spec.name, spec.space, spec.plan.workload.concurrency) == ("mine", "vllm", 4)
