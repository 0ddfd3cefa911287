import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.artifacts.key import ArtifactKey

VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
INPUTS = st.dictionaries(st.text(), VALUES, max_size=6)


@given(INPUTS)
def test_the_order_of_inputs_does_not_matter(inputs: dict):
    turned = dict(reversed(inputs.items()))
    assert ArtifactKey("checkpoint", inputs).digest == ArtifactKey("checkpoint", turned).digest


@given(INPUTS, st.text(), VALUES)
def test_any_changed_input_changes_the_digest(inputs: dict, name: str, value: object):
    changed = inputs | {name: value}
    same = name in inputs and repr(inputs[name]) == repr(value)
    assert (ArtifactKey("k", inputs).digest == ArtifactKey("k", changed).digest) == same


def test_kind_parents_and_tools_are_part_of_the_key():
    keys = [
        ArtifactKey("a", {}),
        ArtifactKey("b", {}),
        ArtifactKey("a", {}, ("p", "q")),
        ArtifactKey("a", {}, ("q", "p")),
        ArtifactKey("a", {}, (), {"torch": "2"}),
    ]
    assert len({key.digest for key in keys}) == len(keys)


def test_whole_floats_are_not_integers():
    assert ArtifactKey("k", {"x": 1}).digest != ArtifactKey("k", {"x": 1.0}).digest


def test_what_json_can_t_hold_is_refused():
    with pytest.raises(ValueError):
        _ = ArtifactKey("k", {"x": float("nan")}).digest
