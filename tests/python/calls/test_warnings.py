"""Warnings of the core reach Python, where filters treat them like any other."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

import flambeau as torch


def test_ranges_that_a_floating_dtype_is_too_coarse_for() -> None:
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]"):
        torch.zeros(4).random_(2**24 + 2)
    with pytest.warns(UserWarning, match=r"from is out of bounds \[-\(2\^8\), 2\^8\]"):
        torch.zeros(4, dtype=torch.bfloat16).random_(-(2**40), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.zeros(4).random_(2**24 + 1)
        torch.zeros(4, dtype=torch.int64).random_(2**40)


def test_variances_of_too_few_elements() -> None:
    with pytest.warns(UserWarning, match=r"std\(\): degrees of freedom is <= 0"):
        assert torch.std(torch.ones(1)).isnan()
    with pytest.warns(UserWarning, match=r"var\(\): degrees of freedom is <= 0"):
        torch.ones(3, 0).var(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.ones(0, 1).var(1)
        torch.ones(1).var(correction=0)


def test_gradients_of_tensors_that_are_no_leaves() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.grad is None
        y.retain_grad()
        assert y.grad is None
        assert y.detach().grad is None


def test_tensors_made_of_tensors_and_masks_of_bytes() -> None:
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        torch.tensor(torch.ones(2))
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        torch.ones(1).new_tensor(torch.ones(2))
    with pytest.warns(UserWarning, match="indexing with dtype torch.uint8"):
        assert torch.ones(3)[torch.tensor([1, 0, 1], dtype=torch.uint8)].shape == (2,)


ONCE = {
    "discards the imaginary part": lambda: torch.ones(2, dtype=torch.complex64).to(torch.int64),
    "boundary tensor is non-contiguous": lambda: torch.searchsorted(
        torch.arange(6.0).view(3, 2).t(), torch.ones(2, 1)
    ),
    "where received a uint8 condition": lambda: torch.where(torch.ones(2).byte(), 1.0, 2.0),
    "reduce argument of torch.scatter": lambda: torch.ones(2).scatter_(
        0, torch.tensor([0]), torch.ones(1), reduce="add"
    ),
}


@pytest.mark.parametrize("match", ONCE)
def test_what_is_told_once(match: str) -> None:
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match=match):
            ONCE[match]()
    finally:
        torch.set_warn_always(False)


def test_covariances_of_too_few_observations() -> None:
    with pytest.warns(UserWarning, match=r"cov\(\): degrees of freedom is <= 0"):
        torch.cov(torch.ones(2, 1))
    with pytest.warns(UserWarning, match=r"cov\(\): degrees of freedom is <= 0"):
        torch.cov(torch.ones(2, 2), correction=3, fweights=torch.tensor([1, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.cov(torch.ones(2, 2), fweights=torch.tensor([1, 1]))
        torch.set_warn_always(True)
        try:
            torch.ones(2, dtype=torch.complex64).to(torch.bool)
        finally:
            torch.set_warn_always(False)


def test_a_warning_can_be_an_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="degrees of freedom"):
            torch.std(torch.ones(1))
        with pytest.raises(UserWarning, match="out of bounds"):
            torch.zeros(100_000).random_(2**40)
        with pytest.raises(UserWarning, match="was resized"):
            torch.add(torch.ones(2), 1, out=torch.ones(3))
    assert torch.ones(2).add(1).tolist() == [2, 2]


def test_integers_that_do_not_fit_are_value_errors() -> None:
    for call in (lambda: torch.zeros(3).random_(2**63), lambda: torch.eye(2**63)):
        with pytest.raises(ValueError, match="Overflow when unpacking"):
            call()


def test_warnings_given_once_are_given_always_on_demand() -> None:
    line = torch.arange(2)
    torch.meshgrid(line, line)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.meshgrid(line, line)
        torch.meshgrid(line, line, indexing="ij")
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="pass the indexing argument"):
            torch.meshgrid(line, line)
    finally:
        torch.set_warn_always(False)


def test_data_of_numpy_that_is_slow_or_must_not_be_written() -> None:
    array = np.zeros(2)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="list of numpy.ndarrays is extremely slow"):
            torch.tensor([array, array])
        array.flags.writeable = False
        with pytest.warns(UserWarning, match="not writable"):
            torch.from_numpy(array)
    finally:
        torch.set_warn_always(False)


def test_range_and_transforms_without_windows() -> None:
    with pytest.warns(UserWarning, match="torch.range is deprecated"):
        torch.range(0, 3)
    with pytest.warns(UserWarning, match="A window was not provided"):
        spectra = torch.stft(torch.ones(16), 4, return_complex=True)
    with pytest.warns(UserWarning, match="A window was not provided"):
        torch.istft(spectra, 4)


def test_backward_with_create_graph_warns_once() -> None:
    x = torch.ones(2, requires_grad=True)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle"):
            (x * x).sum().backward(create_graph=True)
    finally:
        torch.set_warn_always(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (x * x).sum().backward(create_graph=True)
    x.grad = None


def test_names_that_have_better_ones() -> None:
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="torch.cross without specifying the dim arg"):
            torch.cross(torch.ones(3), torch.ones(3))
        with pytest.warns(UserWarning, match="The use of `x.T` on tensors of dimension other"):
            assert torch.ones(2, 3, 4).T.shape == (4, 3, 2)
        with pytest.warns(UserWarning, match="in favor of torch.linalg.solve_triangular"):
            torch.triangular_solve(torch.ones(2, 1), torch.eye(2))
        with pytest.warns(UserWarning, match="in favor of torch.linalg.lu_solve"):
            torch.lu_solve(torch.ones(2, 1), torch.eye(2), torch.tensor([1, 2], dtype=torch.int32))
        with pytest.warns(UserWarning, match="stft with return_complex=False is deprecated"):
            torch.stft(torch.ones(9), 4, window=torch.ones(4), return_complex=False)
        with pytest.warns(UserWarning, match="please use torch.set_default_dtype"):
            torch.set_default_tensor_type(torch.FloatTensor)
    finally:
        torch.set_warn_always(False)
    with pytest.warns(UserWarning, match="torch.chain_matmul is deprecated"):
        torch.chain_matmul(torch.eye(2), torch.eye(2))
    refused = pytest.raises(RuntimeError, match="tensors 0 and 1 with shapes")
    with pytest.warns(UserWarning, match="torch.chain_matmul is deprecated"), refused:
        torch.chain_matmul(torch.eye(2), torch.eye(3))


FLOATS = """
import math, warnings, flambeau as torch
x = torch.tensor(1.5, requires_grad=True)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    int(x), bool(x), x.item(), x.tolist(), float(x.detach())
    with torch.no_grad():
        float(x)
    assert not told
    math.sqrt(x * 2), float(x), complex(x)
assert len(told) == 1 and "requires_grad=True to a scalar" in str(told[0].message), told
"""


def test_a_number_that_leaves_the_graph_is_told_of_once() -> None:
    subprocess.run([sys.executable, "-c", FLOATS], check=True)
