"""Samples of the functions whose result is a view of their input."""

from __future__ import annotations

from typing import Any

import numpy as np

from .creation import shape_of
from .spec import as_dtype, call, op, t

Array = Any


def view(x: Array, *size: Any) -> Array:
    return x.reshape(shape_of(size))


def expand(x: Array, *size: Any) -> Array:
    wanted = list(shape_of(size))
    padded = [1] * (len(wanted) - x.ndim) + list(x.shape)
    shape = [have if want == -1 else want for want, have in zip(wanted, padded, strict=True)]
    return np.broadcast_to(x, shape)


def permute(x: Array, *dims: Any) -> Array:
    return np.transpose(x, shape_of(dims))


def transpose(x: Array, dim0: int, dim1: int) -> Array:
    return np.swapaxes(x, dim0, dim1) if x.ndim else x


def squeeze(x: Array, dim: Any = None) -> Array:
    if dim is None:
        return np.squeeze(x)
    dims = [dim] if isinstance(dim, int) else list(dim)
    return x if x.ndim == 0 else np.squeeze(x, tuple(d for d in dims if x.shape[d] == 1))


def narrow(x: Array, dim: int, start: Any, length: int) -> Array:
    start = int(start) % max(x.shape[dim], 1) if start < 0 else int(start)
    return np.take(x, range(start, start + length), axis=dim)


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if x.ndim == 0:
        return x.reshape(1)
    start, end = start_dim % x.ndim, end_dim % x.ndim
    shape = x.shape[:start] + (int(np.prod(x.shape[start : end + 1])),) + x.shape[end + 1 :]
    return x.reshape(shape)


def unflatten(x: Array, dim: int, sizes: Any) -> Array:
    dim %= x.ndim
    sizes = list(sizes)
    if -1 in sizes:
        known = int(np.prod([s for s in sizes if s != -1]))
        sizes[sizes.index(-1)] = x.shape[dim] // known
    return x.reshape(x.shape[:dim] + tuple(sizes) + x.shape[dim + 1 :])


def unfold(x: Array, dimension: int, size: int, step: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=dimension)
    picked = range(0, windows.shape[dimension], step)
    return np.take(windows, picked, axis=dimension)


