"""Which token is the most probable is the same wherever tokens that tie stand."""

import torch

from experiments.engines.reference.references import same_best


def test_a_tie_agrees_with_each_of_its_tokens_and_nothing_else_does() -> None:
    one = torch.tensor([[1.0, 3.0, 3.0], [1.0, 3.0, 3.0], [1.0, 3.0, 2.0], [3.0, 3.0, 0.0]])
    other = torch.tensor([[0.0, 1.0, 2.0], [5.0, 1.0, 2.0], [0.0, 4.0, 4.0], [0.0, 0.0, 7.0]])
    assert same_best(one, other).tolist() == [True, False, True, False]
    assert same_best(other, one).tolist() == [True, False, True, False]
