"""Clipping gradients, and parameters as a vector."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau import nn


def params() -> list[nn.Parameter]:
    made = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1)), nn.Parameter(torch.ones(1))]
    made[0].grad = torch.tensor([3.0, 0.0])
    made[1].grad = torch.tensor([-4.0])
    return made


def test_clipping_by_norm() -> None:
    some = params()
    total = nn.utils.clip_grad_norm_(some, 1.0)
    assert total.item() == pytest.approx(5)
    assert some[0].grad.tolist() == pytest.approx([0.6, 0])
    assert some[1].grad.tolist() == pytest.approx([-0.8])
    assert nn.utils.clip_grad_norm_(some, 10.0).item() == pytest.approx(1, rel=1e-5)
    assert some[1].grad.tolist() == pytest.approx([-0.8])
    assert nn.utils.clip_grad_norm_(params(), 1.0, math.inf).item() == 4
    assert nn.utils.clip_grad_norm_(params()[0], 1.0, 1).item() == 3


def test_a_norm_that_is_not_finite_can_be_an_error() -> None:
    some = params()
    some[0].grad[0] = math.inf
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        nn.utils.clip_grad_norm_(some, 1.0, error_if_nonfinite=True)


def test_clipping_by_value() -> None:
    some = params()
    nn.utils.clip_grad_value_(some, 3.5)
    assert some[0].grad.tolist() == [3, 0] and some[1].grad.tolist() == [-3.5]


def test_parameters_as_a_vector() -> None:
    layer = nn.Linear(2, 2)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (6,)
    nn.utils.vector_to_parameters(torch.arange(6.0), layer.parameters())
    assert layer.weight.tolist() == [[0, 1], [2, 3]] and layer.bias.tolist() == [4, 5]
    with pytest.raises(TypeError, match=r"expected torch\.Tensor"):
        nn.utils.vector_to_parameters([1.0], layer.parameters())  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(4, 4), (5, 3)])
def test_reflections_give_back_the_orthogonal_matrix_they_were_made_of(shape):
    torch.manual_seed(0)
    layer = torch.nn.Linear(shape[1], shape[0], dtype=torch.float64)
    torch.nn.init.orthogonal_(layer.weight)
    before = layer.weight.detach().clone()
    torch.nn.utils.parametrizations.orthogonal(
        layer, orthogonal_map="householder", use_trivialization=False
    )
    assert torch.allclose(layer.weight, before)


@pytest.mark.parametrize("what", ["dtype", "shape"])
def test_a_second_parametrization_must_give_back_what_it_takes(what) -> None:
    class Changed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

        def right_inverse(self, x: torch.Tensor) -> torch.Tensor:
            return x.double() if what == "dtype" else x[:-1]

    module = nn.Linear(3, 4)
    nn.utils.parametrize.register_parametrization(module, "weight", nn.Identity())
    with pytest.raises(ValueError, match=f"must have the same {what} as module.weight, unless"):
        nn.utils.parametrize.register_parametrization(module, "weight", Changed())
    assert len(module.parametrizations.weight) == 1
