"""torch.testing: assert_close and make_tensor."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.testing import assert_close, make_tensor

T = torch.tensor

CLOSE = (
    (T([1.0]), T([1.0 + 1e-6])),
    (T([math.inf]), T([math.inf])),
    (1, 1),
    (None, None),
    ([T([1.0]), {"a": 2}], [T([1.0]), {"a": 2}]),
    ((1,), [1]),
    (np.array([1.0]), np.array([1.0])),
    (np.float64(1), 1.0),
    (torch.empty(0), torch.empty(0)),
    (T([1.0], requires_grad=True), T([1.0])),
    (torch.zeros(2, 3), torch.zeros(3, 2).t()),
)


@pytest.mark.parametrize("actual, expected", CLOSE)
def test_close(actual, expected) -> None:
    assert_close(actual, expected)


DIFFERENT = (
    (T([1.0]), T([1]), "'dtype' do not match: torch.float32 != torch.int64"),
    (T([1.0, 2.0]), T([1.0]), r"'shape' do not match: torch.Size\(\[2\]\) != torch.Size\(\[1\]\)"),
    (T([1.0]), T([1.0], device="meta"), "'device' do not match: cpu != meta"),
    (T([math.nan]), T([math.nan]), "Greatest absolute difference: nan"),
    (1, 1.0, "types do not match: <class 'int'> != <class 'float'>"),
    (True, False, "Booleans mismatch: True is not False"),
    (None, 1, "None mismatch: None is not 1"),
    ([1, 2], [1], "length of the sequences mismatch: 2 != 1"),
    ({"a": 1}, {"b": 1}, r"Missing keys in the actual mapping: \['b'\]"),
    ({"a": [1, 2]}, {"a": [1, 3]}, r"The failure occurred for item \['a'\]\[1\]"),
    (T(1.0), T(2.0), "Scalars are not close!\n\nExpected 2.0 but got 1.0."),
)


@pytest.mark.parametrize("actual, expected, message", DIFFERENT, ids=[m for _, _, m in DIFFERENT])
def test_different(actual, expected, message) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_close(actual, expected)


def test_the_message_counts_and_positions() -> None:
    with pytest.raises(AssertionError) as error:
        assert_close(T([[1.0, 2.0], [3.0, 4.0]]), T([[1.0, 2.0], [3.0, 5.0]]))
    assert str(error.value) == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 1.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.20000000298023224 at index (1, 1) (up to 1.3e-06 allowed)"
    )
    with pytest.raises(AssertionError, match="not equal!\n\nMismatched elements: 1 / 2"):
        assert_close(T([1, 2]), T([1, 3]))


def test_tolerances() -> None:
    assert_close(T([1.0]), T([1.5]), rtol=0.5, atol=0)
    with pytest.raises(ValueError, match="no atol"):
        assert_close(T([1.0]), T([1.5]), rtol=0.5)
    assert_close(T([1.0], dtype=torch.float16), T([1.001], dtype=torch.float32), check_dtype=False)
    assert_close(T([math.nan]), T([math.nan]), equal_nan=True)


def test_messages_of_the_user() -> None:
    with pytest.raises(AssertionError, match=r"^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match=r"^before Scalars"):
        assert_close(1, 2, msg=lambda text: "before " + text)


@pytest.mark.parametrize("actual, expected", [(T([1.0]), 1.0), ("a", "a"), ({1}, {1})])
def test_what_cannot_be_compared(actual, expected) -> None:
    with pytest.raises(TypeError, match="No comparison pair was able to handle"):
        assert_close(actual, expected)


def test_subclasses_can_be_kept_apart() -> None:
    class Sub(torch.Tensor):
        pass

    assert_close(T([1.0]).as_subclass(Sub), T([1.0]))
    with pytest.raises(TypeError, match="Sub"):
        assert_close(T([1.0]).as_subclass(Sub), T([1.0]), allow_subclasses=False)


DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_make_tensor(dtype) -> None:
    tensor = make_tensor(3, 4, dtype=dtype, device="cpu")
    assert tensor.shape == (3, 4) and tensor.dtype == dtype and tensor.is_contiguous()
    apart = make_tensor((3, 4), dtype=dtype, device="cpu", noncontiguous=True)
    assert apart.shape == (3, 4) and not apart.is_contiguous()
    assert (make_tensor(100, dtype=dtype, device="cpu", exclude_zero=True) != 0).all()


def test_make_tensor_ranges() -> None:
    tensor = make_tensor(1000, dtype=torch.float64, device="cpu", low=2, high=3)
    assert tensor.min() >= 2 and tensor.max() < 3
    assert make_tensor(9, dtype=torch.int64, device="cpu", low=4, high=5).tolist() == [4] * 9
    assert make_tensor(2, dtype=torch.float32, device="cpu", requires_grad=True).requires_grad
    wide = make_tensor(9, dtype=torch.float32, device="cpu", low=-math.inf, high=math.inf)
    assert wide.isfinite().all()


def test_make_tensor_errors() -> None:
    for arguments, message in (
        ({"low": 5, "high": 2}, "must be less than"),
        ({"low": math.nan}, "cannot be NaN"),
        ({"requires_grad": True}, "requires_grad=True"),
        ({"low": 2**40, "high": 2**41}, "only supports"),
    ):
        with pytest.raises(ValueError, match=message):
            make_tensor(2, dtype=torch.int32, device="cpu", **arguments)
