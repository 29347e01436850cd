"""assert_close: compares tensors, numbers, and sequences and mappings of them.

The two structures are walked together first, which finds what cannot be compared at all; then the
leaf pairs are compared in order, and the first that differs is reported with its place in the
structure.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping, Sequence

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from flambeau import Tensor

# dtype: (rtol, atol); every other dtype is compared exactly.
_DTYPE_PRECISIONS = {
    flambeau.float16: (0.001, 1e-5),
    flambeau.bfloat16: (0.016, 1e-5),
    flambeau.float32: (1.3e-6, 1e-5),
    flambeau.float64: (1e-7, 1e-7),
    flambeau.complex32: (0.001, 1e-5),
    flambeau.complex64: (1.3e-6, 1e-5),
    flambeau.complex128: (1e-7, 1e-7),
}


def default_tolerances(*inputs: Any, dtype_precisions: Any = None) -> tuple[float, float]:
    """The default (rtol, atol) for comparing tensors, or dtypes: those of the least precise."""
    table = _DTYPE_PRECISIONS if dtype_precisions is None else dtype_precisions
    dtypes = [item.dtype if isinstance(item, flambeau.Tensor) else item for item in inputs]
    pairs = [table.get(dtype, (0.0, 0.0)) for dtype in dtypes]
    return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def get_tolerances(
    *inputs: Any, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """The tolerances given, which must be both or none, or the default ones."""
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{missing}.{_place(id)}"
        )
    if rtol is not None and atol is not None:
        return rtol, atol
    return default_tolerances(*inputs)


class _Options:
    """The arguments of assert_close that concern every pair."""

    def __init__(self, **options: Any) -> None:
        self.allow_subclasses: bool = options["allow_subclasses"]
        self.rtol: float | None = options["rtol"]
        self.atol: float | None = options["atol"]
        self.equal_nan: bool = options["equal_nan"]
        self.check_device: bool = options["check_device"]
        self.check_dtype: bool = options["check_dtype"]
        self.check_layout: bool = options["check_layout"]
        self.check_stride: bool = options["check_stride"]


class _Mismatch(Exception):
    """Two values differ: what the AssertionError will say, before `msg` has been applied."""

    def __init__(self, text: str, place: tuple[Any, ...] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.place = place


def _place(place: tuple[Any, ...]) -> str:
    if not place:
        return ""
    return "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in place)


# Walking the structures ---------------------------------------------------------------------------
def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _related(actual: Any, expected: Any) -> bool:
    return isinstance(actual, type(expected)) or isinstance(expected, type(actual))


def _numpy_kind(value: Any) -> str | None:
    """The kind of a NumPy scalar, without importing NumPy."""
    dtype = getattr(value, "dtype", None)
    if type(value).__module__ != "numpy" or getattr(value, "shape", None) != ():
        return None
    return getattr(dtype, "kind", None)


def _as_number(value: Any) -> Any:
    """A Python bool or number for `value`, or None if it is no number."""
    if isinstance(value, bool):
        return value
    # A NumPy float64 is a float too, but of another type: hence the conversions.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, complex):
        return complex(value)
    convert = {"b": bool, "i": int, "u": int, "f": float, "c": complex}.get(
        _numpy_kind(value) or ""
    )
    return None if convert is None else convert(value)


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, flambeau.Tensor) or hasattr(value, "__array_interface__")


def _leaf_pairs(
    actual: Any, expected: Any, options: _Options, place: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Mismatch(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", place
            )
        for index in range(len(actual)):
            yield from _leaf_pairs(actual[index], expected[index], options, (*place, index))
        return
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        yield from _mapping_pairs(actual, expected, options, place)
        return
    _check_comparable(actual, expected, options, place)
    yield place, actual, expected


def _mapping_pairs(
    actual: Mapping[Any, Any],
    expected: Mapping[Any, Any],
    options: _Options,
    place: tuple[Any, ...],
) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    missing = [key for key in expected if key not in actual]
    additional = [key for key in actual if key not in expected]
    if missing or additional:
        raise _Mismatch(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(missing, key=repr)}\n"
            f"Additional keys in the actual mapping: {sorted(additional, key=repr)}",
            place,
        )
    for key in sorted(expected, key=repr):
        yield from _leaf_pairs(actual[key], expected[key], options, (*place, key))


def _check_comparable(
    actual: Any, expected: Any, options: _Options, place: tuple[Any, ...]
) -> None:
    if actual is None or expected is None:
        return
    if _as_number(actual) is not None and _as_number(expected) is not None:
        return
    tensors = _is_tensor_like(actual) and _is_tensor_like(expected) and _related(actual, expected)
    if tensors and (options.allow_subclasses or type(actual) is type(expected)):
        return
    where = f" at item {''.join(f'[{key!r}]' for key in place)}" if place else ""
    raise TypeError(
        "No comparison pair was able to handle inputs of type "
        f"{type(actual)} and {type(expected)}{where}."
    )


# Comparing a pair ---------------------------------------------------------------------------------
def _compare(actual: Any, expected: Any, options: _Options, place: tuple[Any, ...]) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(f"None mismatch: {actual} is not {expected}", place)
    elif _as_number(actual) is not None and _as_number(expected) is not None:
        _compare_numbers(_as_number(actual), _as_number(expected), options, place)
    else:
        _compare_tensors(_as_tensor(actual), _as_tensor(expected), options, place)


def _as_tensor(value: Any) -> Tensor:
    return value.detach() if isinstance(value, flambeau.Tensor) else flambeau.as_tensor(value)


def _compare_numbers(actual: Any, expected: Any, options: _Options, place: tuple[Any, ...]) -> None:
    if isinstance(actual, bool) and isinstance(expected, bool):
        if actual is not expected:
            raise _Mismatch(f"Booleans mismatch: {actual} is not {expected}", place)
        return
    if type(actual) is not type(expected) and options.check_dtype:
        raise _Mismatch(f"The (d)types do not match: {type(actual)} != {type(expected)}.", place)
    dtypes = {int: flambeau.int64, float: flambeau.float64, complex: flambeau.complex128}
    kinds = [dtypes.get(type(number), flambeau.int64) for number in (actual, expected)]
    rtol, atol = get_tolerances(*kinds, rtol=options.rtol, atol=options.atol, id=place)
    if not _numbers_close(actual, expected, rtol, atol, options.equal_nan):
        raise _Mismatch(_scalar_message(actual, expected, rtol, atol), place)


def _numbers_close(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if actual == expected:
        return True
    if cmath.isnan(actual) and cmath.isnan(expected):
        return equal_nan
    if cmath.isinf(actual) or cmath.isinf(expected):
        return False
    return abs(actual - expected) <= atol + rtol * abs(expected)


def _allowed(tolerance: float, rtol: float, atol: float) -> str:
    return f" (up to {tolerance} allowed)" if rtol or atol else ""


def _scalar_message(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    difference = abs(actual - expected)
    relative = math.inf if expected == 0 else difference / abs(expected)
    return (
        f"Scalars are not {'close' if rtol or atol else 'equal'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{_allowed(atol, rtol, atol)}\n"
        f"Relative difference: {relative}{_allowed(rtol, rtol, atol)}"
    )


def _check_attributes(
    actual: Tensor, expected: Tensor, options: _Options, place: tuple[Any, ...]
) -> None:
    def require_same(name: str, one: Any, two: Any) -> None:
        if one != two:
            raise _Mismatch(
                f"The values for attribute '{name}' do not match: {one} != {two}.", place
            )

    require_same("shape", actual.shape, expected.shape)
    if options.check_layout:
        require_same("layout", actual.layout, expected.layout)
    if options.check_stride:
        require_same("stride()", actual.stride(), expected.stride())
    if options.check_device:
        require_same("device", actual.device, expected.device)
    if options.check_dtype:
        require_same("dtype", actual.dtype, expected.dtype)
    require_same("is_quantized", actual.is_quantized, expected.is_quantized)
    if actual.is_quantized:
        require_same("qscheme()", actual.qscheme(), expected.qscheme())


def _to_common(actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """Both on one device and in one dtype, wide enough to subtract."""
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    dtype = actual.dtype
    if dtype != expected.dtype:
        dtype = flambeau.promote_types(dtype, expected.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = flambeau.int64
    return actual.to(dtype), expected.to(dtype)


def _compare_tensors(
    actual: Tensor, expected: Tensor, options: _Options, place: tuple[Any, ...]
) -> None:
    _check_attributes(actual, expected, options, place)
    if actual.is_quantized:
        actual, expected = actual.dequantize(), expected.dequantize()
    rtol, atol = get_tolerances(actual, expected, rtol=options.rtol, atol=options.atol, id=place)
    if rtol < 0 or atol < 0:
        raise RuntimeError(
            f"assert_close: rtol and atol must not be negative, but got {rtol=}, {atol=}"
        )
    if actual.is_meta or expected.is_meta:
        return
    actual, expected = _to_common(actual, expected)
    if actual.layout != expected.layout:
        actual, expected = actual.to_dense(), expected.to_dense()
    if actual.layout is not flambeau.strided:
        _compare_sparse(actual, expected, options, (rtol, atol), place)
        return
    _compare_elements(actual, expected, options, (rtol, atol), place, "Tensor-likes")


def _compare_elements(
    actual: Tensor,
    expected: Tensor,
    options: _Options,
    tolerances: tuple[float, float],
    place: tuple[Any, ...],
    subject: str,
) -> None:
    rtol, atol = tolerances
    matches = flambeau.isclose(actual, expected, rtol, atol, options.equal_nan)
    if matches.all():
        return
    if actual.dim() == 0:
        text = _scalar_message(actual.item(), expected.item(), rtol, atol)
    else:
        text = _tensor_message(actual, expected, matches, rtol, atol, subject)
    raise _Mismatch(text, place)


def _compare_sparse(
    actual: Tensor,
    expected: Tensor,
    options: _Options,
    tolerances: tuple[float, float],
    place: tuple[Any, ...],
) -> None:
    """Compares what two sparse tensors of one layout are made of, part by part."""
    if actual.is_sparse and actual.is_coalesced() != expected.is_coalesced():
        actual, expected = actual.coalesce(), expected.coalesce()
    kind = "Sparse " + str(actual.layout).removeprefix("torch.sparse_").upper()
    if actual.is_sparse and actual.sparse_dim() != expected.sparse_dim():
        raise _Mismatch(
            "The number of sparse dimensions in sparse COO tensors does not match: "
            f"{actual.sparse_dim()} != {expected.sparse_dim()}",
            place,
        )
    if actual._nnz() != expected._nnz():
        raise _Mismatch(
            f"The number of specified values in {kind[0].lower()}{kind[1:]} tensors does not "
            f"match: {actual._nnz()} != {expected._nnz()}",
            place,
        )
    if actual.is_sparse:
        names = ["_indices"]
    elif actual.layout in (flambeau.sparse_csr, flambeau.sparse_bsr):
        names = ["crow_indices", "col_indices"]
    else:
        names = ["ccol_indices", "row_indices"]
    for name in [*names, "_values"]:
        subject = f"{kind} {name.lstrip('_')}"
        one, two = getattr(actual, name)(), getattr(expected, name)()
        allowed = tolerances if name == "_values" else (0.0, 0.0)
        _compare_elements(one, two, options, allowed, place, subject)


def _greatest(differences: Tensor, matches: Tensor) -> tuple[Any, tuple[int, ...]]:
    """The greatest difference among the elements that do not match, and its index."""
    masked = differences.masked_fill(matches, 0).reshape(-1)
    position = int(masked.argmax().item())
    value = masked[position].item()
    index = []
    for size in reversed(differences.shape):
        position, coordinate = divmod(position, size)
        index.append(coordinate)
    return value, tuple(reversed(index))


def _tensor_message(
    actual: Tensor, expected: Tensor, matches: Tensor, rtol: float, atol: float, subject: str
) -> str:
    total = matches.numel()
    wrong = total - int(matches.sum().item())
    mismatched = f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})\n"
    if actual.dtype.is_floating_point and actual.dtype.itemsize == 1:
        # Numbers of eight bits have no arithmetic that could say how far they are apart.
        first = tuple((~matches).nonzero()[0].tolist())
        return (
            f"{subject} are not 'equal'!\n\n{mismatched}"
            f"The first mismatched element is at index {first}."
        )
    absolute = (actual - expected).abs()
    absolute_value, absolute_index = _greatest(absolute, matches)
    relative_value, relative_index = _greatest(absolute / expected.abs(), matches)
    return (
        f"{subject} are not {'close' if rtol or atol else 'equal'}!\n\n"
        f"{mismatched}"
        f"Greatest absolute difference: {absolute_value} at index {absolute_index}"
        f"{_allowed(atol, rtol, atol)}\n"
        f"Greatest relative difference: {relative_value} at index {relative_index}"
        f"{_allowed(rtol, rtol, atol)}"
    )


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raises an AssertionError unless |actual - expected| <= atol + rtol * |expected| for all
    elements.

    Args:
        actual, expected: tensors, arrays, numbers, None, or sequences and mappings of them.
        allow_subclasses: whether two types of which one is a subclass of the other may be compared.
        rtol, atol: the tolerances, both or none; by default they follow from the dtypes.
        equal_nan: whether two NaNs are equal.
        check_device, check_dtype, check_layout, check_stride: whether tensors must agree in these
            too.
        msg: the message to raise instead, or a function from the message that was made.
    """
    options = _Options(
        allow_subclasses=allow_subclasses,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
    )
    try:
        with flambeau.no_grad():
            for place, one, two in list(_leaf_pairs(actual, expected, options, ())):
                _compare(one, two, options, place)
    except _Mismatch as mismatch:
        text = mismatch.text + _place(mismatch.place)
    else:
        return
    if msg is not None:
        text = msg(text) if callable(msg) else msg
    raise AssertionError(text)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """assert_close as it was once: converts both to tensors, and compares neither dtype nor
    device.
    """
    actual, expected = (
        value if isinstance(value, flambeau.Tensor) else flambeau.tensor(value)
        for value in (actual, expected)
    )
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )
