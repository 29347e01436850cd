"""What PyTorch's tests share, for tests written against it: a TestCase that compares tensors, tests
with parameters, conditions to skip by, and matrices of known kinds.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import io
import itertools
import os
import platform
import random
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau as torch
from flambeau import Tensor
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.testing import assert_close, make_tensor

__all__ = [
    "IS_CI", "IS_LINUX", "IS_MACOS", "IS_WINDOWS", "IS_X86", "SEED", "TEST_CUDA", "TEST_NUMPY",
    "TEST_SCIPY", "TEST_WITH_ASAN", "TEST_WITH_ROCM", "TEST_WITH_SLOW", "BytesIOContextManager",
    "DeterministicGuard", "TemporaryDirectoryName", "TemporaryFileName", "TestCase", "decorateIf",
    "dtype_name", "freeze_rng_state", "gradcheck", "gradgradcheck",
    "instantiate_parametrized_tests", "is_iterable", "is_iterable_of_tensors", "iter_indices",
    "make_tensor", "noncontiguous_like", "parametrize", "random_hermitian_pd_matrix",
    "random_square_matrix_of_rank", "random_symmetric_matrix", "random_symmetric_pd_matrix",
    "run_tests", "set_default_dtype", "set_rng_seed", "skipIfNoLapack", "skipIfRocm",
    "skipIfTorchDynamo", "slowTest", "subtest", "suppress_warnings",
]  # fmt: skip

# --- The machine ---------------------------------------------------------------------------------

SEED = 1234
IS_WINDOWS = sys.platform == "win32"
IS_MACOS = sys.platform == "darwin"
IS_LINUX = sys.platform == "linux"
IS_X86 = platform.machine() in ("x86_64", "i386")
IS_CI = bool(os.environ.get("CI"))
TEST_NUMPY = importlib.util.find_spec("numpy") is not None
TEST_SCIPY = importlib.util.find_spec("scipy") is not None
TEST_CUDA = torch.cuda.is_available()
TEST_WITH_ROCM = False
TEST_WITH_ASAN = False
TEST_WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW", "0") == "1"


def _skip_unless(condition: bool, reason: str) -> Callable[[Any], Any]:
    return unittest.skipUnless(condition, reason)


slowTest = _skip_unless(TEST_WITH_SLOW, "test is slow; set PYTORCH_TEST_WITH_SLOW=1 to run it")
skipIfNoLapack = _skip_unless(True, "LAPACK is always there")


def skipIfRocm(function: Any = None, *, msg: str = "") -> Any:
    """There is no ROCm: the test runs."""
    return function if function is not None else lambda inner: inner


def skipIfTorchDynamo(msg: str = "") -> Callable[[Any], Any]:
    """Nothing is compiled: the test runs."""
    return lambda function: function


def suppress_warnings(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return quiet


def run_tests(argv: list[str] | None = None) -> None:
    """Runs the tests of the main module."""
    unittest.main(argv=sys.argv if argv is None else argv)


# --- Tests with parameters -----------------------------------------------------------------------


class subtest:
    """Values of the parameters of one test, with a name and decorators of its own."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Any = None) -> None:
        self.arg_values = arg_values
        self.name = name
        self.decorators = list(decorators or ())


class parametrize:
    """Makes a test of each value: ``@parametrize("x,y", [(1, 2), (3, 4)])``. The class is to be
    handed to :func:`instantiate_parametrized_tests`.
    """

    def __init__(self, arg_str: str, arg_values: Iterable[Any], name_fn: Any = None) -> None:
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values = arg_values
        self.name_fn = name_fn

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        function.__dict__.setdefault("parameter_sets", []).append(self)
        return function

    def cases(self) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
        """Of each value: the ending of the test's name, the arguments, the decorators."""
        for place, value in enumerate(self.values):
            one = value if isinstance(value, subtest) else subtest(value)
            values = [one.arg_values] if len(self.names) == 1 else list(one.arg_values)
            yield (
                one.name or self._name(place, values),
                dict(zip(self.names, values, strict=True)),
                one.decorators,
            )

    def _name(self, place: int, values: list[Any]) -> str:
        if self.name_fn is not None:
            return str(self.name_fn(*values))
        return "_".join(
            _value_name(name, value, place) for name, value in zip(self.names, values, strict=True)
        )


def _value_name(name: str, value: Any, place: int) -> str:
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, (type(None), bool, int, float, str)):
        return f"{name}_{str(value).replace('.', '_')}"
    own = getattr(value, "__name__", None)
    return f"{name}_{own}" if own else f"{name}{place}"


