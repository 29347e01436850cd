"""Jacobians and Hessians of functions."""

from __future__ import annotations

import functools

import flambeau
from flambeau import Tensor
from flambeau.func._grad import _JVP, _VJP, _Linear, _split_aux, flat_outputs
from flambeau.func._levels import (
    flat_tensors,
    gradients_of_rows,
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
    products = one.reshape(one.shape + (1,) * given.dim()) * given
    return products.to(given.dtype).clone(memory_format=flambeau.contiguous_format)


def _own_part(rows: Tensor) -> Tensor:
    """The rows of one output, or of one input, as a view: several share a tensor in PyTorch."""
    return rows.split([len(rows)])[0]


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
    """The function that gives the Jacobian of a function, by rows.

    Its shape is the output's followed by the input's, within the structure of the output, within
    which the one of the inputs.

    Args:
        func: the function of tensors.
        argnums: which arguments to differentiate by.
        has_aux: whether func returns a pair, whose second part is passed on as it is.
        chunk_size: how many rows to compute at once; all by default.
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
                if one.numel() == 0:
                    columns = [_own_part(_outer(one, given)) for given in flat_inputs]
                else:
                    rows = gradients_of_rows([one], flat_inputs, [_unit_vectors(one)], chunk_size)
                    columns = [
                        _own_part(column).reshape(one.shape + given.shape)
                        for column, given in zip(rows, flat_inputs)
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
    """The function that gives the Jacobian of a function, by columns; see `jacrev`."""

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
        units = _unit_vectors(given)
        tangents = [
            units if place == index else other.new_zeros(()).expand(len(units), *other.shape)
            for place, other in enumerate(linear.inputs)
        ]
        found.append(
            [
                _own_part(product).movedim(0, -1).reshape(output.shape + given.shape)
                for output, product in zip(linear.outputs, linear.products(tangents))
            ]
        )
    return found


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of a function."""
    return jacfwd(jacrev(func, argnums), argnums)
