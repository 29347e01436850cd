"""grad, vjp and jvp: derivatives of functions, as functions."""

from __future__ import annotations

import functools

import flambeau
from flambeau import _C, Tensor
from flambeau.autograd import Function
from flambeau.func._levels import (
    flat_tensors,
    gradients,
    gradients_of_rows,
    own_input,
    own_inputs,
    released,
    replaced,
    selected,
    unflatten,
)
from flambeau.utils._pytree import tree_flatten, tree_leaves, tree_map_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["grad", "grad_and_value", "jvp", "linearize", "vjp"]


_VJP, _JVP = "vjp(f, *primals)", "jvp(f, primals, tangents)"


def _split_aux(name: str, output: Any, has_aux: bool) -> tuple[Any, Any]:
    """What a function returned, and the tensors that it returned besides."""
    if not has_aux:
        return output, None
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    for leaf in tree_leaves(output[1]):
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return output


def flat_outputs(output: Any, name: str) -> tuple[list[Tensor], Any]:
    """The tensors that a function returned, of which there must be some."""
    flat, spec = tree_flatten(output)
    if not flat or (len(flat) == 1 and flat[0] is None):
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = {flat})"
        )
    for item in flat:
        if not isinstance(item, Tensor):
            raise RuntimeError(
                f"{name}: expected f(*primals) to return only tensors, got unsupported type "
                f"{type(item)}"
            )
    return flat, spec


def _check_scalar(output: Any) -> None:
    where = "grad_and_value(f)(*args): Expected f(*args) to return a"
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{where} Tensor, got {type(output)}")
    if output.dim() != 0:
        raise RuntimeError(
            f"{where} scalar Tensor, got tensor with {output.dim()} dims. Maybe you wanted to use "
            "the vjp or jacrev APIs instead?"
        )
    if output.is_complex():
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
        )


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of a scalar function, and its value.

    Args:
        func: the function; what it returns is a scalar tensor.
        argnums: which arguments to differentiate by.
        has_aux: whether func returns a pair, whose second part is passed on as it is.
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Tensor] = []
        tracked = flambeau.is_grad_enabled()
        with flambeau.enable_grad():
            inputs = own_inputs(selected(args, argnums), leaves)
            output = func(*replaced(args, argnums, inputs), **kwargs)
            output, aux = _split_aux("grad_and_value(f)(*args)", output, has_aux)
            _check_scalar(output)
            flat, spec = tree_flatten(inputs)
            wanted = [t for t in flat if isinstance(t, Tensor) and t.requires_grad]
            found = iter(gradients([output], wanted, [flambeau.ones_like(output)]))
            result = unflatten(
                (next(found) if isinstance(t, Tensor) and t.requires_grad else t for t in flat),
                spec,
            )
            result, output, aux = released((result, output, aux), leaves, tracked)
        return (result, (output, aux)) if has_aux else (result, output)

    return wrapper


