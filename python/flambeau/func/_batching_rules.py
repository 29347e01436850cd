"""How each op is computed for all samples of a batch at once; see `_batched.py`.

A rule is called as rule(func, args, kwargs) and gives what func gives for one sample, with batches
in the place of its tensors. The batch's own dimension always comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.func._batched import (
    RULES,
    Batched,
    Unbatchable,
    physical,
    whole,
    wrap,
    wrapped,
)

Function = Callable[..., Any]


def rule(
    names: str, by_position: int = 1, by_name: str | None = None
) -> Callable[[Function], Function]:
    """Enters a rule for each of these names.

    It is for calls that give at least so many arguments by position; `by_name` lists the keywords
    that it knows, None stands for all.
    """
    known = None if by_name is None else set(by_name.split())

    def enter(function: Function) -> Function:
        def checked(func: Any, args: Any, kwargs: Any) -> Any:
            if len(args) < by_position or not (known is None or known.issuperset(kwargs)):
                raise Unbatchable("arguments by keyword")
            return function(func, args, kwargs)

        for name in names.split():
            RULES[name] = checked
        return function

    return enter


def rank(value: Tensor) -> int:
    """The dimensions of a sample."""
    return physical(value).dim() - isinstance(value, Batched)


def sizes(value: Tensor) -> tuple[int, ...]:
    """The shape of a sample."""
    return tuple(physical(value).shape[isinstance(value, Batched) :])


def shifted(dim: int, of: Tensor) -> int:
    """The place, in a batch, of a dimension of a sample."""
    if not isinstance(dim, int) or isinstance(dim, bool) or rank(of) == 0:
        raise Unbatchable("a dimension that is no number")
    if not -rank(of) <= dim < rank(of):
        raise Unbatchable("a dimension out of range")  # the op itself says it best
    return dim + 1 if dim >= 0 else dim


def only_batches_at(args: Any, *places: int) -> None:
    """Refuses batches among other arguments than these."""
    for place, value in enumerate(args):
        if place not in places and isinstance(value, Batched):
            raise Unbatchable("a batch where none is expected")


# --- Questions about a tensor ---------------------------------------------------------------------


@rule(".shape .ndim .dtype .device .requires_grad .layout .is_cuda .is_sparse")
def _attribute(func: Any, args: Any, kwargs: Any) -> Any:
    name, value = func.__self__.__name__, args[0]
    if name == "shape":
        return flambeau.Size(sizes(value))
    return rank(value) if name == "ndim" else getattr(physical(value), name)


@rule("size dim ndimension numel nelement is_floating_point is_complex __len__ element_size")
def _question(func: Any, args: Any, kwargs: Any) -> Any:
    value, name = args[0], func.__name__
    if name == "size":
        place = args[1] if len(args) > 1 else kwargs.get("dim")
        return flambeau.Size(sizes(value)) if place is None else sizes(value)[place]
    if name in ("dim", "ndimension"):
        return rank(value)
    if name in ("numel", "nelement"):
        return math.prod(sizes(value))
    if name == "__len__":
        if rank(value) == 0:
            raise TypeError("len() of a 0-d tensor")
        return sizes(value)[0]
    return func(physical(value))


# --- Element by element ---------------------------------------------------------------------------

POINTWISE = """
abs absolute neg negative sign sgn positive exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square
reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin arccos arctan
sigmoid erf erfc erfinv lgamma digamma floor ceil round trunc frac relu relu6 _nn_gelu gelu silu
mish selu elu celu leaky_relu softplus softsign log_sigmoid hardtanh hardswish hardsigmoid
hardshrink softshrink tanhshrink threshold logit nan_to_num isnan isinf isfinite logical_not
bitwise_not clamp clip clamp_min clamp_max add sub subtract mul multiply div divide true_divide
floor_divide remainder fmod pow __radd__ __rsub__ __rmul__ __rtruediv__ __rpow__ __rmod__ rsub
atan2 hypot maximum minimum fmax fmin lerp addcmul addcdiv where eq ne lt le gt ge not_equal less
less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or
bitwise_xor xlogy logaddexp float double half bfloat16 long int bool clone detach contiguous
heaviside copysign masked_fill deg2rad rad2deg sinc __floordiv__
"""


@rule(POINTWISE)
def _pointwise(func: Any, args: Any, kwargs: Any) -> Any:
    tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)]
    # Numbers without dimensions promote less than others, which a batch of them would not.
    condition = {"where": 0, "masked_fill": 1}.get(func.__name__)
    if condition is not None and len(args) <= condition:
        raise Unbatchable("a condition by keyword")
    dtypes = {t.dtype for t in tensors if condition is None or t is not args[condition]}
    if len(dtypes) > 1:
        raise Unbatchable("several dtypes")
    most = max(rank(t) for t in tensors)

    def aligned(value: Any) -> Any:
        if not isinstance(value, Batched):
            return value
        behind = physical(value)
        missing = most - rank(value)
        shape = (behind.shape[0], *(1,) * missing, *behind.shape[1:])
        return behind.reshape(shape) if missing else behind

    return wrapped(
        func(*map(aligned, args), **{name: aligned(value) for name, value in kwargs.items()})
    )


@rule("to")
def _to(func: Any, args: Any, kwargs: Any) -> Any:
    if is_tensor_among(args[1:]) or kwargs.get("memory_format") is not None:
        raise Unbatchable("to another tensor")
    return wrap(func(physical(args[0]), *args[1:], **kwargs))


@rule("type_as", by_position=2)
def _type_as(func: Any, args: Any, kwargs: Any) -> Any:
    value = physical(args[0]).to(args[1].dtype)
    return wrap(value) if isinstance(args[0], Batched) else value


def is_tensor_among(values: Any) -> bool:
    return any(isinstance(value, Tensor) for value in values)


@rule("zeros_like ones_like full_like empty_like")
def _like(func: Any, args: Any, kwargs: Any) -> Any:
    only_batches_at(args, 0)
    return wrap(func(physical(args[0]), *args[1:], **kwargs))


@rule("new_zeros new_ones new_full new_empty")
def _new(func: Any, args: Any, kwargs: Any) -> Any:
    only_batches_at(args, 0)
    return func(physical(args[0]), *args[1:], **kwargs)


@rule("dropout", by_position=3, by_name="")
def _dropout(func: Any, args: Any, kwargs: Any) -> Any:
    if args[2] and args[1] != 0:
        raise Unbatchable("random numbers")
    return wrap(func(physical(args[0]), *args[1:]))


# --- Along dimensions -----------------------------------------------------------------------------


def _dim_argument(args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The dimensions that are asked for, and the other arguments."""
    kwargs = dict(kwargs)
    if "dim" in kwargs:
        return kwargs.pop("dim"), args[1:], kwargs
    return (args[1], args[2:], kwargs) if len(args) > 1 else (None, (), kwargs)


