"""A job spec is typed data: what stands in a database is parsed or refused, and nothing of it is executed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from configs.errors import UsageError
from configs.registry import Port, registered
from experiments.job.place import PLACE_NAME, RECORDS_NAME, SPEC_NAME, Place
from experiments.job.process import run_in_folder
from experiments.job.spec import SPEC_VERSION, AaJob, AnyJob, parse_job
from tests.simulated.specs import FASTER, a_baseline_job, a_test_job

AN_AA_JOB = AaJob(
    campaign_id=1,
    experiment_id=1,
    engine="simulated",
    model="simulated",
    model_fingerprint="simulated-fingerprint",
    device="cpu",
    seed=3,
    configuration=FASTER,
    blocks=2,
    pair=0,
    prompts=0,
)
SPECS: tuple[AnyJob, ...] = (a_test_job(), a_baseline_job((FASTER,)), AN_AA_JOB)

EXECUTES = (
    "exec",
    "compile",
    "import",
    "marshal.",
    "pickle.",
    "os.",
    "subprocess.",
    "ctypes.",
    "socket.",
    "open",
)
"""Beginnings of the audit events of Python by which something is run, loaded, opened or sent."""

CODE = (
    "__import__('os').system('true')",
    "{{ 7 * 7 }}",
    "$(true)",
    "`true`",
    "os:system",
    "!!python/object/apply:os.system [true]",
    "cos\nsystem\n(S'true'\ntR.",
    "../../etc/passwd",
    "file:///etc/passwd",
)
"""Words that one or another reader would execute or open."""

_heard: list[str] | None = None


def _listen(event: str, arguments: tuple[object, ...]) -> None:
    if _heard is not None and event.startswith(EXECUTES):
        _heard.append(f"{event} {arguments!r}"[:200])


sys.addaudithook(_listen)  # a hook can't be taken away: it hears nothing but in the block below


@contextmanager
def nothing_executed() -> Iterator[None]:
    """A block in which Python may run, load, open and send nothing."""
    global _heard
    _heard = heard = []
    try:
        yield
    finally:
        _heard = None
    assert heard == []


words = st.one_of(st.text(max_size=20), st.sampled_from(CODE))
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words)
documents = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def nearly_specs(draw: st.DrawFn) -> dict[str, Any]:
    """A spec with one of its values, at any depth, put in place of another, left out, or one more."""
    found: dict[str, Any] = json.loads(draw(st.sampled_from(SPECS)).model_dump_json())
    place: Any = found
    while True:
        key = draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or draw(st.booleans()):
            break
        place = place[key]
    match draw(st.sampled_from(["other", "none", "more"])):
        case "other":
            place[key] = draw(documents)
        case "none":
            del place[key]
        case _:
            place[draw(words)] = draw(documents)
    return found


def parsed(data: object) -> AnyJob | None:
    try:
        with nothing_executed():
            return parse_job(data)
    except ValidationError:
        return None


def write(path: Path) -> None:
    path.write_text("a")


@pytest.mark.parametrize("harm", [lambda _: eval("1 + 1"), write, lambda _: __import__("tabnanny")])
def test_the_hook_hears_what_it_is_there_for(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    sys.modules.pop("tabnanny", None)
    with pytest.raises(AssertionError), nothing_executed():
        harm(tmp_path / "a")


@given(documents)
@settings(deadline=None)
def test_any_data_is_parsed_or_refused(data: object) -> None:
    assert parsed(data) is None, "nothing made at random is a whole spec"


@given(nearly_specs())
@settings(deadline=None, max_examples=300)
def test_a_spec_that_was_changed_is_parsed_into_plain_values_or_refused(data: dict[str, Any]) -> None:
    found = parsed(data)
    if found is None:
        return
    told = json.loads(found.model_dump_json())
    assert {type(leaf) for leaf in leaves_of(told)} <= {str, int, float, bool, type(None)}
    assert set(data) <= set(told), "no field of its own was kept or dropped"
    assert parsed(told) == found, "what is written is what is read"


def leaves_of(value: object) -> Iterator[object]:
    match value:
        case dict():
            for key, each in value.items():
                yield key
                yield from leaves_of(each)
        case list():
            for each in value:
                yield from leaves_of(each)
        case _:
            yield value


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.kind)
@pytest.mark.parametrize("version", [SPEC_VERSION + 1, 0, str(SPEC_VERSION), None, "x"])
def test_a_spec_of_another_version_is_refused(spec: AnyJob, version: object) -> None:
    assert parsed(json.loads(spec.model_dump_json()) | {"version": version}) is None


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("port", [Port.ENGINE, Port.JUDGE, Port.EXECUTOR])
def test_a_name_loads_only_what_is_registered_under_it(port: Port, name: str) -> None:
    with pytest.raises(UsageError):
        registered(port, name)


def job_in(folder: Path, spec: AnyJob, beside: tuple[str, ...]) -> str:
    """Run the spec in the folder as far as loading what it names, and return what was recorded."""
    place = Place(artifacts_dir=folder / "artifacts", cache_dir=folder / "cache", beside=beside)
    (folder / SPEC_NAME).write_text(spec.model_dump_json())
    (folder / PLACE_NAME).write_text(place.model_dump_json())

    def assemble(spec: AnyJob, cache_dir: Path) -> Any:
        raise UsageError("It came as far as this.", "")

    assert run_in_folder(folder, assemble) == 1
    return (folder / RECORDS_NAME).read_text()


COMMAND = (sys.executable, "-c", "print('ran')")


@pytest.mark.parametrize("given_to_worker", [(), ("true",), (*COMMAND, "more")])
def test_a_command_that_stands_in_a_spec_alone_is_refused(
    tmp_path: Path, given_to_worker: tuple[str, ...]
) -> None:
    told = job_in(tmp_path, AN_AA_JOB.model_copy(update={"beside": COMMAND}), given_to_worker)
    assert "this worker was not started with that" in told
    assert "It came as far as this" not in told


@pytest.mark.parametrize("asked", [(), COMMAND])
def test_the_command_that_a_worker_was_started_with_may_be_asked_for(
    tmp_path: Path, asked: tuple[str, ...]
) -> None:
    told = job_in(tmp_path, AN_AA_JOB.model_copy(update={"beside": asked}), COMMAND)
    assert "It came as far as this" in told


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_number_for_which_json_has_no_word_is_refused(value: float) -> None:
    """It would be written as null, and what is written could not be read."""
    data = next(each for each in map(as_written, SPECS) if "configuration" in each)
    assert parsed(data) is not None
    assert parsed(data | {"configuration": {"simulated.tpot_ms": value}}) is None


def as_written(spec: AnyJob) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(spec.model_dump_json())
    return found