def parameter_cases(function: Any) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """Every combination of the parameters of a test, the outermost decorator's first."""
    sets = reversed(function.__dict__.get("parameter_sets", []))
    for combination in itertools.product(*(list(one.cases()) for one in sets)):
        suffix = "_".join(name for name, _, _ in combination)
        arguments = {key: value for _, given, _ in combination for key, value in given.items()}
        yield suffix, arguments, [d for _, _, decorators in combination for d in decorators]


def bound_test(function: Any, name: str, arguments: dict[str, Any], decorators: Any = ()) -> Any:
    """The test with some of its arguments, under another name."""

    @functools.wraps(function)
    def test(self: Any, *args: Any) -> Any:
        return function(self, *args, **arguments)

    test.__name__ = name
    del test.__wrapped__  # so that nobody asks for the arguments that are bound
    for decorator in decorators:
        test = decorator(test)
    return test


def instantiate_parametrized_tests(generic_cls: type) -> type:
    """Puts a test for each combination of parameters in the place of those with parameters."""
    for name, function in list(generic_cls.__dict__.items()):
        if not getattr(function, "parameter_sets", None):
            continue
        delattr(generic_cls, name)
        for suffix, arguments, decorators in parameter_cases(function):
            full = f"{name}_{suffix}"
            setattr(generic_cls, full, bound_test(function, full, arguments, decorators))
    return generic_cls


class decorateIf:
    """A decorator for those combinations of parameters for which ``predicate_fn`` is true."""

    def __init__(self, decorator: Any, predicate_fn: Callable[[dict[str, Any]], bool]) -> None:
        self.decorator = decorator
        self.predicate = predicate_fn

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        decorated = self.decorator(function)

        @functools.wraps(function)
        def test(*args: Any, **kwargs: Any) -> Any:
            return (decorated if self.predicate(kwargs) else function)(*args, **kwargs)

        return test


# --- The TestCase --------------------------------------------------------------------------------


class TestCase(unittest.TestCase):
    """A unittest.TestCase whose ``assertEqual`` compares tensors, and what holds tensors, within
    the tolerances of their dtypes (or ``precision`` and ``rel_tol``, where these are larger).
    """

    precision: float = 0.0
    rel_tol: float = 0.0

    def setUp(self) -> None:
        set_rng_seed(SEED)

    def assertEqual(  # type: ignore[override]
        self,
        x: Any,
        y: Any,
        msg: Any = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_layout: bool = False,
        exact_stride: bool = False,
    ) -> None:
        x, y = _paired(x, y)
        if not _comparable(x) or not _comparable(y):
            super().assertEqual(x, y, msg)
            return
        if (atol is None or rtol is None) and (self.precision or self.rel_tol):
            atol, rtol = self._tolerances(x, y, atol, rtol)
        assert_close(
            x, y, atol=atol, rtol=rtol, equal_nan=equal_nan,
            check_dtype=exact_dtype, check_device=exact_device,
            check_layout=exact_layout, check_stride=exact_stride,
            msg=(lambda text: f"{text}\n{msg}") if msg is not None and not callable(msg) else msg,
        )  # fmt: skip

    def _tolerances(self, x: Any, y: Any, atol: Any, rtol: Any) -> tuple[float, float]:
        from flambeau.testing._comparison import default_tolerances

        tensors = [one for one in (x, y) if isinstance(one, Tensor)]
        usual = default_tolerances(*tensors) if tensors else (1.3e-6, 1e-5)
        wanted_rtol = max(usual[0], self.rel_tol) if rtol is None else rtol
        return max(usual[1], self.precision) if atol is None else atol, wanted_rtol

    def assertNotEqual(self, x: Any, y: Any, msg: Any = None, **kwargs: Any) -> None:  # type: ignore[override]
        with self.assertRaises(AssertionError, msg=msg):
            self.assertEqual(x, y, msg, **kwargs)

    def assertEqualIgnoreType(self, *args: Any, **kwargs: Any) -> None:
        self.assertEqual(*args, exact_dtype=False, **kwargs)

    def compare_with_numpy(
        self, torch_fn: Any, np_fn: Any, tensor_like: Any, device: Any = None, dtype: Any = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        """Asserts that a function of tensors is the same function of arrays."""
        tensor = torch.as_tensor(tensor_like, device=device, dtype=dtype)
        expected = np_fn(tensor.cpu().numpy())
        found = torch_fn(tensor)
        self.assertEqual(found, torch.as_tensor(expected), exact_dtype=False, **kwargs)

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: Any, regex: str = "") -> Iterator[None]:
        with self.assertWarnsRegex(category, regex):
            yield