@rule("sum mean prod amax amin logsumexp all any argmax argmin var std nansum count_nonzero")
def _reduction(func: Any, args: Any, kwargs: Any) -> Any:
    only_batches_at(args, 0)
    value, behind = args[0], physical(args[0])
    dim, others, kwargs = _dim_argument(args, kwargs)
    if isinstance(dim, bool):
        raise Unbatchable("an older way to call")
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        if kwargs.get("keepdim") or others:
            raise Unbatchable("all dimensions, kept")
        return wrap(func(behind.reshape(behind.shape[0], -1), 1, **kwargs))
    if isinstance(dim, (tuple, list)):
        dim = tuple(shifted(d, value) for d in dim)
    else:
        dim = shifted(dim, value)
    return wrap(func(behind, dim, *others, **kwargs))


@rule("max min", by_name="dim keepdim")
def _extreme(func: Any, args: Any, kwargs: Any) -> Any:
    if len(args) == 2 and isinstance(args[1], Tensor):
        return _pointwise(func, args, kwargs)
    value, behind = args[0], physical(args[0])
    dim, others, kwargs = _dim_argument(args, kwargs)
    if dim is None:
        full = flambeau.amax if func.__name__ == "max" else flambeau.amin
        return wrap(full(behind.reshape(behind.shape[0], -1), 1))
    return wrapped(func(behind, shifted(dim, value), *others, **kwargs))


