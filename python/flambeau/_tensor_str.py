"""Text of tensors: `repr`, `str` and `set_printoptions`, character for character as PyTorch writes
them.

The elements are written by the core (flambeau/ops/creation/contents.cpp).
"""

from __future__ import annotations

import contextlib
import sys
from math import inf
from textwrap import indent

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from flambeau import Tensor


class PrinterOptions:
    """The current print settings; one instance, changed by `set_printoptions`."""

    __slots__ = ("edgeitems", "linewidth", "precision", "sci_mode", "threshold")

    def __init__(self) -> None:
        self.precision: int = 4
        self.threshold: float = 1000
        self.edgeitems: int = 3
        self.linewidth: int = 80
        self.sci_mode: bool | None = None

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"PrinterOptions({fields})"


PRINT_OPTS = PrinterOptions()

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Changes how tensors are printed.

    Args:
        precision: digits after the point (4 at first).
        threshold: more elements than this and the middle is left out (1000).
        edgeitems: elements shown at each end of a dimension that is cut (3).
        linewidth: characters a line may have (80).
        profile: "default", "short" or "full": a set of the four above, applied before them.
        sci_mode: True or False forces scientific notation on or off; None, the value taken whenever
            this argument is left out, chooses by the numbers printed.
    """
    if profile is not None:
        for name, value in _PROFILES.get(profile, {}).items():
            setattr(PRINT_OPTS, name, value)
    if precision is not None:
        PRINT_OPTS.precision = precision
    if threshold is not None:
        PRINT_OPTS.threshold = threshold
    if edgeitems is not None:
        PRINT_OPTS.edgeitems = edgeitems
    if linewidth is not None:
        PRINT_OPTS.linewidth = linewidth
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The current settings, as keyword arguments that `set_printoptions` takes."""
    return {name: getattr(PRINT_OPTS, name) for name in PrinterOptions.__slots__}


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Applies `set_printoptions(**kwargs)` inside a `with` block, and restores what was set
    before.
    """
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


def _contents(tensor: Tensor, indent: int) -> str:
    """The text between the parentheses of `tensor(...)`, without the suffixes."""
    o = PRINT_OPTS
    return flambeau._C._contents(
        tensor, indent, o.precision, o.threshold, o.edgeitems, o.linewidth, o.sci_mode
    )


# The name under which libraries with tensor classes of their own know it.
_tensor_str = _contents


def _is_default_dtype(dtype: Any) -> bool:
    if dtype in (flambeau.int64, flambeau.bool):
        return True
    default = flambeau.get_default_dtype()
    if dtype.is_complex:
        wide = default == flambeau.float64
        return dtype == (flambeau.complex128 if wide else flambeau.complex64)
    return dtype == default


def _tangent(tensor: Tensor) -> Tensor | None:
    """The tangent of a tensor in forward mode, which is loaded only where a program uses it."""
    forward_ad = sys.modules.get("flambeau.autograd.forward_ad")
    if forward_ad is None or not forward_ad._levels or not tensor.requires_grad:
        return None
    return forward_ad.unpack_dual(tensor).tangent


def _grad_suffix(tensor: Tensor) -> str | None:
    tangent = _tangent(tensor)
    if tangent is not None:
        return f"tangent={tangent.detach()}"
    try:
        grad_fn = tensor.grad_fn
    except RuntimeError:
        # A view whose base was written in a way that leaves it without a derivative.
        return "grad_fn=<Invalid>"
    if grad_fn is not None:
        return f"grad_fn=<{type(grad_fn).__name__}>"
    return "requires_grad=True" if tensor.requires_grad else None


def _add_suffixes(text: str, suffixes: list[str], indent: int, force_newline: bool = False) -> str:
    """Appends each suffix to the last line while it fits, else on a line of its own."""
    parts = [text]
    column = PRINT_OPTS.linewidth if force_newline else len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            column += len(suffix) + 2
    parts.append(")")
    return "".join(parts)


def _part(name: str, tensor: Tensor, indent: int) -> str:
    """One of the tensors that a sparse one is made of, without dtype and device."""
    head = f"{name}=tensor("
    if tensor.is_meta or tensor.numel() == 0:
        return f"{head}{'...' if tensor.is_meta else '[]'}, size={tuple(tensor.shape)})"
    return head + _contents(tensor, indent + len(head)) + ")"


def _describe_sparse(tensor: Tensor, prefix: str) -> str:
    indent = len(prefix)
    if tensor.is_sparse:
        names = ["_indices"]
    elif tensor.layout in (flambeau.sparse_csr, flambeau.sparse_bsr):
        names = ["crow_indices", "col_indices"]
    else:
        names = ["ccol_indices", "row_indices"]
    values = tensor.detach()._values()
    parts = [_part(name.lstrip("_"), getattr(tensor, name)(), indent) for name in names]
    parts.append(_part("values", values, indent))
    suffixes = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
    suffixes += [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if not _is_default_dtype(tensor.dtype):
        suffixes.append(f"dtype={tensor.dtype}")
    suffixes.append(f"layout={tensor.layout}")
    grad = _grad_suffix(tensor)
    if grad is not None:
        suffixes.append(grad)
    text = prefix + (",\n" + " " * indent).join(parts)
    return _add_suffixes(text, suffixes, indent, force_newline=tensor.is_sparse)


def describe_quantized(tensor: Any, contents: str | None) -> str:
    """The numbers that a quantized tensor stands for, and how it does."""
    if flambeau._C.is_batchedtensor(tensor):
        level = flambeau._C.maybe_get_level(tensor)
        value = indent(repr(flambeau._C.get_unwrapped(tensor)), "    ")
        return f"BatchedTensor(lvl={level}, bdim=0, value=\n{value}\n)"
    with flambeau.no_grad(), flambeau._C.DisableTorchFunctionSubclass():
        prefix = "tensor("
        suffixes = [] if tensor.device.type == "cpu" else [f"device='{tensor.device}'"]
        suffixes += [f"size={tuple(tensor.shape)}", f"dtype={tensor.dtype}"]
        scheme, *parameters = tensor._quantizer.parameters()
        names = ("scale", "zero_point", "axis")
        suffixes.append(f"quantization_scheme={scheme}")
        suffixes += [f"{name}={value!s}" for name, value in zip(names, parameters)]
        text = "..." if tensor.is_meta else "[]"
        if tensor.numel() and not tensor.is_meta:
            text = contents or _contents(tensor.dequantize(), len(prefix))
        described = _add_suffixes(prefix + text, suffixes, len(prefix))
    return f"Parameter containing:\n{described}" if hasattr(tensor, "_is_param") else described


def _describe(tensor: Tensor, contents: str | None) -> str:
    kind = type(tensor)
    plain = kind is flambeau.Tensor or kind is flambeau.nn.Parameter
    prefix = "tensor(" if plain else f"{kind.__name__}("
    indent = len(prefix)
    if tensor.layout is not flambeau.strided:
        return _describe_sparse(tensor, prefix)
    dtype = tensor.dtype
    suffixes = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")
    show_dtype = not _is_default_dtype(dtype)
    if tensor.is_meta:
        suffixes.append(f"size={tuple(tensor.shape)}")
        show_dtype = dtype != flambeau.get_default_dtype()
        text = "..."
    elif tensor.numel() == 0:
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        show_dtype = dtype != flambeau.get_default_dtype()
        text = "[]"
    else:
        text = contents if contents is not None else _contents(tensor, indent)
    if show_dtype:
        suffixes.append(f"dtype={dtype}")
    grad = _grad_suffix(tensor)
    if grad is not None:
        suffixes.append(grad)
    described = _add_suffixes(prefix + text, suffixes, indent)
    if not plain and isinstance(tensor, flambeau.nn.Parameter):
        return f"Parameter({described})"
    return described


def _str(tensor: Tensor, *, tensor_contents: str | None = None) -> str:
    """The text of `tensor`; `tensor_contents`, if given, stands in place of its elements."""
    if flambeau._C.is_batchedtensor(tensor):
        level = flambeau._C.maybe_get_level(tensor)
        value = indent(repr(flambeau._C.get_unwrapped(tensor)), "    ")
        return f"BatchedTensor(lvl={level}, bdim=0, value=\n{value}\n)"
    with flambeau.no_grad(), flambeau._C.DisableTorchFunctionSubclass():
        return _describe(tensor, tensor_contents)
