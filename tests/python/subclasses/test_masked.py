"""torch.masked: what is masked out changes nothing; and logarithms of sums of complex numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import masked

X = torch.tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 8.0]])
MASK = torch.tensor([[True, False, True], [False, False, False]])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sum", [4.0, 0.0]),
        ("prod", [3.0, 1.0]),
        ("amax", [3.0, -math.inf]),
        ("amin", [1.0, math.inf]),
        ("mean", [2.0, math.nan]),
        ("median", [1.0, math.nan]),
        ("norm", [math.sqrt(10.0), 0.0]),
        ("logsumexp", [math.log(math.e + math.e**3), -math.inf]),
    ],
)
def test_masked_out_elements_change_nothing(name: str, wanted: list[float]) -> None:
    found = getattr(masked, name)(X, dim=1, mask=MASK)
    assert torch.allclose(found, torch.tensor(wanted), equal_nan=True)
    kept = getattr(masked, name)(X, dim=1, keepdim=True, mask=MASK)
    assert kept.shape == (2, 1)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "norm", "var", "std"])
def test_without_a_mask_these_are_the_plain_reductions(name: str) -> None:
    plain = {"norm": torch.linalg.vector_norm}.get(name) or getattr(torch, name)
    assert torch.allclose(getattr(masked, name)(X), plain(X))


def test_indices_keep_the_dtype_of_the_input() -> None:
    assert masked.argmax(X, 1, mask=MASK)[0].item() == 2.0
    assert masked.argmin(X, 1, mask=~MASK)[0].item() == 1.0
    assert masked.argmax(X, 1).dtype == torch.float32


def test_variances_count_what_takes_part() -> None:
    mask = torch.tensor([[True, False, True], [True, True, True]])
    wanted = torch.tensor([torch.var(X[0, [0, 2]]).item(), torch.var(X[1]).item()])
    assert torch.allclose(masked.var(X, 1, mask=mask), wanted)
    assert torch.allclose(masked.std(X, 1, mask=mask), wanted.sqrt())
    with pytest.raises(ValueError, match="Only one"):
        masked.var(X, 1, True, correction=1)


def test_normalizations_along_a_dimension() -> None:
    mask = torch.tensor([[True, False, True], [True, True, True]])
    assert masked.softmax(X, 1, mask=mask)[0, 1].item() == 0.0
    assert torch.allclose(masked.softmax(X, 1, mask=mask).sum(1), torch.ones(2))
    assert torch.allclose(masked.log_softmax(X, 1, mask=mask).exp().sum(1), torch.ones(2))
    assert masked.softmin(X, 1, mask=mask)[0].argmax().item() == 0
    assert masked.cumsum(X, 1, mask=mask)[0].tolist() == [1.0, 1.0, 4.0]
    assert masked.cumprod(X, 1, mask=mask)[0].tolist() == [1.0, 1.0, 3.0]
    assert torch.allclose(masked.normalize(X, 2.0, 1, mask=mask).norm(dim=1), torch.ones(2))
    both: Any = masked.logaddexp(X, X, input_mask=mask, other_mask=~mask)
    assert torch.equal(both, X)


def test_logarithms_of_sums_of_complex_exponentials_do_not_overflow() -> None:
    x = torch.tensor([1000.0 + 1.0j, 999.0 - 2.0j], dtype=torch.complex128, requires_grad=True)
    shifted = x - 1000
    assert torch.allclose(torch.logsumexp(x, 0) - 1000, shifted.exp().sum().log())
    steps = torch.logcumsumexp(x, 0) - 1000
    assert torch.allclose(steps.exp(), shifted.exp().cumsum(0))
    small = (x.detach() / 1000).requires_grad_()
    assert torch.autograd.gradcheck(lambda y: torch.logcumsumexp(y, 0), (small,))
    assert torch.autograd.gradcheck(lambda y: torch.logsumexp(y, 0), (small,))


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
def test_sparse_tensors_are_reduced_to_sparse_ones(name: str, layout: Any) -> None:
    dense = torch.tensor([[1.0, 0, 2], [0, 0, 0], [4, 5, 0]])
    mask = torch.tensor([[True, True, False], [False, False, False], [True, False, True]])
    function = getattr(torch.masked, name)
    wanted = function(dense, 1, keepdim=True, mask=mask)
    for given in (mask, mask.to_sparse(layout=layout)):
        result = function(dense.to_sparse(layout=layout), 1, keepdim=True, mask=given)
        assert result.layout is layout and result.shape == (3, 1) and result._nnz() == 2
        kept = result.to_dense()[[0, 2]]
        assert torch.equal(kept, wanted[[0, 2]])


def test_sparse_tensors_need_masks_and_layouts_that_reductions_know() -> None:
    x = torch.tensor([[1.0, 0], [2, 3]]).to_sparse()
    assert torch.masked.sum(x).to_dense() == 6 and torch.masked.sum(x).layout is torch.sparse_coo
    with pytest.raises(ValueError, match="expects explicit mask"):
        torch.masked.amax(x, 0)
    with pytest.raises(ValueError, match="does not take"):
        torch.masked.mean(x, 0)
    with pytest.raises(RuntimeError, match="keepdim=False"):
        torch.masked.sum(x.to_sparse_csr(), 0)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "var"])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_the_mask_of_a_dense_tensor_can_be_sparse(name: str, layout: Any) -> None:
    x = torch.tensor([[1.0, 0, 2], [0, 3, 0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    function = getattr(masked, name)
    wanted = function(x, 1, mask=mask)
    assert torch.equal(function(x, 1, mask=mask.to_sparse(layout=layout)), wanted)


def test_the_median_of_integers_is_one_of_those_that_are_left() -> None:
    x = torch.tensor([[3, 1, 2, 5], [4, 4, 0, 1]]) + 2**60
    mask = torch.tensor([[True, False, True, True], [False, True, False, True]])
    assert (masked.median(x, 1, mask=mask) - 2**60).tolist() == [3, 1]
    assert masked.median(x, 1, keepdim=True, mask=mask).shape == (2, 1)
    assert (masked.median(x, 1) - 2**60).tolist() == [2, 1]
    with pytest.raises(ValueError, match="no fully masked out rows"):
        masked.median(x, 1, mask=mask & torch.tensor([[True], [False]]))
