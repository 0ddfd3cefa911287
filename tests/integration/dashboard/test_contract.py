"""The interface as it is described, asked for whatever fits its description and for what does not."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from configs.settings import Settings
from dashboard.app import create_app
from tests.history.large_history import large_history
from tests.history.large_story import Size

pytestmark = pytest.mark.slow

BASE = "http://127.0.0.1"
EXAMPLES, MANY_EXAMPLES = 1, 6
"""Requests of each address, in the suite and in `make bench`; they are the same in every run."""

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("contract")
    database = large_history(folder, Size(experiments=24, events=60))
    app = create_app(Settings(data_dir=folder), database)

    async def requests_alone(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """The app without what runs beside its requests: nothing streams, and no device is read."""
        if scope["type"] == "http":
            await app(scope, receive, send)

    found = schemathesis.openapi.from_dict(app.openapi())
    found.app = requests_alone
    found.config.phases.coverage.enabled = False
    yield found
    database.close()


LABELS = {"experiments": "E-0002", "hypotheses": "H-001", "campaigns": "C-1", "knowledge": "F-001"}
NAMES = {"campaign": "C-1", "hypothesis": "H-026", "lever": "compile", "kind": "boost", "to": "2"}
NAMES |= {"set": "serving.compile=default", "seen": ""}
"""What is there, by the fields that name it."""


def name(case: schemathesis.Case) -> None:
    """Let a request be about what is there, wherever it names something."""
    if "label" in case.path_parameters:
        case.path_parameters["label"] = LABELS[case.operation.path.split("/")[1]]
    if "campaign" in case.query:
        case.query["campaign"] = NAMES["campaign"]
    if isinstance(case.body, dict):
        case.body |= {field: NAMES[field] for field in case.body if field in NAMES}


ASKING = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(MANY_EXAMPLES, marks=pytest.mark.bench_only)])
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_every_address_answers_as_it_is_described(
    described: Any, mode: GenerationMode, examples: int
) -> None:
    told = []
    for found in described.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not (
            operation.query or operation.path_parameters or operation.body
        ):
            continue  # it takes nothing that could be wrong

        @settings(ASKING, max_examples=examples)
        @given(operation.as_strategy(generation_mode=mode), st.booleans())
        def asked(case: schemathesis.Case, of_what_is_there: bool) -> None:
            if mode is GenerationMode.POSITIVE and of_what_is_there:
                name(case)
            case.call_and_validate(base_url=BASE, checks=CHECKS)

        try:
            asked()
        except (FailureGroup, Exception) as error:
            told.append(f"{operation.label}: {error}")
    assert not told, "\n\n".join(told)
