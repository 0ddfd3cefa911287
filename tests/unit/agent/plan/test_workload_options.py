"""A workload that options give, held against the questions of the campaign's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.plan.workload_options import check_questions_served, of_workload
from configs.campaign import CampaignSpec, load_campaign
from configs.errors import UsageError

FILE = """like: shape
name: own
questions:
  - id: fewer
    asks: What do fewer sequences cost?
    claim: Four sequences are at least 3 % faster than 16.
    control: {serving.max_sequences: 16}
    candidate: {serving.max_sequences: 4}
    metric: tpot_ms
    min_effect: 3%
    why: Smaller graphs.
    if_supported: they are faster
    if_refuted: they are not
"""


def asked(folder: Path, given: dict[str, int | None]) -> CampaignSpec:
    file = folder / "own.yaml"
    file.write_text(FILE)
    return load_campaign(file, given)


@pytest.mark.parametrize(
    ("given", "arm"), [((16, None, None), "candidate"), ((64, 512, None), "control"), ((4, 512, 64), None)]
)
def test_a_question_that_a_workload_by_options_leaves_unserved_is_told(
    given: tuple[int | None, int | None, int | None], arm: str | None, tmp_path: Path
) -> None:
    options = of_workload(*given)
    spec = asked(tmp_path, options)
    if arm is None:
        check_questions_served(spec, options)
        return
    with pytest.raises(UsageError) as refused:
        check_questions_served(spec, options)
    option = "--concurrency" if given[1] is None else "--concurrency and --prompt-tokens"
    sequences = {"control": 16, "candidate": 4}[arm]
    assert refused.value.message == (
        f"{option}: the {arm} of the question fewer does not serve that: serving.max_sequences is "
        f"{sequences}, and {given[0]} requests at once are asked for."
    )


def test_what_a_file_asks_of_its_own_workload_is_the_file_s_matter(tmp_path: Path) -> None:
    spec = asked(tmp_path, {"plan.workload.concurrency": 16})
    check_questions_served(spec, of_workload(None, None, None))
