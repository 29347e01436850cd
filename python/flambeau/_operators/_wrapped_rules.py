"""Derivatives of operators that tensors without values of their own answered.

A rule is given the gradient, the result, which inputs want a gradient, and the arguments; it gives
a gradient for each tensor among the arguments. The steps are operators again, which the class is
asked for, so that a derivative of the derivative needs no further word. The derivatives of the core
stand beside its functions, and are for values that the core has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor

RULES: dict[str, Callable[..., Any]] = {}

# Operators whose rule asks for the result, which is kept for no other.
KEEP_RESULT = {
    *("exp", "expm1", "sqrt", "rsqrt", "reciprocal", "tanh", "sigmoid", "relu", "div", "pow"),
    *("clamp", "clamp_min", "clamp_max", "_softmax", "_log_softmax", "native_layer_norm"),
    *("native_dropout", "nll_loss_forward"),
}

# What gives no gradient, as it gives bools, indices, sizes, or values that are not the input's.
WITHOUT_DERIVATIVE = {
    *("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "any", "all", "equal"),
    *("allclose", "isclose", "logical_not", "logical_and", "logical_or", "logical_xor", "signbit"),
    *("argmax", "argmin", "argsort", "nonzero", "bucketize", "searchsorted", "count_nonzero"),
    *("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"),
    *("new_zeros", "new_ones", "new_empty", "new_full", "new_empty_strided", "detach", "detach_"),
    *("_local_scalar_dense", "is_same_size", "randint_like"),
}


def _rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return decorate


def _conj(x: Any) -> Any:
    return x.conj() if isinstance(x, Tensor) and x.is_complex() else x


# --- Functions of one tensor, from the gradient, the input and the result ---------------------

_ROOT = 2 / math.sqrt(math.pi)
_OF_ONE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "neg": lambda g, x, y: -g,
    "exp": lambda g, x, y: g * _conj(y),
    "expm1": lambda g, x, y: g * (_conj(y) + 1),
    "log": lambda g, x, y: g / _conj(x),
    "log2": lambda g, x, y: g / (_conj(x) * math.log(2)),
    "log10": lambda g, x, y: g / (_conj(x) * math.log(10)),
    "log1p": lambda g, x, y: g / (_conj(x) + 1),
    "sqrt": lambda g, x, y: g / (_conj(y) * 2),
    "rsqrt": lambda g, x, y: g * _conj(y) ** 3 * -0.5,
    "reciprocal": lambda g, x, y: -g * _conj(y) * _conj(y),
    "square": lambda g, x, y: g * _conj(x) * 2,
    "abs": lambda g, x, y: g * x.sgn(),
    "sin": lambda g, x, y: g * _conj(x).cos(),
    "cos": lambda g, x, y: -g * _conj(x).sin(),
    "tanh": lambda g, x, y: g * (1 - _conj(y) * _conj(y)),
    "sigmoid": lambda g, x, y: g * _conj(y) * (1 - _conj(y)),
    "erf": lambda g, x, y: g * (-x * x).exp() * _ROOT,
    "silu": lambda g, x, y: g * x.sigmoid() * (1 + x * (1 - x.sigmoid())),
    "relu": lambda g, x, y: flambeau.ops.aten.threshold_backward(g, y, 0),
    "softplus": lambda g, x, y: g * x.sigmoid(),
    "clone": lambda g, x, y: g,
    "alias": lambda g, x, y: g,
    "_to_copy": lambda g, x, y: g.to(x),
    "t": lambda g, x, y: g.t(),
    "view": lambda g, x, y: g.reshape(list(x.shape)),
    "_unsafe_view": lambda g, x, y: g.reshape(list(x.shape)),
    "unsqueeze": lambda g, x, y: g.reshape(list(x.shape)),
    "squeeze": lambda g, x, y: g.reshape(list(x.shape)),
    "expand": lambda g, x, y: g,
    **dict.fromkeys(("floor", "ceil", "round", "trunc", "sign"), lambda g, x, y: g * 0),
}


def _of_one(gradient: Callable[[Any, Any, Any], Any]) -> Callable[..., Any]:
    return lambda g, y, wants, x, *args, **kwargs: [gradient(g, x, y)]


RULES.update({name: _of_one(gradient) for name, gradient in _OF_ONE.items()})


@_rule("gelu")
def _gelu(g: Tensor, y: Tensor, wants: Any, x: Tensor, approximate: str = "none") -> Any:
    if approximate == "tanh":
        rate = math.sqrt(2 / math.pi)
        inner = (x + x * x * x * 0.044715) * rate
        slope = (1 - inner.tanh() ** 2) * (1 + x * x * (3 * 0.044715)) * rate
        return [g * ((1 + inner.tanh()) * 0.5 + x * slope * 0.5)]
    density = (x * x * -0.5).exp() / math.sqrt(2 * math.pi)
    return [g * ((1 + (x / math.sqrt(2)).erf()) * 0.5 + x * density)]


@_rule("clamp", "clamp_min", "clamp_max")
def _clamp(g: Tensor, y: Tensor, wants: Any, x: Tensor, min: Any = None, max: Any = None) -> Any:
    return [g * (x == y).to(g.dtype)]


@_rule("transpose")
def _transpose(g: Tensor, y: Tensor, wants: Any, x: Tensor, a: int, b: int) -> Any:
    return [g.transpose(a, b)]


@_rule("permute")
def _permute(g: Tensor, y: Tensor, wants: Any, x: Tensor, dims: Any) -> Any:
    order = [d % x.dim() for d in dims]
    return [g.permute([order.index(d) for d in range(x.dim())])]


@_rule("_softmax")
def _softmax(g: Tensor, y: Tensor, wants: Any, x: Tensor, dim: int, wide: bool = False) -> Any:
    return [(g * y - y * (g * y).sum([dim], True)).to(x.dtype)]


@_rule("_log_softmax")
def _log_softmax(g: Tensor, y: Tensor, wants: Any, x: Tensor, dim: int, wide: bool = False) -> Any:
    return [(g - y.exp() * g.sum([dim], True)).to(x.dtype)]


# --- Sums -------------------------------------------------------------------------------------


def _spread(g: Tensor, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """The gradient of a sum, for each of its terms."""
    if dim is not None and not keepdim:
        for d in sorted(d % x.dim() for d in dim):
            g = g.unsqueeze(d)
    return g.expand(list(x.shape))


def _terms(x: Tensor, dim: Any) -> int:
    """The number of elements that a sum over some dimensions, or all, adds up."""
    return math.prod(x.shape[d] for d in dim) if dim else x.numel()


@_rule("sum")
def _sum(
    g: Tensor,
    y: Tensor,
    wants: Any,
    x: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    **kwargs: Any,
) -> Any:
    return [_spread(g, x, dim or None, keepdim).to(x.dtype)]


@_rule("mean")
def _mean(g: Any, y: Any, wants: Any, x: Tensor, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    (of_sum,) = _sum(g, y, wants, x, dim, *args, **kwargs)
    return [of_sum / _terms(x, dim)]


@_rule("var")
def _var(
    g: Tensor,
    y: Tensor,
    wants: Any,
    x: Tensor,
    dim: Any = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
) -> Any:
    over = max(0, _terms(x, dim) - (1 if correction is None else correction))
    mean = x.mean(dim, True) if dim else x.mean()
    slope = _spread(g, x, dim or None, keepdim) * (x - mean) * (2 / over if over else math.inf)
    return [slope]


@_rule("cumsum")
def _cumsum(g: Tensor, y: Tensor, wants: Any, x: Tensor, dim: int, **kwargs: Any) -> Any:
    return [g.flip([dim]).cumsum(dim).flip([dim])]


# --- Functions of two tensors -----------------------------------------------------------------


def _pair(of_a: Callable[..., Any], of_b: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of two operands, of which either may be a number."""

    def rule(g: Any, y: Any, wants: Any, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = [of for of, x in ((of_a, a), (of_b, b)) if isinstance(x, Tensor)]
        return [
            of(g, a, b, y, **kwargs) if wanted else None
            for of, wanted in zip(gradients, wants, strict=True)
        ]

    return rule


RULES["add"] = _pair(lambda g, a, b, y, alpha=1: g, lambda g, a, b, y, alpha=1: g * alpha)
RULES["sub"] = _pair(lambda g, a, b, y, alpha=1: g, lambda g, a, b, y, alpha=1: -g * alpha)
RULES["rsub"] = _pair(lambda g, a, b, y, alpha=1: -g * alpha, lambda g, a, b, y, alpha=1: g)
RULES["mul"] = _pair(lambda g, a, b, y: g * _conj(b), lambda g, a, b, y: g * _conj(a))
RULES["div"] = _pair(lambda g, a, b, y: g / _conj(b), lambda g, a, b, y: -g * _conj(y) / _conj(b))
RULES["mm"] = _pair(lambda g, a, b, y: g.mm(_conj(b).t()), lambda g, a, b, y: _conj(a).t().mm(g))
RULES["bmm"] = _pair(
    lambda g, a, b, y: g.bmm(_conj(b).transpose(1, 2)),
    lambda g, a, b, y: _conj(a).transpose(1, 2).bmm(g),
)
RULES["mv"] = _pair(
    lambda g, a, b, y: g.unsqueeze(1) * _conj(b), lambda g, a, b, y: _conj(a).t().mv(g)
)
RULES["dot"] = _pair(lambda g, a, b, y: g * _conj(b), lambda g, a, b, y: g * _conj(a))
RULES["pow"] = _pair(
    lambda g, a, b, y: g * _conj(b * a ** (b - 1)),
    lambda g, a, b, y: g * _conj(y * (a.log() if isinstance(a, Tensor) else math.log(a))),
)
RULES["maximum"] = _pair(
    lambda g, a, b, y: g * (a >= b).to(g.dtype), lambda g, a, b, y: g * (b > a).to(g.dtype)
)
RULES["minimum"] = _pair(
    lambda g, a, b, y: g * (a <= b).to(g.dtype), lambda g, a, b, y: g * (b < a).to(g.dtype)
)


def _product_added(product: str) -> Callable[..., Any]:
    def rule(
        g: Tensor,
        y: Any,
        wants: Any,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        *,
        beta: Any = 1,
        alpha: Any = 1,
    ) -> Any:
        of_a, of_b = RULES[product](g, y, wants[1:], a, b)
        return [
            g if beta == 1 else g * beta,
            of_a if of_a is None or alpha == 1 else of_a * alpha,
            of_b if of_b is None or alpha == 1 else of_b * alpha,
        ]

    return rule


RULES["addmm"], RULES["baddbmm"] = _product_added("mm"), _product_added("bmm")


@_rule("mse_loss")
def _mse_loss(g: Tensor, y: Tensor, wants: Any, a: Tensor, b: Tensor, reduction: int = 1) -> Any:
    slope = (a - b) * g * (2 / a.numel() if reduction == 1 else 2)
    return [slope, -slope]


@_rule("where")
def _where(g: Tensor, y: Tensor, wants: Any, condition: Tensor, a: Any, b: Any) -> Any:
    none = flambeau.zeros_like(g)
    parts = ((a, g.where(condition, none)), (b, none.where(condition, g)))
    return [None, *(part for x, part in parts if isinstance(x, Tensor))]


@_rule("lerp")
def _lerp(g: Tensor, y: Tensor, wants: Any, a: Tensor, b: Tensor, weight: Any) -> Any:
    of_weight = [g * (b - a)] if isinstance(weight, Tensor) else []
    return [g * (1 - weight), g * weight, *of_weight]


@_rule("masked_fill")
def _masked_fill(g: Tensor, y: Tensor, wants: Any, x: Tensor, mask: Tensor, value: Any) -> Any:
    return [g.masked_fill(mask, 0)]


# --- Parts and wholes -------------------------------------------------------------------------


@_rule("select")
def _select(g: Tensor, y: Tensor, wants: Any, x: Tensor, dim: int, index: int) -> Any:
    return [g.new_zeros(list(x.shape)).select_scatter(g, dim, index)]


@_rule("slice")
def _slice(
    g: Tensor,
    y: Any,
    wants: Any,
    x: Tensor,
    dim: int = 0,
    start: Any = 0,
    end: Any = None,
    step: int = 1,
) -> Any:
    return [g.new_zeros(list(x.shape)).slice_scatter(g, dim, start, end, step)]


@_rule("index_select")
def _index_select(g: Tensor, y: Any, wants: Any, x: Tensor, dim: int, index: Tensor) -> Any:
    return [g.new_zeros(list(x.shape)).index_add(dim, index, g), None]


@_rule("gather")
def _gather(
    g: Tensor, y: Any, wants: Any, x: Tensor, dim: int, index: Tensor, **kwargs: Any
) -> Any:
    return [g.new_zeros(list(x.shape)).scatter_add(dim, index, g), None]


@_rule("index")
def _index(g: Tensor, y: Any, wants: Any, x: Tensor, indices: Any) -> Any:
    whole = g.new_zeros(list(x.shape)).index_put(tuple(indices), g, True)
    return [whole, *(None for index in indices if index is not None)]


@_rule("embedding")
def _embedding(
    g: Tensor, y: Any, wants: Any, weight: Tensor, indices: Tensor, padding: int = -1, *rest: Any
) -> Any:
    flat, rows = indices.reshape([-1]), g.reshape([-1, weight.shape[1]])
    if padding >= 0:
        rows = rows.masked_fill((flat == padding).unsqueeze(1), 0)
    return [g.new_zeros(list(weight.shape)).index_add(0, flat, rows), None]


@_rule("cat")
def _cat(g: Tensor, y: Any, wants: Any, tensors: Any, dim: int = 0) -> Any:
    return list(g.split([x.shape[dim] for x in tensors], dim))


@_rule("stack")
def _stack(g: Tensor, y: Any, wants: Any, tensors: Any, dim: int = 0) -> Any:
    return list(g.unbind(dim))


@_rule("split", "split_with_sizes")
def _split(g: Any, y: Any, wants: Any, x: Tensor, sizes: Any, dim: int = 0) -> Any:
    return [flambeau.cat(list(g), dim)]


@_rule("unbind")
def _unbind(g: Any, y: Any, wants: Any, x: Tensor, dim: int = 0) -> Any:
    return [flambeau.stack(list(g), dim)]


# --- Functions of nn --------------------------------------------------------------------------


@_rule("native_layer_norm")
def _layer_norm(
    g: Any, y: Any, wants: Any, x: Tensor, shape: Any, weight: Any, bias: Any, eps: float
) -> Any:
    (g, *_), (_, mean, rate) = g, y
    inner, outer = list(range(-len(shape), 0)), list(range(x.dim() - len(shape)))
    normed = (x - mean) * rate
    scaled = g if weight is None else g * weight
    centred = scaled - scaled.mean(inner, True) - normed * (scaled * normed).mean(inner, True)
    of_weight = [] if weight is None else [(g * normed).sum(outer) if outer else g * normed]
    of_bias = [] if bias is None else [g.sum(outer) if outer else g]
    return [centred * rate, *of_weight, *of_bias]


@_rule("native_dropout")
def _dropout(g: Any, y: Any, wants: Any, x: Tensor, p: float, train: Any) -> Any:
    return [g[0] * y[1].to(x.dtype) * (1 / (1 - p) if p < 1 else 0.0)]


@_rule("nll_loss_forward")
def _nll_loss(
    g: Any, y: Any, wants: Any, x: Tensor, target: Tensor, weight: Any, reduction: int, ignore: int
) -> Any:
    slope = g[0] / y[1] if reduction == 1 else g[0]
    counts = target != ignore
    targets = target.masked_fill(counts.logical_not(), 0)
    of_target = slope if weight is None else slope * weight.index_select(0, targets)
    of_target = (of_target.expand(list(target.shape)) * counts.to(x.dtype)).unsqueeze(1)
    return [-x.new_zeros(list(x.shape)).scatter_add(1, targets.unsqueeze(1), of_target)]
