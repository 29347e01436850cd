"""Calls that PyTorch makes of several operators, or of one under another name, as tensors whose
class dispatches see them: `x.reshape` is a view or a copy, `linear` a product of matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._operators._wrapped import aten, dispatch

FORMS: dict[str, Callable[..., Any]] = {}


def _form(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        FORMS.update(dict.fromkeys(names, function))
        return function

    return decorate


def _ask(operator: Any, *args: Any, **kwargs: Any) -> Any:
    return dispatch(operator, args, kwargs)


def _sizes(given: tuple[Any, ...]) -> list[int]:
    one = len(given) == 1 and isinstance(given[0], (list, tuple))
    return [int(size) for size in (given[0] if one else given)]


# --- Shapes -----------------------------------------------------------------------------------


def _meta(x: Tensor) -> Tensor:
    """A tensor of the same geometry, to ask what a view of it would be."""
    size, stride = x.size(), x.stride()
    return flambeau.empty_strided(size, stride, dtype=x.dtype, device="meta")


@_form("reshape")
def _reshape(x: Tensor, *shape: Any, **named: Any) -> Tensor:
    sizes = _sizes((named["shape"],) if "shape" in named else shape)
    try:
        _meta(x).view(sizes)
    except RuntimeError:
        sizes = list(_meta(x).reshape(sizes).shape)
        copied = _ask(aten.clone.default, x, memory_format=flambeau.contiguous_format)
        return _ask(aten._unsafe_view.default, copied, sizes)
    return _ask(aten.view.default, x, sizes)


@_form("flatten", "ravel", "unflatten")
def _flatten(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    flat = "sizes" in kwargs or (len(args) == 2 and isinstance(args[1], (list, tuple)))
    wanted = (flambeau.unflatten if flat else flambeau.flatten)(_meta(x), *args, **kwargs)
    return x if wanted.shape == x.shape else _reshape(x, list(wanted.shape))


@_form("view_as", "reshape_as")
def _view_as(x: Tensor, other: Tensor) -> Tensor:
    return _reshape(x, list(other.shape))


@_form("expand_as")
def _expand_as(x: Tensor, other: Tensor) -> Tensor:
    return x.expand(list(other.shape))


@_form("T.__get__")
def _reversed(x: Tensor) -> Tensor:
    return x if x.dim() < 2 else x.permute(list(range(x.dim()))[::-1])


@_form("mT.__get__")
def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-2, -1)


@_form("H.__get__", "mH.__get__", "adjoint")
def _adjoint(x: Tensor) -> Tensor:
    transposed = x.transpose(-2, -1)
    return transposed.conj() if x.is_complex() else transposed


@_form("narrow")
def _narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    return _ask(aten.slice.Tensor, x, dim, start, start + length)


@_form("chunk")
def _chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    size = max(1, math.ceil(input.shape[dim] / chunks))
    return input.split(size, dim)


@_form("sort")
def _sort(input: Tensor, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    if stable is not None:
        return _ask(aten.sort.stable, input, stable=stable, dim=dim, descending=descending)
    given = (dim, True) if descending else (dim,) if dim != -1 else ()
    return _ask(aten.sort.default, input, *given)


@_form("broadcast_tensors")
def _broadcast_tensors(*tensors: Any) -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    shape = list(flambeau.broadcast_shapes(*(x.shape for x in given)))
    return tuple(x.expand(shape) for x in given)


@_form("contiguous")
def _contiguous(x: Tensor, memory_format: Any = flambeau.contiguous_format) -> Tensor:
    if x.is_contiguous(memory_format=memory_format):
        return x
    return _ask(aten.clone.default, x, memory_format=memory_format)


@_form("data.__get__")
def _data(x: Tensor) -> Tensor:
    return x.detach()


@_form("__getitem__")
def _subscript(x: Tensor, key: Any) -> Tensor:
    place, indices = _place(x, key)
    if indices:
        return _ask(aten.index.Tensor, place, indices)
    return _ask(aten.alias.default, x) if place is x else place


@_form("__setitem__")
def _assign(x: Tensor, key: Any, value: Any) -> None:
    place, indices = _place(x, key)
    if indices:
        values = value if isinstance(value, Tensor) else flambeau.tensor(value, dtype=x.dtype)
        _ask(aten.index_put_.default, place, indices, values)
    elif isinstance(value, Tensor):
        _ask(aten.copy_.default, place, value)
    else:
        _ask(aten.fill_.Scalar, place, value)


def _place(x: Tensor, key: Any) -> tuple[Tensor, list[Tensor | None]]:
    """The view that the parts of a subscript without tensors take, and the tensors among them."""
    keys = list(key) if isinstance(key, tuple) else [key]
    used = sum(_dims_of(part) for part in keys)
    if Ellipsis in [part for part in keys if not isinstance(part, Tensor)]:
        at = next(i for i, part in enumerate(keys) if part is Ellipsis)
        keys[at : at + 1] = [slice(None)] * (x.dim() - used)
    dim = 0
    indices: list[Tensor | None] = []
    for part in keys:
        if part is None:
            x = x.unsqueeze(dim)
        elif isinstance(part, slice):
            if part != slice(None):
                x = _sliced(x, dim, part)
        elif isinstance(part, int) and not isinstance(part, bool):
            x = _ask(aten.select.int, x, dim, part)
            continue
        else:
            index = part if isinstance(part, Tensor) else flambeau.as_tensor(part)
            indices += [None] * (dim - len(indices)) + [index]
            dim += index.dim() - 1 if index.dtype is flambeau.bool else 0
        dim += 1
    return x, indices


def _dims_of(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    return part.dim() if isinstance(part, Tensor) and part.dtype is flambeau.bool else 1


def _sliced(x: Tensor, dim: int, part: slice) -> Tensor:
    start = 0 if part.start is None else int(part.start)
    stop = 2**63 - 1 if part.stop is None else int(part.stop)
    rest = () if part.step in (None, 1) else (int(part.step),)
    return _ask(aten.slice.Tensor, x, dim, start, stop, *rest)


# --- Conversions ------------------------------------------------------------------------------


def _converted(x: Tensor, changes: dict[str, Any], copy: bool) -> Tensor:
    kept = {k: v for k, v in changes.items() if v is not None and getattr(x, k, None) != v}
    return _ask(aten._to_copy.default, x, **kept) if kept or copy else x


@_form("to")
def _to(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    copy, layout = kwargs.pop("copy", False), kwargs.pop("memory_format", None)
    kwargs.pop("non_blocking", None)
    changes: dict[str, Any] = {"dtype": kwargs.pop("dtype", None)}
    changes["device"] = kwargs.pop("device", None)
    for value in [*args, *kwargs.values()]:
        if isinstance(value, Tensor):
            changes = {"dtype": value.dtype, "device": value.device}
        elif isinstance(value, flambeau.dtype):
            changes["dtype"] = value
        elif isinstance(value, (str, flambeau.device)):
            changes["device"] = value
    if changes["device"] is not None:
        changes["device"] = flambeau.device(changes["device"])
    if layout not in (None, flambeau.preserve_format) and not x.is_contiguous(memory_format=layout):
        return _ask(aten._to_copy.default, x, memory_format=layout)
    return _converted(x, changes, bool(copy))


def _by_name(dtype: Any) -> Callable[..., Tensor]:
    return lambda x, *args, **kwargs: _converted(x, {"dtype": dtype}, False)


for _name in "double float half bfloat16 int long short bool".split():
    FORMS[_name] = _by_name(getattr(flambeau, _name))
FORMS |= {"byte": _by_name(flambeau.uint8), "char": _by_name(flambeau.int8)}


@_form("type_as")
def _type_as(x: Tensor, other: Tensor) -> Tensor:
    return _converted(x, {"dtype": other.dtype, "device": other.device}, False)


@_form("cpu", "cuda")
def _moved(x: Tensor, device: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    return _converted(x, {"device": flambeau.device(device or "cpu")}, False)


@_form("item", "__float__", "__int__", "__bool__", "__index__", "__complex__")
def _item(x: Tensor) -> Any:
    return _ask(aten._local_scalar_dense.default, x)


FORMS["__float__"] = lambda x: float(_item(x))
FORMS["__int__"] = FORMS["__index__"] = lambda x: int(_item(x))


@_form("__bool__")
def _to_bool(x: Tensor) -> bool:
    if x.numel() != 1:
        many = "no values" if x.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
    return bool(_item(x))


# --- Arithmetic -------------------------------------------------------------------------------


@_form("__rsub__", "rsub")
def _rsub(x: Tensor, other: Any) -> Tensor:
    return other - x if isinstance(other, Tensor) else _ask(aten.rsub.Scalar, x, other)


@_form("__rdiv__", "__rtruediv__")
def _rdiv(x: Tensor, other: Any) -> Tensor:
    return x.reciprocal() * other


@_form("__rpow__")
def _rpow(x: Tensor, other: Any) -> Tensor:
    return _ask(aten.pow.Scalar, other, x)


@_form("outer", "ger")
def _outer(input: Tensor, vec2: Tensor) -> Tensor:
    return input.view([input.shape[0], 1]) * vec2


def _as_rows(x: Tensor) -> list[int]:
    return [math.prod(x.shape[:-1]), x.shape[-1]]


@_form("matmul", "__matmul__", "__rmatmul__")
def _matmul(input: Tensor, other: Tensor) -> Tensor:
    left, right = input.dim(), other.dim()
    known: Any = {
        (1, 1): aten.dot.default,
        (2, 1): aten.mv.default,
        (2, 2): aten.mm.default,
    }.get((left, right))
    if known is not None:
        return _ask(known, input, other)
    if left == 1:
        return _matmul(input.unsqueeze(0), other).squeeze(-2)
    if right == 1:
        return _matmul(input, other.unsqueeze(-1)).squeeze(-1)
    if right == 2:
        rows = _reshape(input, _as_rows(input))
        product = _ask(aten.mm.default, rows, other)
        return _ask(aten._unsafe_view.default, product, [*input.shape[:-1], other.shape[-1]])
    batch = list(flambeau.broadcast_shapes(input.shape[:-2], other.shape[:-2]))
    a, b = (
        _reshape(x.expand([*batch, *x.shape[-2:]]), [math.prod(batch), *x.shape[-2:]])
        for x in (input, other)
    )
    product = _ask(aten.bmm.default, a, b)
    return _ask(aten._unsafe_view.default, product, [*batch, input.shape[-2], other.shape[-1]])


@_form("linear")
def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if input.dim() > 2 and bias is not None:
        product = _linear(_reshape(input, _as_rows(input)), weight, bias)
        return _ask(aten._unsafe_view.default, product, [*input.shape[:-1], weight.shape[0]])
    if input.dim() == 2 and bias is not None:
        return _ask(aten.addmm.default, bias, input, weight.t())
    product = _matmul(input, weight.t())
    return product if bias is None else product + bias


# --- Functions of nn --------------------------------------------------------------------------


def _softmax_of(operator: Any) -> Callable[..., Tensor]:
    def function(input: Tensor, dim: int, dtype: Any = None, **kwargs: Any) -> Tensor:
        if dtype is not None:
            input = input.to(dtype)
        return _ask(operator, input, dim, False)

    return function


FORMS["softmax"] = _softmax_of(aten._softmax.default)
FORMS["log_softmax"] = _softmax_of(aten._log_softmax.default)


@_form("layer_norm")
def _layer_norm(
    input: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:
    shape = list(normalized_shape)
    normed: Tensor = _ask(aten.native_layer_norm.default, input, shape, weight, bias, eps)[0]
    return normed


@_form("dropout")
def _dropout(input: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0:
        return input
    dropped: Tensor = _ask(aten.native_dropout.default, input, p, train)[0]
    return dropped


@_form("cross_entropy_loss")
def _cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    if label_smoothing or target.is_floating_point() or input.dim() != 2:
        whole = (input, target, weight, reduction, ignore_index, label_smoothing)
        loss: Tensor = _ask(aten.cross_entropy_loss.default, *whole)
        return loss
    scores = _ask(aten._log_softmax.default, input, 1, False)
    given = (scores, target, weight, reduction, ignore_index)
    loss = _ask(aten.nll_loss_forward.default, *given)[0]
    return loss


def _convolution(dims: int, transposed: bool) -> Callable[..., Tensor]:
    def spread(value: Any) -> list[int]:
        return (
            list(value) * (dims // len(value))
            if isinstance(value, (list, tuple))
            else [value] * dims
        )

    def plain(
        input: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        steps, apart = spread(stride), spread(dilation)
        if isinstance(padding, str):
            name = f"conv{dims}d"
            return _ask(
                getattr(aten, name).padding, input, weight, bias, steps, padding, apart, groups
            )
        around, none = spread(padding), [0] * dims
        given = (input, weight, bias, steps, around, apart, False, none, groups)
        return _ask(aten.convolution.default, *given)

    def backwards(
        input: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Tensor:
        steps, around, apart = spread(stride), spread(padding), spread(dilation)
        given = (input, weight, bias, steps, around, apart, True, spread(output_padding), groups)
        return _ask(aten.convolution.default, *given)

    return backwards if transposed else plain


for _dims in (1, 2, 3):
    FORMS[f"conv{_dims}d"] = _convolution(_dims, False)
    FORMS[f"conv_transpose{_dims}d"] = _convolution(_dims, True)


# --- Steps of optimizers, which the core takes for whole lists at once ------------------------


@_form("_sgd_step")
@flambeau.no_grad()
def _sgd_step(*args: Any, **kwargs: Any) -> None:
    from flambeau.optim.sgd import sparse_sgd

    sparse_sgd(*args, **kwargs)


@_form("_adam_step")
@flambeau.no_grad()
def _adam_step(
    params: Any,
    grads: Any,
    averages: Any,
    squares: Any,
    largest: Any,
    steps: Any,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    decoupled_weight_decay: bool,
    **scaling: Any,
) -> None:
    if any(value is not None for value in scaling.values()):
        raise RuntimeError("`_fused_adam` does not support tensors whose class dispatches")
    for i, (param, grad) in enumerate(zip(params, grads, strict=True)):
        steps[i].add_(1)
        step = steps[i].item()
        grad = -grad if maximize else grad
        if weight_decay and decoupled_weight_decay:
            param.mul_(1 - lr * weight_decay)
        elif weight_decay:
            grad = grad.add(param, alpha=weight_decay)
        averages[i].lerp_(grad, 1 - beta1)
        squares[i].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        second = squares[i]
        if amsgrad:
            second = largest[i].copy_(flambeau.maximum(largest[i], second))
        root = (second.sqrt() / math.sqrt(1 - beta2**step)).add_(eps)
        param.addcdiv_(averages[i], root, value=-lr / (1 - beta1**step))