@rule("softmax log_softmax softmin cumsum cumprod logcumsumexp sort argsort topk flip unbind")
def _along(func: Any, args: Any, kwargs: Any) -> Any:
    only_batches_at(args, 0)
    value, name = args[0], func.__name__
    places = {"topk": 2}
    defaults = {"sort": -1, "argsort": -1, "topk": -1, "unbind": 0}
    kwargs = dict(kwargs)
    rest = list(args[1:])
    at = places.get(name, 1) - 1
    if "dim" in kwargs:
        dim = kwargs.pop("dim")
    elif "dims" in kwargs:
        dim = kwargs.pop("dims")
    elif len(rest) > at:
        dim = rest.pop(at)
    else:
        dim = defaults.get(name)
    if name == "flip":
        dims = (dim, *rest) if isinstance(dim, int) else dim
        return wrap(func(physical(value), [shifted(d, value) for d in dims]))
    before, after = rest[:at], rest[at:]
    if dim is None or (after and name in ("sort", "argsort")):
        raise Unbatchable("an older way to call")
    return wrapped(func(physical(value), *before, shifted(dim, value), *after, **kwargs))


@rule("norm", by_name="p dim keepdim")
def _norm(func: Any, args: Any, kwargs: Any) -> Any:
    value, behind = args[0], physical(args[0])
    p = args[1] if len(args) > 1 else kwargs.get("p", 2)
    dim = args[2] if len(args) > 2 else kwargs.get("dim")
    keepdim = args[3] if len(args) > 3 else kwargs.get("keepdim", False)
    if p == "fro":
        p = 2
    if not isinstance(p, (int, float)):
        raise Unbatchable("an unusual norm")
    if dim is None:
        if keepdim:
            raise Unbatchable("all dimensions, kept")
        return wrap(func(behind.reshape(behind.shape[0], -1), p, 1))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return wrap(func(behind, p, [shifted(d, value) for d in dims], keepdim))


# --- Shapes ---------------------------------------------------------------------------------------


def _numbers(args: Any) -> list[int]:
    """The sizes of a call, given one by one or as a sequence."""
    values = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    if not all(isinstance(v, int) for v in values):
        raise Unbatchable("sizes that are no numbers")
    return list(values)


@rule("view reshape", by_position=2, by_name="")
def _reshape(func: Any, args: Any, kwargs: Any) -> Any:
    behind = physical(args[0])
    if behind.numel() == 0:
        raise Unbatchable("nothing to reshape")
    return wrap(behind.reshape(behind.shape[0], *_numbers(args[1:])))


@rule("view_as reshape_as expand_as", by_position=2, by_name="")
def _as(func: Any, args: Any, kwargs: Any) -> Any:
    if not isinstance(args[0], Batched):
        return func(args[0], args[0].new_empty(()).expand(sizes(args[1])))
    target = list(sizes(args[1]))
    return RULES["expand" if func.__name__ == "expand_as" else "reshape"](
        func, (args[0], target), {}
    )


@rule("expand", by_position=2, by_name="")
def _expand(func: Any, args: Any, kwargs: Any) -> Any:
    value, target = args[0], _numbers(args[1:])
    behind = physical(value)
    added = len(target) - rank(value)
    if added < 0:
        raise Unbatchable("a wrong expand")
    shaped = behind.reshape(behind.shape[0], *(1,) * added, *behind.shape[1:])
    return wrap(shaped.expand(-1, *target))


@rule("flatten", by_name="start_dim end_dim")
def _flatten(func: Any, args: Any, kwargs: Any) -> Any:
    value = args[0]
    start = args[1] if len(args) > 1 else kwargs.get("start_dim", 0)
    end = args[2] if len(args) > 2 else kwargs.get("end_dim", -1)
    if rank(value) == 0:
        return wrap(physical(value).unsqueeze(1))
    return wrap(physical(value).flatten(shifted(start, value), shifted(end, value)))


