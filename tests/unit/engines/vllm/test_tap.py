"""The tap reads a text by steps of a runner, whatever is drafted, and leaves the runner as it was.

The runner here is a small stand-in for vLLM's with the same three methods; vLLM's own is in the integration
tests.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from experiments.engines.vllm.tap import DRAFT_IN_TURNS, DRAFT_NOTHING, DRAFT_TEXT, LogitTap

VOCABULARY = 7
TEXT = (3, 1, 4, 1, 5, 2, 6, 5, 3, 5)
PROMPT = 4


@dataclass
class Drafts:
    req_ids: list[str]
    draft_token_ids: list[list[int]]


def true_logits(position: int) -> torch.Tensor:
    """What the model says of the token at a position; never the text's own."""
    return torch.nn.functional.one_hot(torch.tensor((TEXT[position] + 1) % VOCABULARY), VOCABULARY) * 1.0


class Model:
    def compute_logits(self, positions: torch.Tensor) -> torch.Tensor:
        return torch.stack([true_logits(min(int(place), len(TEXT) - 1)) for place in positions])


@dataclass(eq=False)
class Runner:
    """Computes a step: after each scheduled token the logits of the next, and keeps what stood."""

    model: Model = field(default_factory=Model)
    chosen: torch.Tensor = field(default_factory=lambda: torch.zeros(0))

    def get_model(self) -> Model:
        return self.model

    def execute_model(self, step: Any) -> None:
        drafts = step.scheduled_spec_decode_tokens.get("r", [])
        end = step.scheduled_new_reqs[0].num_computed_tokens + step.num_scheduled_tokens["r"]
        places = torch.arange(end - len(drafts), end + 1)
        self.chosen = self.model.compute_logits(places).argmax(-1)

    def take_draft_token_ids(self) -> Drafts:
        return Drafts(["r"], [[0, 0]])


def say(runner: Runner, drafting: bool) -> tuple[list[int], list[int]]:
    """Generate as an engine does; gives the tokens, and how many each step gave."""
    ids, computed, drafts, steps = list(TEXT[:PROMPT]), 0, [], []
    while len(ids) < len(TEXT):
        scheduled = len(ids) - computed + len(drafts)
        runner.execute_model(
            SimpleNamespace(
                num_scheduled_tokens={"r": scheduled},
                scheduled_spec_decode_tokens={"r": drafts} if drafts else {},
                scheduled_new_reqs=[SimpleNamespace(req_id="r", num_computed_tokens=computed)],
                scheduled_cached_reqs=SimpleNamespace(req_ids=[], num_computed_tokens=[]),
            )
        )
        stood = 0
        while stood < len(drafts) and drafts[stood] == int(runner.chosen[stood]):
            stood += 1
        computed = len(ids) + stood
        ids += [int(token) for token in runner.chosen[: stood + 1]]
        steps.append(stood + 1)
        drafts = runner.take_draft_token_ids().draft_token_ids[0] if drafting else []
    return ids[: len(TEXT)], steps


@pytest.mark.parametrize(
    ("drafts", "draft_tokens", "steps"),
    [
        (DRAFT_NOTHING, 0, [1, 1, 1, 1, 1, 1]),
        (DRAFT_NOTHING, 2, [1, 1, 1, 1, 1, 1]),
        (DRAFT_TEXT, 2, [1, 3, 3]),
        (DRAFT_IN_TURNS, 2, [1, 1, 2, 3]),
    ],
)
def test_a_text_is_read_whole_by_the_steps_that_were_asked_for(
    drafts: str, draft_tokens: int, steps: list[int]
) -> None:
    runner = Runner()
    tap = LogitTap(runner, draft_tokens)
    tap.read_along(TEXT, drafts)
    ids, taken = say(runner, drafting=bool(draft_tokens))
    tap.remove()
    assert tuple(ids) == TEXT
    assert taken == steps
    wanted = torch.stack([true_logits(place) for place in range(PROMPT, len(TEXT))])
    assert torch.equal(tap.read_rows(PROMPT, len(TEXT)), wanted)


def test_what_was_never_computed_is_told() -> None:
    tap = LogitTap(Runner(), 0)
    with pytest.raises(LookupError, match="token 4"):
        tap.read_rows(4, 6)


class Step(NamedTuple):
    """What a runner keeps between the model and the sampler."""

    hidden_states: torch.Tensor | None


class OtherStep(NamedTuple):
    """The same of a version that calls it otherwise."""

    states: torch.Tensor


@dataclass(eq=False)
class PromptRunner(Runner):
    """Samples a token, lets its drafter write where the states of the step lie, and computes the prompt's
    rows from what is there then, as vLLM does."""

    execute_model_state: Any = None

    def prefill(self, places: list[int], kind: type[Step] | type[OtherStep] = Step) -> None:
        shared = torch.tensor(places)
        self.execute_model_state = kind(shared)
        self.model.compute_logits(shared[-1:])
        self.sample_tokens(shared)

    def sample_tokens(self, drafted: torch.Tensor) -> None:
        (states,), self.execute_model_state = self.execute_model_state, None
        drafted.fill_(len(TEXT) - 1)
        if len(states) > 1:
            self.model.compute_logits(states[:-1])


