"""Jacobians and Hessians of functions."""

from __future__ import annotations

import functools

import flambeau
from flambeau import Tensor
from flambeau.func._grad import _JVP, _VJP, _Linear, _split_aux, flat_outputs
from flambeau.func._levels import (
    flat_tensors,
    gradients,
    own_inputs,
    released,
    replaced,
    selected,
    unflatten,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["hessian", "jacfwd", "jacrev"]


def _check_real(name: str, role: str, tensors: list[Tensor]) -> None:
    for index, tensor in enumerate(tensors):
        if tensor.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {role} to be real but received complex tensor at flattened "
                f"{role[:-1]} idx: {index}"
            )


def _outer(one: Tensor, given: Tensor) -> Tensor:
    """All products of two tensors' elements, in the dtype of the second."""
    return (one.reshape(one.shape + (1,) * given.dim()) * given).to(given.dtype)


def _unit_vectors(tensor: Tensor) -> Tensor:
    """As many tensors of a shape as it has elements, each with a single one."""
    count = tensor.numel()
    identity = flambeau.eye(count, dtype=tensor.dtype, device=tensor.device)
    return identity.reshape(count, *tensor.shape)


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """The function that gives the Jacobian of a function, a row at a time.

    Its shape is the output's followed by the input's, within the structure of the output, within
    which the one of the inputs.

    Args:
        func: the function of tensors.
        argnums: which arguments to differentiate by.
        has_aux: whether func returns a pair, whose second part is passed on as it is.
        chunk_size: accepted for compatibility: rows are computed one by one.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves: list[Tensor] = []
        tracked = flambeau.is_grad_enabled()
        with flambeau.enable_grad():
            inputs = own_inputs(selected(args, argnums), leaves)
            output = func(*replaced(args, argnums, inputs), **kwargs)
            output, aux = _split_aux(_VJP, output, has_aux)
            flat_inputs, input_spec = flat_tensors(
                inputs, "jacrev: Expected all inputs to be Tensors"
            )
            results, output_spec = flat_outputs(output, _VJP)
            _check_real("jacrev", "inputs", flat_inputs)
            _check_real("jacrev", "outputs", results)
            blocks = []
            for one in results:
                rows = [gradients([one], flat_inputs, [unit]) for unit in _unit_vectors(one)]
                columns = [
                    flambeau.stack(column).reshape(one.shape + given.shape)
                    if rows
                    else _outer(one, given)  # of nothing
                    for column, given in zip(
                        zip(*rows) if rows else [()] * len(flat_inputs), flat_inputs
                    )
                ]
                blocks.append(unflatten(columns, input_spec))
            result, aux = released((unflatten(blocks, output_spec), aux), leaves, tracked)
        return (result, aux) if has_aux else result

    return wrapper


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """The function that gives the Jacobian of a function, a column at a time; see `jacrev`."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = selected(args, argnums)
        aux = None

        def of_chosen(*values: Any) -> Any:
            nonlocal aux
            given = values[0] if isinstance(argnums, int) else values
            output = func(*replaced(args, argnums, given), **kwargs)
            output, aux = _split_aux(_JVP, output, has_aux)
            return output

        linear = _Linear(of_chosen, (chosen,) if isinstance(argnums, int) else chosen, "jacfwd")
        _check_real("jacfwd", "inputs", linear.inputs)
        linear.use_output(linear.result)
        _check_real("jacfwd", "outputs", linear.outputs)
        columns = _columns(linear)
        one_input = linear.input_spec.child(0) if isinstance(argnums, int) else linear.input_spec
        blocks = [
            unflatten((column[index] for column in columns), one_input)
            for index in range(len(linear.outputs))
        ]
        found = (unflatten(blocks, linear.output_spec), aux)
        result, aux = released(found, linear.leaves, flambeau.is_grad_enabled())
        return (result, aux) if has_aux else result

    return wrapper


def _columns(linear: _Linear) -> list[list[Tensor]]:
    """For each input the derivatives of all outputs by it."""
    found = []
    for index, given in enumerate(linear.inputs):
        tangents = [flambeau.zeros_like(t) for t in linear.inputs]
        products: list[list[Tensor]] = []
        for unit in _unit_vectors(given):
            tangents[index] = unit
            products.append(linear.product(tangents))
        blocks = []
        for place, output in enumerate(linear.outputs):
            parts = [product[place] for product in products]
            shape = output.shape + given.shape
            if parts:
                blocks.append(flambeau.stack(parts).movedim(0, -1).reshape(shape))
            else:
                blocks.append(output.new_zeros(shape))
        found.append(blocks)
    return found


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of a function."""
    return jacfwd(jacrev(func, argnums), argnums)
