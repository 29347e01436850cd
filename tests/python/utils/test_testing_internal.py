"""Helpers of PyTorch's own tests, for tests written against them."""

from __future__ import annotations

import unittest
from typing import Any

import numpy as np
import pytest

import flambeau as torch
from flambeau.testing._internal import common_dtype
from flambeau.testing._internal import common_utils as utils
from flambeau.testing._internal.common_device_type import (
    dtypes,
    instantiate_device_type_tests,
    onlyCUDA,
    tol,
    toleranceOverride,
)

Case = type("Case", (utils.TestCase,), {"runTest": lambda self: None})


def names(cls: Any) -> list[str]:
    return sorted(name for name in dir(cls) if name.startswith("test"))


def passes(cls: Any) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    assert not result.errors and not result.failures, (result.errors, result.failures)
    return result


def test_equal_means_close() -> None:
    case: Any = Case()
    case.assertEqual(1.0, 1.0 + 1e-9)
    case.assertEqual(torch.ones(2), [1, 1])
    case.assertEqual(torch.tensor(1), 1)
    case.assertEqual(float("nan"), float("nan"))
    case.assertEqual([1, torch.ones(2)], [1, torch.ones(2)])
    case.assertEqual(torch.float32, torch.float32)
    case.assertEqual({1}, {1})
    case.assertEqual(torch.Size([1]), (1,))
    case.assertEqual(torch.ones(1), torch.ones(1) + 1e-4, atol=1e-3, rtol=0)
    case.assertNotEqual(torch.ones(1), torch.zeros(1))
    unequal = [
        (torch.ones(2), torch.ones(2).double()),
        (torch.ones(2), np.ones(2)),
        (torch.ones(2), torch.ones(3)),
        (torch.ones(1), torch.ones(1) + 1e-4),
        ("a", "b"),
    ]
    for x, y in unequal:
        with pytest.raises(AssertionError):
            case.assertEqual(x, y)
    with pytest.raises(AssertionError, match="where it was"):
        case.assertEqual(torch.ones(2), torch.zeros(2), "where it was")


def test_parameters_make_tests() -> None:
    seen = []

    class TestThings(utils.TestCase):
        @utils.parametrize("x", [1, 2.5, "a", torch.float32, (1, 2)])
        @utils.parametrize("y,z", [(1, 2), utils.subtest((3, 4), name="named")])
        def test_a(self, x: Any, y: int, z: int) -> None:
            seen.append((x, y, z))

        @utils.parametrize("flag", [True, False], name_fn=lambda b: f"flag_is_{b}")
        def test_b(self, flag: bool) -> None:
            seen.append(flag)

    utils.instantiate_parametrized_tests(TestThings)
    values = ("float32", "x4", "x_1", "x_2_5", "x_a")
    wanted = [f"test_a_{x}_{rest}" for x in values for rest in ("named", "y_1_z_2")]
    assert names(TestThings) == [*wanted, "test_b_flag_is_False", "test_b_flag_is_True"]
    assert passes(TestThings).testsRun == 12
    assert ("a", 3, 4) in seen and False in seen


def test_devices_and_dtypes_make_tests() -> None:
    seen = []

    class TestGrid(utils.TestCase):
        @dtypes(torch.float32, torch.int64)
        def test_c(self, device: str, dtype: torch.dtype) -> None:
            seen.append(torch.zeros(2, device=device, dtype=dtype).dtype)

        @utils.parametrize("k", [1, 2])
        def test_e(self, device: str, k: int) -> None:
            seen.append(k)

        @onlyCUDA
        def test_f(self, device: str) -> None:
            raise AssertionError("not on a CPU")

        @dtypes((torch.float32, torch.int64))
        def test_g(self, device: str, dtypes: Any) -> None:
            seen.append(dtypes)

        @toleranceOverride({torch.float32: tol(atol=1.0, rtol=0.0)})
        @dtypes(torch.float32)
        def test_h(self, device: str, dtype: torch.dtype) -> None:
            self.assertEqual(torch.zeros(1), torch.full((1,), 0.5))

    scope = {"TestGrid": TestGrid}
    instantiate_device_type_tests(TestGrid, scope, only_for="cpu")
    assert list(scope) == ["TestGridCPU"]
    made: Any = scope["TestGridCPU"]
    assert names(made) == [
        "test_c_cpu_float32", "test_c_cpu_int64", "test_e_k_1_cpu", "test_e_k_2_cpu", "test_f_cpu",
        "test_g_cpu_float32_int64", "test_h_cpu_float32",
    ]  # fmt: skip
    assert len(passes(made).skipped) == 1
    assert seen == [torch.float32, torch.int64, 1, 2, (torch.float32, torch.int64)]


def test_surroundings_come_back() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with utils.freeze_rng_state():
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with utils.set_default_dtype(torch.float64):
        assert torch.ones(1).dtype == torch.float64
    assert torch.ones(1).dtype == torch.float32
    with utils.DeterministicGuard(True):
        assert torch.are_deterministic_algorithms_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    with utils.TemporaryFileName() as name:
        torch.save(torch.ones(2), name)
        assert torch.equal(torch.load(name), torch.ones(2))


def test_matrices_and_dtypes_of_known_kinds() -> None:
    matrix = utils.random_square_matrix_of_rank(5, 3, dtype=torch.float64)
    assert int(torch.linalg.matrix_rank(matrix)) == 3
    torch.linalg.cholesky(utils.random_hermitian_pd_matrix(4, 2, dtype=torch.complex128))
    torch.linalg.cholesky(utils.random_symmetric_pd_matrix(4, dtype=torch.float64))
    a = utils.random_symmetric_matrix(3)
    assert torch.equal(a, a.mT)
    strided = utils.noncontiguous_like(a)
    assert torch.equal(strided, a) and not strided.is_contiguous()
    assert torch.bool in common_dtype.all_types_and_complex_and(torch.bool)
    assert torch.bfloat16 not in common_dtype.get_all_dtypes(include_bfloat16=False)
