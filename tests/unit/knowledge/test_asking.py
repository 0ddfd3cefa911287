"""What every answer tells alike: how much is named, what a person wrote down, labels that there are not."""

from __future__ import annotations

import pytest

from configs.errors import UsageError
from db.labels import Noun
from knowledge.asking.answer import Row, some
from knowledge.asking.if_fell import fall, if_fell
from knowledge.asking.known import known
from knowledge.asking.led_to import led_to
from knowledge.asking.walking import label_in
from knowledge.asking.why_not import why_not_values
from knowledge.findings.told import Telling, tell
from knowledge.findings.verdict_fact import Saying
from knowledge.graph.typed_graph import new_graph
from knowledge.queries.view import EffectView
from tests.history.campaign_history import History
from tests.unit.knowledge.asked import graph_of, rows


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("It lowers TPOT by 19.4 % [12.8, 25.5]", True),
        ("It lowers TPOT by 119.4 % [12.8, 25.5]", False),
        ("It makes a token at least 3 % faster.", False),
    ],
)
def test_an_effect_that_the_text_has_is_known_as_told(text: str, told: bool) -> None:
    assert Row(text=text, effect=EffectView(relative=-0.194)).tells_effect is told


def test_a_sentence_says_how_many_it_does_not_name() -> None:
    assert some(["F-1", "F-2", "F-3"], 3) == "F-1, F-2 and F-3"
    assert some(["F-1", "F-2", "F-3", "F-4"], 3) == "F-1, F-2, F-3 and 1 more"


@pytest.mark.parametrize(("by", "author"), [(None, "you"), ("mcp:a", "an agent that says it is a")])
def test_what_a_person_wrote_down_is_marked_as_theirs_in_every_answer(
    full_history: History, by: str | None, author: str
) -> None:
    written = Telling("It is of no use.", ("serving.dtype=bfloat16",), says=Saying.DOES_NOT_HELP, by=by)
    with full_history.database.write() as session:
        label = f"F-{tell(session, written, 1).id:03}"
    graph = graph_of(full_history)
    assert led_to(graph, label).sentence == f"{label} was written down by {author}; nothing here led to it."
    for answer, title in (
        (known(graph, "serving.dtype", None, ()), "Findings"),
        (why_not_values(graph, {"serving.dtype": "bfloat16"}, [], []), "Findings against it"),
        (if_fell(graph, label, fall(graph, label)), "Findings"),
    ):
        because = {each.id: str(each.because) for each in rows(answer, title)}
        assert because.pop(label).startswith(f"written down by {author}")
        assert not [each for each in because.values() if "written down" in each]


def test_what_a_person_wrote_down_is_told_whole(full_history: History) -> None:
    claim = "Two threads do nothing on model copies of mine."
    with full_history.database.write() as session:
        number = tell(session, Telling(claim, ("serving.threads=2",)), 1).id
    graph = graph_of(full_history)
    assert claim.rstrip(".") in led_to(graph, f"F-{number:03}").asked
    assert claim in [each.text for each in rows(known(graph, "serving.threads", None, ()), "Findings")]


def test_a_label_that_there_is_not_is_refused_with_the_last_there_is(full_history: History) -> None:
    graph = graph_of(full_history)
    assert label_in(graph, "h-1", Noun.HYPOTHESIS) == "H-001"
    with pytest.raises(UsageError, match="H-099 does not exist; the last is H-007"):
        label_in(graph, "H-99", Noun.HYPOTHESIS)
    with pytest.raises(UsageError, match="names a campaign, but a finding or an experiment is wanted"):
        label_in(graph, "C-1", Noun.FINDING, Noun.EXPERIMENT)
    with pytest.raises(UsageError, match="there is no finding yet"):
        label_in(new_graph(), "F-1", Noun.FINDING)
