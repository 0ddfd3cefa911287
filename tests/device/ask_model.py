"""Ask an endpoint for hypotheses a number of times, and count how many of its answers are sound.

    python -m tests.device.ask_model --data-dir DIR --url http://127.0.0.1:8000/v1 --model NAME --count 10

The question is the one that the campaign in DIR (`--campaign C-1`) would put now, each time with a seed of
its own and, unlike there, at a temperature (`--temperature`), so that answers differ; the campaign's baseline
must be measured. The key, where one is wanted, is read from AUTOINFER_LLM_KEY. Prints one line of JSON for
each answer and one that counts; `--out` keeps them, with the question and each answer word for word, as
far as they have come.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.campaign.asked_model.told_to_model import findings_in_scope, known, turnable
from agent.campaign.decision.desk import Desk
from agent.campaign.known.measured import read_measured
from agent.campaign.known.reading_facts import read_facts
from agent.campaign.known.within_memory import legal_of
from agent.campaign.queue.order import read_directives
from agent.language_model.answer import Allowed, Proposal, read_answer
from agent.language_model.asking import Question, ask
from agent.language_model.exchange import Line
from agent.language_model.question import MOST_ASKED, question
from agent.proposers.dedupe import refusal
from agent.proposers.language_model import Ready, draft_from
from configs.errors import UsageError
from configs.language_model import KEY_VARIABLE, LanguageModelSpec, endpoint_of
from configs.settings import DATABASE_FILE
from db.labels import Noun, format_label, parse_label_of
from db.session import Database, open_database


def asked_about(
    database: Database, campaign_id: int, spec: LanguageModelSpec
) -> tuple[Desk, Question, Allowed]:
    """A campaign's desk, the question that it would put now, and what an answer may use."""
    with database.read() as session:
        facts = read_facts(session, campaign_id)
        measured = read_measured(session, facts)
        desk = Desk(facts, legal_of(facts), measured, read_directives(session, campaign_id))
        findings = findings_in_scope(session, desk)
        told = known(session, desk, findings)
    labels = tuple(format_label(Noun.FINDING, each.id) for each in findings)
    knobs = turnable(desk)
    made, _ = question(
        told,
        knobs,
        labels,
        desk.view.incumbent,
        asked=MOST_ASKED,
        min_effect=desk.view.min_effect,
        prompt_tokens=spec.prompt_tokens,
        answer_tokens=spec.answer_tokens,
        seed=0,
        timeout_s=spec.timeout,
    )
    allowed = Allowed(
        {each.name: each for each in knobs}, frozenset(labels), desk.view.min_effect, MOST_ASKED
    )
    return desk, made, allowed


def why_not(desk: Desk, proposal: Proposal) -> str | None:
    """Why a proposal could not be brought to the campaign; None where it could."""
    try:
        draft = draft_from(desk.view, Ready(proposal, 1, 0, desk.view.incumbent))
    except UsageError as error:
        return str(error)
    if draft.candidate.digest in desk.view.taken:
        return "It was proposed before."
    against = refusal(draft, desk.space, (), desk.view.refused)
    return None if against is None else against.reason


def counted(lines: Sequence[Mapping[str, Any]]) -> dict[str, int | float]:
    """What came of so many answers, with the tokens and seconds of all of them."""
    return {
        "asked": len(lines),
        "answered": sum(each["failure"] is None for each in lines),
        "cut": sum(each["was_cut"] for each in lines),
        "with_a_sound_hypothesis": sum(bool(each["sound"]) for each in lines),
        "sound": sum(len(each["sound"]) for each in lines),
        "refused": sum(len(each["refused"]) for each in lines),
        "different": len({words for each in lines for words in each["sound"]}),
        "prompt_tokens": sum(each["prompt_tokens"] or 0 for each in lines),
        "answer_tokens": sum(each["answer_tokens"] or 0 for each in lines),
        "wall_s": round(sum(each["wall_s"] for each in lines), 1),
    }


def main() -> None:
    """Ask and count; see the module's page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--campaign", default="C-1")
    parser.add_argument("--prompt-tokens", type=int, default=LanguageModelSpec().prompt_tokens)
    parser.add_argument("--answer-tokens", type=int, default=LanguageModelSpec().answer_tokens)
    parser.add_argument("--timeout-s", type=float, default=LanguageModelSpec().timeout)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    spec = LanguageModelSpec(
        prompt_tokens=given.prompt_tokens, answer_tokens=given.answer_tokens, timeout=given.timeout_s
    )
    endpoint = endpoint_of(spec, given.url, given.model, os.environ.get(KEY_VARIABLE))
    assert endpoint is not None
    database = open_database(f"sqlite:///{given.data_dir.absolute() / DATABASE_FILE}")
    desk, made, allowed = asked_about(database, parse_label_of(Noun.CAMPAIGN, given.campaign), spec)
    database.close()
    lines: list[dict[str, Any]] = []
    for seed in range(given.count):
        reply = ask(endpoint, replace(made, seed=seed, temperature=given.temperature), Line())
        found, refused = (
            ([], []) if reply.failure else read_answer(reply.text, allowed, was_cut=reply.was_cut)
        )
        reasons = [why_not(desk, each) for each in found]
        line = {
            "answer": seed,
            "failure": reply.failure,
            "form": reply.form,
            "prompt_tokens": reply.used.prompt_tokens,
            "answer_tokens": reply.used.answer_tokens,
            "wall_s": round(reply.wall_s, 2),
            "was_cut": reply.was_cut,
            "sound": [each.words for each, why in zip(found, reasons, strict=True) if why is None],
            "refused": [f"{each.what}: {each.reason}" for each in refused]
            + [f"{each.words}: {why}" for each, why in zip(found, reasons, strict=True) if why],
        }
        print(json.dumps(line), flush=True)
        lines.append({**line, "text": reply.text})
        if given.out is not None:  # after each, so that what is stopped keeps what it was answered
            kept = {
                "model": endpoint.model,
                "question": made.user,
                "answers": lines,
                "counted": counted(lines),
            }
            given.out.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    print(json.dumps(counted(lines)))


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(str(error))