@rule("unsqueeze", by_name="dim")
def _unsqueeze(func: Any, args: Any, kwargs: Any) -> Any:
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    if not isinstance(dim, int) or not -rank(args[0]) - 1 <= dim <= rank(args[0]):
        raise Unbatchable("a dimension out of range")
    return wrap(physical(args[0]).unsqueeze(dim + 1 if dim >= 0 else dim))


@rule("squeeze", by_name="dim")
def _squeeze(func: Any, args: Any, kwargs: Any) -> Any:
    value, behind = args[0], physical(args[0])
    dim = args[1] if len(args) > 1 else kwargs.get("dim")
    if dim is None:
        kept = [size for size in behind.shape[1:] if size != 1]
        return wrap(behind.reshape(behind.shape[0], *kept))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return wrap(behind.squeeze([shifted(d, value) for d in dims]))


@rule("transpose swapaxes swapdims select narrow diagonal", by_position=3, by_name="")
def _placed(func: Any, args: Any, kwargs: Any) -> Any:
    name, value, rest = func.__name__, args[0], list(args[1:])
    only_batches_at(args, 0)
    if name == "diagonal" and len(rest) != 3:
        raise Unbatchable("dimensions that are not given")
    places = {"select": [0], "narrow": [0], "diagonal": [1, 2]}.get(name, [0, 1])
    for place in places:
        rest[place] = shifted(rest[place], value)
    return wrap(func(physical(value), *rest))


@rule("permute movedim moveaxis", by_position=2, by_name="")
def _permuted(func: Any, args: Any, kwargs: Any) -> Any:
    value = args[0]
    if func.__name__ == "permute":
        dims = [shifted(d, value) for d in _numbers(args[1:])]
        return wrap(physical(value).permute(0, *dims))
    ends = [[e] if isinstance(e, int) else list(e) for e in args[1:]]
    return wrap(physical(value).movedim(*[[shifted(d, value) for d in end] for end in ends]))


@rule("t .T .mT adjoint")
def _turned(func: Any, args: Any, kwargs: Any) -> Any:
    behind = physical(args[0])
    if rank(args[0]) > 2:
        if getattr(getattr(func, "__self__", None), "__name__", "") == "mT":
            return wrap(behind.transpose(-1, -2))
        raise Unbatchable("more than two dimensions")
    return wrap(behind.transpose(1, 2) if rank(args[0]) == 2 else behind)


@rule("cat concat stack", by_name="dim")
def _joined(func: Any, args: Any, kwargs: Any) -> Any:
    tensors = args[0]
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    if len({t.dtype for t in tensors}) > 1 or len({rank(t) for t in tensors}) > 1:
        raise Unbatchable("unlike tensors")
    longest = rank(tensors[0]) + (func.__name__ == "stack")
    if not -longest <= dim < longest:
        raise Unbatchable("a dimension out of range")
    return wrap(func([whole(t) for t in tensors], dim + 1 if dim >= 0 else dim))


@rule("chunk split", by_position=2, by_name="dim")
def _parted(func: Any, args: Any, kwargs: Any) -> Any:
    dim = args[2] if len(args) > 2 else kwargs.get("dim", 0)
    return wrapped(func(physical(args[0]), args[1], shifted(dim, args[0])))


@rule("tril triu")
def _triangle(func: Any, args: Any, kwargs: Any) -> Any:
    if rank(args[0]) < 2:
        raise Unbatchable("no matrix")
    return wrap(func(physical(args[0]), *args[1:], **kwargs))


@rule("__getitem__")
def _item(func: Any, args: Any, kwargs: Any) -> Any:
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    plain = (int, slice, type(None), type(Ellipsis))
    if not isinstance(args[0], Batched) or any(
        not isinstance(part, plain) or isinstance(part, bool) for part in index
    ):
        raise Unbatchable("an index that is a tensor")
    if sum(isinstance(part, (int, slice)) for part in index) > rank(args[0]):
        raise IndexError(f"too many indices for tensor of dimension {rank(args[0])}")
    everywhere = (slice(None), *index)
    return wrap(physical(args[0])[everywhere])