def _paired(x: Any, y: Any) -> tuple[Any, Any]:
    """The same two, tensors in place of what stands beside a tensor: a list or a number, of the
    tensor's own dtype, or an array.
    """
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)) and len(x) == len(y):
        pairs = [_paired(one, two) for one, two in zip(x, y, strict=True)]
        return [one for one, _ in pairs], [two for _, two in pairs]
    if isinstance(x, dict) and isinstance(y, dict) and x.keys() == y.keys():
        both = {key: _paired(x[key], y[key]) for key in x}
        return {k: v[0] for k, v in both.items()}, {k: v[1] for k, v in both.items()}
    if isinstance(x, Tensor) == isinstance(y, Tensor):
        return x, y
    if isinstance(y, Tensor):
        return _paired(y, x)[::-1]
    if isinstance(y, (bool, int, float, complex)) and x.numel() != 1:
        raise ValueError(
            "Only single element tensor-likes can be compared against a number. Got "
            f"{x.numel()} elements instead."
        )
    if isinstance(y, (bool, int, float, complex)):
        return x.item(), y
    if isinstance(y, (list, tuple)):
        return x, torch.tensor(y, dtype=x.dtype, device=x.device)
    return x, torch.as_tensor(y) if hasattr(y, "__array__") else y


def _comparable(value: Any) -> bool:
    """Whether tensors or numbers are compared, alone or in sequences and mappings."""
    if isinstance(value, (list, tuple)):
        return all(_comparable(one) for one in value)
    if isinstance(value, dict):
        return all(_comparable(one) for one in value.values())
    if isinstance(value, (Tensor, int, float, complex)):
        return True
    return type(value).__module__ == "numpy" and hasattr(value, "dtype")


# --- Surroundings --------------------------------------------------------------------------------


def set_rng_seed(seed: int = SEED) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Draws inside leave the global generators where they were."""
    with torch.random.fork_rng():
        yield


@contextlib.contextmanager
def set_default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class DeterministicGuard:
    """Deterministic algorithms, or not, within a block."""

    def __init__(self, deterministic: bool, *, warn_only: bool = False) -> None:
        self.deterministic = deterministic
        self.warn_only = warn_only

    def __enter__(self) -> None:
        self.before = torch.are_deterministic_algorithms_enabled()
        self.warned_only = torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(self.deterministic, warn_only=self.warn_only)

    def __exit__(self, *_: object) -> None:
        torch.use_deterministic_algorithms(self.before, warn_only=self.warned_only)


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Iterator[str]:
    with TemporaryDirectoryName() as folder:
        yield os.path.join(folder, "file" + str(kwargs.get("suffix", "")))


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    with tempfile.TemporaryDirectory(suffix=suffix) as folder:
        yield folder


@contextlib.contextmanager
def BytesIOContextManager() -> Iterator[io.BytesIO]:
    yield io.BytesIO()


# --- Tensors -------------------------------------------------------------------------------------


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).split(".")[1]


def is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable)


def is_iterable_of_tensors(iterable: Any, include_empty: bool = False) -> bool:
    if isinstance(iterable, Tensor) or not isinstance(iterable, Iterable):
        return False
    items = list(iterable)
    return include_empty if not items else all(isinstance(item, Tensor) for item in items)


def iter_indices(tensor: Tensor) -> Any:
    """The indices of all elements."""
    if tensor.dim() == 1:
        return range(tensor.size(0))
    return itertools.product(*(range(size) for size in tensor.size()))


def noncontiguous_like(tensor: Tensor) -> Tensor:
    """The same values with gaps between them."""
    wide = tensor.new_zeros((*tensor.shape, 2))
    wide[..., 0] = tensor.detach()
    return wide[..., 0].requires_grad_(tensor.requires_grad)


def random_symmetric_matrix(size: int, *batch: int, **options: Any) -> Tensor:
    a = torch.randn(*batch, size, size, **options)
    return (a + a.mT) / 2


def random_symmetric_pd_matrix(size: int, *batch: int, **options: Any) -> Tensor:
    a = torch.randn(*batch, size, size, **options)
    return a @ a.mT + torch.eye(size, dtype=a.dtype, device=a.device) * 1e-5


def random_hermitian_pd_matrix(size: int, *batch: int, **options: Any) -> Tensor:
    a = torch.randn(*batch, size, size, **options)
    return a @ a.mH + torch.eye(size, dtype=a.dtype, device=a.device)


def random_square_matrix_of_rank(size: int, rank: int, **options: Any) -> Tensor:
    if rank > size:
        raise AssertionError(f"a matrix of size {size} has no rank {rank}")
    left, _, right = torch.svd(torch.randn(size, size, **options))
    values = torch.arange(size, 0, -1, dtype=left.real.dtype, device=left.device)
    return (left * values.where(values > size - rank, values.new_zeros(()))) @ right.mH


def signature_takes(function: Any, name: str) -> bool:
    """Whether a test has a parameter of this name."""
    return name in inspect.signature(function).parameters