def chunk(x: Array, chunks: int, dim: int = 0) -> list[Array]:
    size = max(-(-x.shape[dim] // chunks), 1) if x.shape[dim] else 0
    count = -(-x.shape[dim] // size) if size else chunks
    return np.split(x, [size * k for k in range(1, count)], axis=dim)


def split(x: Array, size: Any, dim: int = 0) -> list[Array]:
    if isinstance(size, int):
        if size == 0 or x.shape[dim] == 0:
            return [x]
        cuts = list(range(size, x.shape[dim], size))
    else:
        cuts = list(np.cumsum(size)[:-1])
    return np.split(x, cuts, axis=dim)


def as_strided(x: Array, size: Any, stride: Any, storage_offset: int = 0) -> Array:
    flat = np.ascontiguousarray(x).ravel()
    result = np.zeros(tuple(size), x.dtype)
    for index in np.ndindex(*size):
        result[index] = flat[
            storage_offset + sum(i * s for i, s in zip(index, stride, strict=True))
        ]
    return result


VIEW = {"forms": "view"}
op(
    "view",
    call(t(2, 6), 3, 4),
    call(t(2, 6), (4, 3)),
    call(t(2, 6), -1),
    call(t(2, 6), 2, -1, 3),
    call(t(), 1, 1),
    call(t(1), ()),
    call(t(0, 3), 3, 0),
    ref=view,
    forms="view method-only rigid",
)
op(
    "reshape",
    call(t(2, 6), (3, 4)),
    call(t(2, 6), (-1,)),
    call(t(2, 3, 2), (6, -1)),
    call(t(), (1, 1)),
    call(t(1), ()),
    call(t(0, 3), (3, -1)),
    ref=view,
)
op(
    "reshape_as view_as",
    call(t(2, 6), t(3, 4)),
    call(t(), t(1)),
    call(t(0, 3), t(3, 0)),
    ref=lambda x, y: x.reshape(y.shape),
    forms="view method-only rigid",
    grad=False,
)
op(
    "expand",
    call(t(3, 1), 3, 4),
    call(t(3, 1), (2, 3, 4)),
    call(t(3), 2, -1),
    call(t(), 2, 3),
    call(t(0), 2, 0),
    call(t(1), 0),
    ref=expand,
    forms="view method-only",
)
op(
    "expand_as",
    call(t(3, 1), t(3, 4)),
    call(t(), t(2)),
    call(t(0), t(2, 0)),
    ref=lambda x, y: np.broadcast_to(x, y.shape),
    forms="view method-only",
    grad=False,
)
op(
    "broadcast_to",
    call(t(3, 1), (3, 4)),
    call(t(), (2,)),
    call(t(1), (0,)),
    call(t(0), (2, 0)),
    ref=lambda x, size: expand(x, size),
    **VIEW,
)
op(
    "permute",
    call(t(2, 3, 4), (2, 0, 1)),
    call(t(2, 3, 4), [0, -1, 1]),
    call(t(), ()),
    call(t(0, 2), (1, 0)),
    ref=permute,
    **VIEW,
)
op(
    "transpose swapaxes swapdims",
    call(t(2, 3), 0, 1),
    call(t(2, 3, 4), -1, 0),
    call(t(), 0, -1),
    call(t(0, 2), 0, 1),
    ref=transpose,
    **VIEW,
)
op("t", call(t(2, 3)), call(t(3)), call(t()), call(t(0, 2)), ref=np.transpose, **VIEW)
op(
    "adjoint",
    call(t(2, 3)),
    call(t(2, 3, 4)),
    call(t(0, 2)),
    ref=lambda x: np.conj(np.swapaxes(x, -1, -2)),
    zero_dim="it takes matrices",
    **VIEW,
)
op(
    "movedim moveaxis",
    call(t(2, 3, 4), 0, 2),
    call(t(2, 3, 4), (0, 1), (-1, 0)),
    call(t(0, 2), 0, 1),
    ref=np.moveaxis,
    zero_dim="NumPy has none",
    **VIEW,
)
op(
    "squeeze",
    call(t(1, 3, 1)),
    call(t(1, 3, 1), 0),
    call(t(2, 3), 1),
    call(t(1, 1, 2), (0, 1)),
    call(t(1, 3, 1), -1),
    call(t()),
    call(t(0, 1)),
    ref=squeeze,
    **VIEW,
)
op(
    "unsqueeze",
    call(t(2, 3), 0),
    call(t(2, 3), -1),
    call(t(2, 3), 2),
    call(t(), 0),
    call(t(0, 2), 1),
    ref=np.expand_dims,
    **VIEW,
)
op(
    "select",
    call(t(3, 4), 0, 1),
    call(t(3, 4), 1, -1),
    call(t(2, 3, 4), -1, 2),
    call(t(0, 2), 1, 1),
    ref=lambda x, dim, index: np.take(x, index, axis=dim),
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "narrow",
    call(t(5, 3), 0, 1, 3),
    call(t(3, 5), 1, -2, 2),
    call(t(5), 0, 5, 0),
    call(t(0, 3), 1, 0, 2),
    ref=narrow,
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "diagonal",
    call(t(3, 4)),
    call(t(3, 4), 1),
    call(t(4, 3), -2),
    call(t(2, 3, 4), 0, 1, 2),
    call(t(2, 3, 4), offset=1, dim1=-1, dim2=0),
    call(t(0, 3)),
    call(t(3, 3), 5),
    ref=lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
    zero_dim="it takes matrices",
    **VIEW,
)
op(
    "unfold",
    call(t(7), 0, 3, 2),
    call(t(3, 6), 1, 2, 2),
    call(t(5, 2), 0, 2, 1),
    call(t(), 0, 1, 1),
    call(t(0, 3), 1, 2, 1),
    ref=unfold,
    forms="view method-only",
)
op(
    "flatten",
    call(t(2, 3, 4)),
    call(t(2, 3, 4), 1),
    call(t(2, 3, 4), 0, 1),
    call(t()),
    call(t(0, 2)),
    call(t(2, 3, 4), start_dim=-2),
    ref=flatten,
)
op("ravel", call(t(2, 3)), call(t()), call(t(0, 2)), ref=np.ravel)
op(
    "unflatten",
    call(t(6), 0, (2, 3)),
    call(t(2, 6), -1, (3, -1)),
    call(t(0, 4), 1, (2, 2)),
    ref=unflatten,
    zero_dim="it needs a dimension",
)
op(
    "view_as_real",
    call(t(2, 3)),
    call(t()),
    call(t(0, 2)),
    ref=lambda x: np.stack([x.real, x.imag], -1),
    dtypes="c",
    result="real",
    **VIEW,
)
op(
    "view_as_complex",
    call(t(3, 2)),
    call(t(2)),
    call(t(0, 2)),
    ref=lambda x: x[..., 0] + 1j * x[..., 1],
    dtypes="f",
    result="complex",
    forms="view rigid",
    zero_dim="its last dimension has two elements",
)
op(
    "unbind",
    call(t(2, 3)),
    call(t(2, 3), 1),
    call(t(3), dim=-1),
    call(t(0, 2), grad_=False),
    call(t(2, 0)),
    ref=lambda x, dim=0: [np.take(x, k, axis=dim) for k in range(x.shape[dim])],
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "chunk",
    call(t(7, 2), 3),
    call(t(2, 6), 4, 1),
    call(t(3), 5),
    call(t(0, 2), 2),
    ref=chunk,
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "unsafe_chunk",
    call(t(7, 2), 3),
    ref=chunk,
    empty="chunk shows it",
    zero_dim="it needs a dimension",
)
op(
    "unsafe_split",
    call(t(7, 2), 3),
    call(t(0, 2), 2),
    ref=split,
    zero_dim="it needs a dimension",
)
op(
    "split",
    call(t(7, 2), 3),
    call(t(2, 6), [1, 2, 3], 1),
    call(t(4), 2, dim=-1),
    call(t(0, 2), 2),
    ref=split,
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "split_with_sizes",
    call(t(6, 2), [1, 5]),
    call(t(2, 3), (1, 2), -1),
    call(t(0, 2), [0]),
    ref=split,
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "unsafe_split_with_sizes",
    call(t(6, 2), [1, 5]),
    call(t(2, 3), (1, 2), -1),
    call(t(0, 2), [0]),
    ref=split,
    zero_dim="it needs a dimension",
)
op(
    "tensor_split",
    call(t(7, 2), 3),
    call(t(7), (2, 5)),
    call(t(2, 5), 2, dim=1),
    call(t(0, 2), 2),
    ref=lambda x, cuts, dim=0: np.array_split(x, cuts, axis=dim),
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "hsplit",
    call(t(2, 6), 3),
    call(t(4), 2),
    call(t(2, 5), [2, 4]),
    call(t(0, 2), 2),
    ref=np.hsplit,
    zero_dim="it needs a dimension",
    **VIEW,
)
op(
    "vsplit",
    call(t(6, 2), 3),
    call(t(5, 2), [2, 4]),
    call(t(2, 0), 2),
    ref=np.vsplit,
    zero_dim="it needs two dimensions",
    **VIEW,
)
op(
    "dsplit",
    call(t(2, 1, 6), 3),
    call(t(1, 2, 5), [2, 4]),
    call(t(2, 0, 2), 2),
    ref=np.dsplit,
    zero_dim="it needs three dimensions",
    **VIEW,
)
op(
    "as_strided",
    call(t(3, 4), (2, 2), (4, 1)),
    call(t(3, 4), (2, 3), (1, 2), 1),
    call(t(6), (3, 2), (2, 1)),
    call(t(), (1,), (1,)),
    call(t(0), (0,), (1,)),
    call(t(4), (3, 2), (1, 1)),
    ref=as_strided,
    forms="view rigid",
)
op("atleast_1d", call(t(2, 3)), call(t()), call(t(0)), ref=np.atleast_1d)
op("atleast_2d", call(t(2, 3)), call(t(3)), call(t()), call(t(0)), ref=np.atleast_2d)
op("atleast_3d", call(t(2, 3)), call(t(3)), call(t()), call(t(0)), ref=np.atleast_3d)
op(
    "broadcast_tensors",
    call(t(3, 1), t(4)),
    call(t(), t(2)),
    call(t(0, 1), t(2)),
    ref=lambda *x: list(np.broadcast_arrays(*x)),
)

# Conversions, which are views only when there is nothing to convert.
op(
    "to",
    call(t(2, 3), as_dtype("float64"), result_="float64", dtypes_="bihf"),
    call(t(2, 3), as_dtype("complex64"), result_="complex64", grad_=False),
    call(
        t(2, 3),
        dtype=as_dtype("int32"),
        result_="int32",
        dtypes_="bif",
        grad_=False,
        ref_=lambda x, dtype: np.trunc(x) if x.dtype.kind == "f" else x,
    ),
    call(t(), t(dtype="float32"), dtypes_="bif", result_="float32", grad_=False),
    call(t(0, 2), as_dtype("float32"), dtypes_="bihf", result_="float32"),
    ref=lambda x, *_, **__: x,
    forms="method-only",
)
op(
    "type_as",
    call(t(2, 3), t(1, dtype="float64")),
    call(t(), t(1, dtype="float64")),
    call(t(0, 2), t(1, dtype="float64")),
    ref=lambda x, y: x,
    dtypes="bihf",
    result="float64",
    forms="method-only",
    grad=False,
)
op("contiguous", call(t(2, 3)), call(t()), call(t(0, 2)), ref=np.copy, forms="method-only")
# What a dense tensor answers; tests/python/sparse/test_sparse.py asks sparse ones, the covered too.
op(
    "to_dense",
    call(t(2, 3)),
    call(t()),
    call(t(0, 2)),
    ref=lambda x: x,
    forms="method-only",
    covers="coalesce is_coalesced indices values crow_indices col_indices ccol_indices row_indices "
    "sparse_dim dense_dim",
)
for name, dtype in (
    ("double", "float64"),
    ("float", "float32"),
    ("half", "float16"),
    ("bfloat16", "bfloat16"),
):
    op(
        name,
        call(t(2, 3)),
        call(t()),
        call(t(0, 2)),
        ref=lambda x: x,
        dtypes="bihf",
        result=dtype,
        forms="method-only",
        grad=name == "double",
        tolerance=1,
    )
for name, dtype in (("long", "int64"), ("int", "int32"), ("short", "int16"), ("char", "int8")):
    op(
        name,
        call(t(2, 3)),
        call(t()),
        call(t(0, 2)),
        dtypes="bif",
        result=dtype,
        ref=lambda x: np.trunc(x) if x.dtype.kind == "f" else x,
        forms="method-only",
        grad=False,
    )
op(
    "byte",
    call(t(2, 3, low=0)),
    call(t(low=0)),
    call(t(0, 2)),
    dtypes="bif",
    result="uint8",
    ref=lambda x: np.trunc(x) if x.dtype.kind == "f" else x,
    forms="method-only",
    grad=False,
)
op(
    "bool",
    call(t(2, 3)),
    call(t()),
    call(t(0, 2)),
    result="bool",
    ref=lambda x: x != 0,
    forms="method-only",
    grad=False,
)
for name, dtype in (("chalf", "complex32"), ("cfloat", "complex64"), ("cdouble", "complex128")):
    op(
        name,
        call(t(2, 3)),
        call(t()),
        call(t(0, 2)),
        result=dtype,
        ref=lambda x: x,
        forms="method-only",
        grad=False,
    )