@pytest.mark.parametrize("chunks", [[[0, 1, 2, 3, 4, 5]], [[0, 1, 2, 3], [4, 5, 6]], [[0, 1]]])
def test_the_rows_of_a_prompt_are_those_of_before_the_drafter_and_not_the_one_that_is_sampled(
    chunks: list[list[int]],
) -> None:
    runner = PromptRunner()
    tap = LogitTap(runner, 0)
    tap.listen()
    for chunk in chunks:
        runner.prefill(chunk)
    tap.remove()
    wanted = [true_logits(place) for chunk in chunks for place in chunk[:-1]]
    assert torch.equal(tap.prompt_rows(len(wanted)), torch.stack(wanted))
    assert set(vars(runner)) == {"model", "chosen", "execute_model_state"}


class WholePromptRunner(PromptRunner):
    """As vLLM's second model runner: samples a token, then computes the rows of all positions that were
    scheduled, the sampled one's too, `CHUNK` at a time."""

    CHUNK = 3

    def prefill(self, places: list[int], kind: type[Step] | type[OtherStep] = Step) -> None:
        self.execute_model_state = kind(torch.tensor(places))
        self.sample_tokens(torch.tensor(places))

    def sample_tokens(self, drafted: torch.Tensor) -> None:
        (states,), self.execute_model_state = self.execute_model_state, None
        self.model.compute_logits(states[-1:])
        for rows in states.split(self.CHUNK):
            self.model.compute_logits(rows)


@pytest.mark.parametrize("chunks", [[[0, 1]], [[0, 1, 2, 3, 4]], [[0, 1, 2, 3]], [[0, 1, 2], [3, 4, 5, 6]]])
def test_a_runner_that_computes_the_row_of_the_sampled_token_with_the_prompt_s_has_it_left_out(
    chunks: list[list[int]],
) -> None:
    runner = WholePromptRunner()
    tap = LogitTap(runner, 0)
    tap.listen()
    for chunk in chunks:
        runner.prefill(chunk)
    tap.remove()
    wanted = [true_logits(place) for chunk in chunks for place in chunk][:-1]
    assert torch.equal(tap.prompt_rows(len(wanted)), torch.stack(wanted))


@dataclass
class RequestStates:
    """What vLLM's second model runner keeps of requests on the device."""

    req_id_to_index: dict[str, int]
    draft_tokens: torch.Tensor


@dataclass(eq=False)
class DeviceDraftsRunner(Runner):
    """As that runner: of a step's drafts it takes the number from the scheduler, and the tokens from where
    its own drafter left them on the device. It computes with what it reads: a wrong draft changes all after
    it."""

    req_states: RequestStates = field(
        default_factory=lambda: RequestStates({"q": 0, "r": 1}, torch.zeros((2, 2), dtype=torch.int64))
    )

    def execute_model(self, step: Any) -> None:
        count = len(step.scheduled_spec_decode_tokens.get("r", []))
        drafts = self.req_states.draft_tokens[1, :count]
        end = step.scheduled_new_reqs[0].num_computed_tokens + step.num_scheduled_tokens["r"]
        first = end - count
        wrong = [place for place in range(count) if int(drafts[place]) != (*TEXT, 0, 0)[first + place]]
        places = torch.arange(first, end + 1)
        if wrong:
            places[wrong[0] + 1 :] = 0
        self.chosen = self.model.compute_logits(places).argmax(-1)
        self.req_states.draft_tokens.fill_(VOCABULARY - 1)

    def take_draft_token_ids(self) -> Drafts:
        return Drafts(["r"], [[-1, -1]])


@pytest.mark.parametrize(
    ("drafts", "steps"),
    [
        (DRAFT_NOTHING, [1, 1, 1, 1, 1, 1]),
        (DRAFT_TEXT, [1, 3, 3]),
        (DRAFT_IN_TURNS, [1, 1, 2, 3]),
    ],
)
def test_a_text_is_read_by_a_runner_that_keeps_its_drafts_on_the_device(
    drafts: str, steps: list[int]
) -> None:
    runner = DeviceDraftsRunner()
    tap = LogitTap(runner, 2)
    tap.read_along(TEXT, drafts)
    ids, taken = say(runner, drafting=True)
    tap.remove()
    assert (tuple(ids), taken) == (TEXT, steps)
    wanted = torch.stack([true_logits(place) for place in range(PROMPT, len(TEXT))])
    assert torch.equal(tap.read_rows(PROMPT, len(TEXT)), wanted)


def test_states_that_a_drafter_may_have_overwritten_are_not_scored() -> None:
    runner = PromptRunner()
    tap = LogitTap(runner, 0)
    tap.listen()
    runner.prefill([0, 1, 2], OtherStep)
    with pytest.raises(LookupError, match="drafter may write"):
        tap.prompt_rows(2)


def test_nothing_of_the_tap_stays() -> None:
    runner = Runner()
    tap = LogitTap(runner, 2)
    tap.read_along(TEXT, DRAFT_TEXT)
    assert set(vars(runner)) > {"model", "chosen"}
    tap.remove()
    assert (set(vars(runner)), vars(runner.model)) == ({"model", "chosen"}, {})