def grad(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that gives the gradient of a scalar function; see `grad_and_value`."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function, and the function that multiplies a vector by its Jacobian from the
    left.
    """
    leaves: list[Tensor] = []
    tracked = flambeau.is_grad_enabled()
    with flambeau.enable_grad():
        inputs = own_inputs(primals, leaves)
        output, aux = _split_aux(_VJP, func(*inputs), has_aux)
        flat_inputs, input_spec = flat_tensors(
            inputs, "vjp(f, *primals): Expected primals to be Tensors"
        )
        flat_output, output_spec = flat_outputs(output, _VJP)
        for result in flat_output:
            if not _has_derivative(result):
                raise RuntimeError(
                    f"{_VJP}: All outputs of f must be floating-point or complex Tensors, got "
                    f"Tensor with dtype {result.dtype}"
                )
        shown, aux = released((output, aux), leaves, tracked)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: Any = None) -> Any:
        flat, spec = tree_flatten(cotangents)
        if spec != output_spec:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {spec}, primal output: {output_spec}"
            )
        tracked = flambeau.is_grad_enabled()
        with flambeau.enable_grad():
            wanted = [t for t in flat_inputs if t.requires_grad]
            found = iter(gradients(flat_output, wanted, flat))
            result = [
                next(found) if t.requires_grad else flambeau.zeros_like(t) for t in flat_inputs
            ]
            result = released(result, leaves, tracked)
        products = unflatten(result, input_spec)
        return products if len(primals) != 1 else (products[0],)

    return (shown, vjp_fn, aux) if has_aux else (shown, vjp_fn)


class _Linear:
    """A function at a point: its value there, and products with its Jacobian from the right.

    The product J v is the derivative, by u, of the product u J, which is linear in u: backward
    differentiated twice. So every op with a second derivative has a forward one.
    """

    def __init__(self, func: Callable[..., Any], primals: Any, name: str) -> None:
        self.leaves: list[Tensor] = []
        _check_differentiable(tree_flatten(primals)[0], "primal")
        with flambeau.enable_grad():
            inputs = own_inputs(primals, self.leaves)
            self.primals = [
                _C._whole_batch(t) for t in tree_leaves(primals) if isinstance(t, Tensor)
            ]
            # The history of a view is another one after a write, by which none could be found.
            inputs = tree_map_only(Tensor, lambda t: t if t.is_leaf else _writable(t), inputs)
            self.inputs, self.input_spec = flat_tensors(
                inputs, f"{name}(f, primals, tangents): Expected primals to be Tensors"
            )
            given = tree_map_only(Tensor, _writable, inputs)
            self.given = tree_leaves(given)
            self.result = func(*given)

    def use_output(self, output: Any) -> None:
        """Sets what is differentiated."""
        self.outputs, self.output_spec = flat_outputs(output, _JVP)
        with flambeau.enable_grad():
            smooth = [t for t in self.outputs if _has_derivative(t)]
            self.weights = [own_input(flambeau.zeros_like(t).detach(), self.leaves) for t in smooth]
            self.wanted = [t for t in self.inputs if t.requires_grad]
            self.rows = gradients(smooth, self.wanted, self.weights)

    def product(self, tangents: list[Tensor]) -> list[Tensor]:
        """J v for a tangent of each input."""
        pairs = zip(tangents, self.inputs)
        chosen = [_laid_out_as(v, t) for v, t in pairs if t.requires_grad]
        tracked = flambeau.is_grad_enabled()
        with flambeau.enable_grad():
            products = gradients(self.rows, self.weights, chosen)
            found = iter(self.led_back(released(products, self.leaves, tracked), tracked))
        # Integers do not move with the inputs.
        return [next(found) if _has_derivative(t) else flambeau.zeros_like(t) for t in self.outputs]

    def led_back(self, products: list[Tensor], tracked: bool) -> list[Tensor]:
        """The same with a history where the inputs have one outside, if only that of a constant."""
        outer = [t for t in self.primals if tracked and t.requires_grad and not t.is_inference()]
        computed = [o for o in self.outputs if _has_derivative(o)]
        for i, (output, value) in enumerate(zip(computed, products)):
            given = not output.requires_grad or any(output is t for t in self.given)
            if outer and not value.requires_grad and not given:
                constant = _Constant.apply(_C._whole_batch(value), *outer)
                products[i] = _C._as_samples(constant)
        return products

    def products(self, tangents: list[Tensor]) -> list[Tensor]:
        """J v for every row of the tangents, stacked."""
        pairs = zip(tangents, self.inputs)
        chosen = [_laid_out_as(v, t) for v, t in pairs if t.requires_grad]
        tracked = flambeau.is_grad_enabled()
        with flambeau.enable_grad():
            products = gradients_of_rows(self.rows, self.weights, chosen, None)
            found = iter(self.led_back(released(products, self.leaves, tracked), tracked))
        count = len(tangents[0])
        return [
            next(found) if _has_derivative(t) else t.new_zeros((count, *t.shape))
            for t in self.outputs
        ]


class _Constant(Function):
    """The first tensor, whose derivative by the others is zero."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *others: Tensor) -> Tensor:
        ctx.save_for_backward(*others)
        return _C._alias(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *map(flambeau.zeros_like, ctx.saved_tensors))


def _laid_out_as(tangent: Tensor, primal: Tensor) -> Tensor:
    """A tangent, or rows of them, with the strides of its primal."""
    strides = primal.stride()
    same = tangent.stride()[tangent.dim() - primal.dim() :] == strides
    if same or not tangent.numel() or _C.is_batchedtensor(primal):
        return tangent
    extent = sum((n - 1) * stride for n, stride in zip(primal.shape, strides)) + 1
    rows = tangent.shape[: tangent.dim() - primal.dim()]
    copy = tangent.new_empty_strided(tangent.shape, (extent,) * len(rows) + strides)
    return copy.copy_(tangent)


def _has_derivative(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _writable(tensor: Tensor) -> Tensor:
    """The same values and memory; a function may write into its arguments, but not into leaves."""
    from flambeau.autograd.forward_ad import _Begin

    return _C._as_samples(_Begin.apply(_C._whole_batch(tensor)))


def _check_differentiable(values: list[Any], role: str) -> None:
    for value in values:
        if isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {role} to be floating point or complex, but got: {value.dtype}"
            )


def _check_tangents(primals: Any, tangents: Any, name: str) -> list[Tensor]:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat, spec = tree_flatten(primals)
    flat_tangents, tangent_spec = tree_flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For "
            f"example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with "
            f"structure {spec} and tangents with structure {tangent_spec}"
        )
    if not flat:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor")
    for role, values in (("primals", flat), ("tangents", flat_tangents)):
        if not all(isinstance(value, Tensor) for value in values):
            raise RuntimeError(f"{name}: Expected {role} to only contain Tensors, got {values}")
    _check_differentiable(flat, "primal")
    _check_differentiable(flat_tangents, "tangent")
    for primal, tangent in zip(flat, flat_tangents):
        if primal.shape != tangent.shape:
            raise RuntimeError(
                f"Expected primal and tangent to have the same shape, but got {primal.shape} and "
                f"{tangent.shape}"
            )
    return flat_tangents


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """The value of a function, and the product of its Jacobian with a vector, the tangents."""
    flat_tangents = _check_tangents(primals, tangents, _JVP)
    linear = _Linear(func, primals, "jvp")
    output, aux = _split_aux(_JVP, linear.result, has_aux)
    linear.use_output(output)
    if strict and not all(t.requires_grad for t in linear.outputs):
        raise RuntimeError(f"{_JVP}, strict=True: an output does not depend on the primals")
    product = unflatten(linear.product(flat_tangents), linear.output_spec)
    shown, aux = released((output, aux), linear.leaves, flambeau.is_grad_enabled())
    return (shown, product, aux) if has_aux else (shown, product)


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """The value of a function, and the function that gives products of its Jacobian there."""
    linear = _Linear(func, primals, "linearize")
    linear.use_output(linear.result)

    def jvp_fn(*tangents: Any) -> Any:
        flat = _check_tangents(primals, tangents, "linearize")
        return unflatten(linear.product(flat), linear.output_spec)

    return released(linear.result, linear.leaves, flambeau.is_grad_enabled()), jvp_fn
