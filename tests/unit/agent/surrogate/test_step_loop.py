"""The loop of steps, by count: what its steps take, and when tokens of a request come."""

from dataclasses import replace

import pytest

from agent.surrogate.step_loop import Asked, StepLoop, StepTimes, counted

TIMES = StepTimes(decode_ms=6.0, token_ms=0.03)
ASKED = Asked(at_once=16, requests=96, prompt_tokens=512, new_tokens=129, later_ms=0.3)


@pytest.mark.parametrize(("at_once", "requests"), [(1, 3), (4, 20), (16, 16), (16, 96)])
def test_every_request_is_served_in_order_and_no_more_are_under_way_than_asked_for(
    at_once: int, requests: int
) -> None:
    served = StepLoop(replace(ASKED, at_once=at_once, requests=requests), TIMES, 2048).run()
    assert len(served) == requests
    for each in served:
        assert each.sent_ms < each.arrives_ms < each.first_ms < each.last_ms
        assert each.prompt_left == 0
        assert sum(other.sent_ms <= each.sent_ms < other.last_ms for other in served) <= at_once


def test_one_alone_reads_its_prompt_in_one_step_or_in_as_many_as_it_needs_and_then_decodes() -> None:
    alone = replace(ASKED, at_once=1, requests=4)
    one, four = (counted(replace(alone, prompt_tokens=tokens), TIMES, 2048) for tokens in (2048, 8192))
    assert one.ttft_ms == pytest.approx(0.3 + 2048 * 0.03)
    assert four.ttft_ms == pytest.approx(0.3 + 8192 * 0.03)
    assert one.tpot_ms == four.tpot_ms == pytest.approx(6.0)


def test_a_short_prompt_takes_no_less_than_a_step_of_decoding() -> None:
    brief = counted(replace(ASKED, at_once=1, requests=1, prompt_tokens=4), TIMES, 2048)
    assert brief.ttft_ms == pytest.approx(0.3 + 6.0)


def test_a_step_with_prompts_takes_no_less_than_reading_its_weights() -> None:
    reads = replace(TIMES, prompts_ms=25.0)
    short, long = (replace(ASKED, at_once=1, requests=1, prompt_tokens=tokens) for tokens in (512, 2048))
    assert counted(short, reads, 2048).ttft_ms == pytest.approx(0.3 + 25.0)
    assert counted(short, reads, 2048).tpot_ms == pytest.approx(6.0), "no step of decoding alone"
    assert counted(long, reads, 2048).ttft_ms == pytest.approx(0.3 + 2048 * 0.03)


def test_tokens_wait_for_the_prompts_of_others_and_for_no_more_than_those() -> None:
    """A wave of four, a prompt a step: the first waits for three steps with prompts, the last for none."""
    served = StepLoop(replace(ASKED, at_once=4, requests=4), TIMES, 512 + 3).run()
    steps = [(each.last_ms - each.first_ms - 128 * 6.0) / (512 * 0.03 - 6.0) for each in served]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] == pytest.approx(3, abs=0.1)
    assert steps[-1] == pytest.approx(0, abs=0.1)


def test_nothing_changes_with_more_tokens_a_step_than_all_requests_can_ask_for() -> None:
    enough = ASKED.at_once * ASKED.prompt_tokens + ASKED.at_once
    assert counted(ASKED, TIMES, enough) == counted(ASKED, TIMES, 4 * enough)
    assert counted(ASKED, TIMES, 2048).tpot_ms > counted(ASKED, TIMES, enough).tpot_ms


def test_a_host_that_launches_steps_with_prompts_for_long_holds_up_what_comes_after() -> None:
    quick, slow = (replace(TIMES, launch_prompts_ms=host_ms) for host_ms in (0.0, 200.0))
    assert counted(ASKED, slow, 2048).e2el_ms > counted(ASKED, quick, 2048).e2el_ms