# --- Products -------------------------------------------------------------------------------------


def _product(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product of samples; vectors are rows on the left and columns on the right."""
    left, right = whole(a), whole(b)
    row, column = rank(a) == 1, rank(b) == 1
    left = left.unsqueeze(-2) if row else left
    right = right.unsqueeze(-1) if column else right
    most = max(left.dim(), right.dim())
    left = left.reshape(left.shape[0], *(1,) * (most - left.dim()), *left.shape[1:])
    right = right.reshape(right.shape[0], *(1,) * (most - right.dim()), *right.shape[1:])
    result = flambeau.matmul(left, right)
    result = result.squeeze(-1) if column else result
    return result.squeeze(-1 if column else -2) if row else result


@rule("matmul mm bmm mv dot vdot inner __rmatmul__", by_position=2, by_name="")
def _matmul(func: Any, args: Any, kwargs: Any) -> Any:
    a, b = args[:2]
    if len(args) > 2 or a.dtype != b.dtype or a.is_complex() or 0 in (rank(a), rank(b)):
        raise Unbatchable("an unusual product")
    wanted = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1)}
    ranks = (rank(a), rank(b))
    if ranks != wanted.get(func.__name__, ranks) or (func.__name__ == "inner" and ranks != (1, 1)):
        raise Unbatchable("a product of other dimensions")
    if func.__name__ == "__rmatmul__":
        a, b = b, a
    if not isinstance(b, Batched) and rank(b) <= 2 and rank(a) >= 2:
        return wrap(flambeau.matmul(physical(a), b))
    return wrap(_product(a, b))


@rule("outer ger", by_position=2, by_name="")
def _outer(func: Any, args: Any, kwargs: Any) -> Any:
    a, b = args
    if (rank(a), rank(b)) != (1, 1):
        raise Unbatchable("no vectors")
    return wrap(whole(a).unsqueeze(2) * whole(b).unsqueeze(1))


@rule("linear", by_position=2, by_name="bias")
def _linear(func: Any, args: Any, kwargs: Any) -> Any:
    x, weight, *rest = args
    bias = rest[0] if rest else kwargs.get("bias")
    if rank(weight) != 2 or rank(x) == 0 or (bias is not None and rank(bias) != 1):
        raise Unbatchable("an unusual layer")
    if not isinstance(weight, Batched) and not isinstance(bias, Batched):
        return wrap(func(physical(x), weight, bias))
    matrix = whole(weight).transpose(1, 2)
    rows = whole(x)
    flat = rows.reshape(rows.shape[0], -1, rows.shape[-1])
    result = flambeau.bmm(flat, matrix)
    if bias is not None:
        result = result + whole(bias).unsqueeze(1)
    return wrap(result.reshape(*rows.shape[:-1], result.shape[-1]))


@rule("layer_norm", by_position=2, by_name="")
def _layer_norm(func: Any, args: Any, kwargs: Any) -> Any:
    given = list(args) + [None] * (4 - len(args))
    x, shape, weight, bias = given[:4]
    rest = given[4:]
    if not isinstance(x, Batched):
        raise Unbatchable("an unusual layer")
    if not isinstance(weight, Batched) and not isinstance(bias, Batched):
        return wrap(func(physical(x), shape, weight, bias, *rest))
    result = wrap(func(physical(x), shape, None, None, *rest))
    for value, step in ((weight, flambeau.mul), (bias, flambeau.add)):
        if value is not None:
            result = _pointwise(step, (result, value), {})
    return result


def _folded(x: Tensor, image: int) -> tuple[Tensor, tuple[int, ...]]:
    """Images of all samples as one row of images, and the dimensions to give back."""
    behind = physical(x)
    if rank(x) == image:
        return behind, (behind.shape[0],)
    if rank(x) != image + 1:
        raise Unbatchable("no images")
    return behind.flatten(0, 1), tuple(behind.shape[:2])


@rule("conv1d conv2d conv3d", by_position=2, by_name="bias stride padding dilation groups")
def _convolution(func: Any, args: Any, kwargs: Any) -> Any:
    image = int(func.__name__[4]) + 1
    x, weight, *rest = args
    options = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    rest = list((options | dict(zip(options, rest)) | kwargs).values())
    bias = rest[0]
    if isinstance(x, Batched) and not isinstance(weight, Batched) and not isinstance(bias, Batched):
        folded, lead = _folded(x, image)
        result = func(folded, weight, *rest)
        return wrap(result.reshape(*lead, *result.shape[1:]))
    return _convolution_by_groups(func, x, weight, rest, image)


def _convolution_by_groups(func: Any, x: Any, weight: Any, rest: Any, image: int) -> Any:
    """Each sample has filters of its own: the channels of all samples side by side, in groups."""
    bias, stride, padding, dilation, groups = rest
    inputs, filters = whole(x), whole(weight)
    count = inputs.shape[0]
    single = rank(x) == image
    if single:
        inputs = inputs.unsqueeze(1)
    elif rank(x) != image + 1:
        raise Unbatchable("no images")
    side = inputs.transpose(0, 1).flatten(1, 2)
    result = func(side, filters.flatten(0, 1), None, stride, padding, dilation, groups * count)
    result = result.unflatten(1, (count, filters.shape[1])).transpose(0, 1)
    if bias is not None:
        result = result + whole(bias).reshape(count, 1, -1, *(1,) * (image - 1))
    return wrap(result.squeeze(1) if single else result)


@rule("max_pool2d avg_pool2d adaptive_avg_pool2d")
def _pool(func: Any, args: Any, kwargs: Any) -> Any:
    only_batches_at(args, 0)
    folded, lead = _folded(args[0], 3)
    result = func(folded, *args[1:], **kwargs)
    return wrap(result.reshape(*lead, *result.shape[1:]))


@rule("embedding", by_position=2)
def _embedding(func: Any, args: Any, kwargs: Any) -> Any:
    """embedding(weight, indices, ...)"""
    only_batches_at(args, 1)
    return wrap(func(args[0], physical(args[1]), *args[2:], **kwargs))


# --- Losses ---------------------------------------------------------------------------------------

_NONE, _MEAN, _SUM = 0, 1, 2


def _reduced(losses: Tensor, reduction: int) -> Any:
    flat = losses.reshape(losses.shape[0], -1)
    if reduction == _NONE:
        return wrap(losses)
    return wrap(flat.mean(1) if reduction == _MEAN else flat.sum(1))


@rule("mse_loss l1_loss binary_cross_entropy_with_logits", by_position=2, by_name="")
def _elementwise_loss(func: Any, args: Any, kwargs: Any) -> Any:
    a, b, *rest = args
    reduction = rest[-1] if rest else _MEAN
    if sizes(a) != sizes(b) or is_tensor_among(rest) or not isinstance(reduction, int):
        raise Unbatchable("an unusual loss")
    return _reduced(func(whole(a), whole(b), *rest[:-1], _NONE), reduction)


@rule("cross_entropy_loss", by_position=6, by_name="")
def _cross_entropy(func: Any, args: Any, kwargs: Any) -> Any:
    x, target, weight, reduction, ignored, smoothing = args
    if weight is not None or target.is_floating_point() or smoothing:
        raise Unbatchable("an unusual loss")
    if rank(x) not in (1, 2) or rank(target) != rank(x) - 1:
        raise Unbatchable("an unusual loss")
    logits, labels = whole(x), whole(target)
    losses = func(logits.flatten(0, -2), labels.flatten(), None, _NONE, ignored, 0.0)
    losses = losses.reshape(labels.shape)
    if reduction != _MEAN:
        return _reduced(losses, reduction)
    counted = (labels != ignored).reshape(labels.shape[0], -1).sum(1)
    return wrap(losses.reshape(labels.shape[0], -1).sum(1) / counted)
