"""What differs between two stored configurations: by value and by type, as configurations themselves say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from experiments.space.configuration import Configuration
from knowledge.queries.view import changes_between

KNOBS = st.sampled_from([f"group.knob{number}" for number in range(4)])
VALUES = st.sampled_from([True, False, 0, 1, 0.0, -0.0, 1.0, 0.5, "1", "off"])
CONFIGURATIONS = st.dictionaries(KNOBS, VALUES)


@given(CONFIGURATIONS, CONFIGURATIONS)
def test_changes_are_those_of_the_configurations(
    control: dict[str, object], candidate: dict[str, object]
) -> None:
    expected = Configuration.of(control).changes_to(Configuration.of(candidate))  # type: ignore[arg-type]
    found = changes_between(control, candidate)
    assert [(each.knob, each.before, each.after) for each in found] == [
        (each.knob, each.before, each.after) for each in expected
    ]
    assert [(type(each.before), type(each.after)) for each in found] == [
        (type(each.before), type(each.after)) for each in expected
    ]


def test_what_is_not_known_has_no_changes() -> None:
    assert changes_between(None, {"group.knob": 1}) == changes_between({"group.knob": 1}, None) == ()
