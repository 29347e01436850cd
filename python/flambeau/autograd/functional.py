"""Derivatives of functions: vjp, jvp, jacobian, hessian, vhp, hvp.

All rest on `autograd.grad`. A product with the Jacobian from the right (jvp, hvp) is a gradient of
a gradient: the vjp is linear in the vector it is given, and its derivative by that vector is the
Jacobian.
"""

from __future__ import annotations

import flambeau

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from flambeau import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

# Who does not depend on what: the stages of a computation in which strict mode may find it out.
_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {}.",
    "back_trick": (
        "The gradient with respect to the input is independent of entry {} in the grad_outputs "
        "when using the double backward trick to compute forward mode gradients."
    ),
    "double_back": "The jacobian of the user-provided function is independent of input {}.",
    "double_back_trick": (
        "The hessian of the user-provided function is independent of entry {} in the grad_jacobian."
    ),
}


def _as_tuple(values: Any, what: str | None = None, caller: str | None = None) -> Any:
    """Whether `values` was a tuple, and the tuple; without a caller just the tuple, unchecked."""
    is_tuple = isinstance(values, tuple)
    if what is None and caller is None:
        return values if is_tuple else tuple(values) if isinstance(values, list) else (values,)
    items = values if is_tuple else (values,)
    for index, item in enumerate(items):
        if isinstance(item, flambeau.Tensor):
            continue
        if is_tuple:
            raise TypeError(
                f"The {what} given to {caller} must be either a Tensor or a tuple of Tensors but "
                f"the value at index {index} has type {type(item)}."
            )
        raise TypeError(
            f"The {what} given to {caller} must be either a Tensor or a tuple of Tensors but the "
            f"given {what} has type {type(item)}."
        )
    return is_tuple, items


def _tuple_postprocess(values: Sequence[Any], was_tuple: bool | tuple[bool, bool]) -> Any:
    """A tuple, or its only item; of tuples of tuples if there are two answers."""
    if isinstance(was_tuple, tuple):
        outer, inner = was_tuple
        values = tuple(_tuple_postprocess(value, inner) for value in values)
        return _tuple_postprocess(values, outer)
    return tuple(values) if was_tuple else values[0]


def _prepare(
    inputs: tuple[Tensor, ...], create_graph: bool, need_graph: bool
) -> tuple[Tensor, ...]:
    """Inputs of the function that is differentiated: leaves, unless the result must lead back to
    `inputs`.
    """
    prepared = []
    for tensor in inputs:
        if create_graph:
            # A view, so that the function cannot change the original, and its gradients stop here.
            prepared.append(tensor.view_as(tensor) if tensor.requires_grad else tensor.detach())
        else:
            prepared.append(tensor.detach())
        if need_graph and not prepared[-1].requires_grad:
            prepared[-1].requires_grad_()
    return tuple(prepared)


def _grad_postprocess(values: tuple[Any, ...], create_graph: bool) -> tuple[Any, ...]:
    """The results, or tuples of them, without history unless the graph is wanted."""
    if create_graph or not values:
        return values
    if isinstance(values[0], flambeau.Tensor):
        return tuple(value.detach() for value in values)
    return tuple(_grad_postprocess(value, create_graph) for value in values)


def _construct_standard_basis_for(
    tensors: tuple[Tensor, ...], tensor_numels: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """The columns of an identity matrix, as wide as all tensors together, that are each one's."""
    if not tensors or len(tensors) != len(tensor_numels) or min(tensor_numels) <= 0:
        raise AssertionError(
            "_construct_standard_basis_for: one positive number of elements is wanted for each of "
            f"one or more tensors, got {len(tensors)} tensors and {tensor_numels}"
        )
    total = sum(tensor_numels)
    basis, start = [], 0
    for tensor, numel in zip(tensors, tensor_numels):
        columns = flambeau.zeros(total, numel, dtype=tensor.dtype, device=tensor.device)
        columns[start : start + numel].fill_diagonal_(1)
        basis.append(columns)
        start += numel
    return tuple(basis)


def _check_vector(v: tuple[Tensor, ...], like: tuple[Tensor, ...], like_is_tuple: bool) -> None:
    if len(v) != len(like):
        if like_is_tuple:
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}."
            )
        raise RuntimeError("The given v should contain a single Tensor.")
    for index, (vector, tensor) in enumerate(zip(v, like)):
        if vector.shape != tensor.shape:
            entry = f"Entry {index} in " if like_is_tuple else ""
            raise RuntimeError(
                f"{entry}v has invalid size: should be {tensor.shape} but got {vector.shape}."
            )


def _vector_or_one(
    v: Any,
    like: tuple[Tensor, ...],
    like_is_tuple: bool,
    create_graph: bool,
    caller: str,
    whose: str,
) -> tuple[Tensor, ...] | None:
    """The vector that was given, checked; None, which stands for one, if `like` is a single
    number.
    """
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if {whose} a single Tensor with a single element."
            )
        return None
    vectors = _prepare(_as_tuple(v, "v", caller)[1], create_graph, need_graph=False)
    _check_vector(vectors, like, like_is_tuple)
    return vectors


def _gradients(
    outputs: Sequence[Tensor | None],
    inputs: tuple[Tensor, ...],
    grad_outputs: Sequence[Tensor] | None = None,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """autograd.grad that leaves out outputs that depend on nothing."""
    grads = [None] * len(outputs) if grad_outputs is None else list(grad_outputs)
    pairs = [
        (output, grad)
        for output, grad in zip(outputs, grads)
        if output is not None and output.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    return flambeau.autograd.grad(
        [output for output, _ in pairs],
        inputs,
        [grad for _, grad in pairs],
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=True,
    )


def _zeros_for_none(
    grads: Sequence[Tensor | None],
    like: Sequence[Tensor],
    strict: bool,
    create_graph: bool,
    stage: str,
) -> tuple[Tensor, ...]:
    """`grads` with zeros in the place of None, which strict mode does not allow."""
    filled = []
    for index, (grad, tensor) in enumerate(zip(grads, like)):
        if grad is None:
            if strict:
                raise RuntimeError(
                    _INDEPENDENT[stage].format(index) + " This is not allowed in strict mode."
                )
            grad = flambeau.zeros_like(tensor)
        elif strict and create_graph and not grad.requires_grad:
            of = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {of} of the user-provided function is independent of input {index}. This is "
                "not allowed in strict mode when create_graph=True."
            )
        filled.append(grad)
    return tuple(filled)


def _require_history(values: Sequence[Tensor | None], what: str, strict: bool) -> None:
    if not strict:
        return
    for index, value in enumerate(values):
        if value is not None and value.requires_grad:
            continue
        if what == "outputs":
            raise RuntimeError(
                f"Output {index} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when running "
                "in strict mode."
            )
        if value is None:
            raise RuntimeError(
                _INDEPENDENT["back"].format(index) + " This is not allowed in strict mode."
            )
        raise RuntimeError(
            f"While computing the hessian, found that the {what} of the user-provided function "
            f"with respect to input {index} is independent of the input. This is not allowed in "
            "strict mode. You should ensure that your function is twice differentiable and that "
            "the jacobian depends on the inputs (this would be violated by a linear function for "
            "example)."
        )


def _call(
    func: Callable[..., Any], inputs: tuple[Tensor, ...], caller: str
) -> tuple[bool, tuple[Tensor, ...]]:
    return _as_tuple(func(*inputs), "outputs of the user-provided function", caller)


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func` at `inputs`, and the product of `v` with its Jacobian.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: like the outputs; may be left out for a single number.
        create_graph: makes the results differentiable.
        strict: raises an error where an output does not depend on an input, instead of giving
            zeros.
    """
    with flambeau.enable_grad():
        inputs_tuple, given = _as_tuple(inputs, "inputs", "vjp")
        primals = _prepare(given, create_graph, need_graph=True)
        outputs_tuple, outputs = _call(func, primals, "vjp")
        _require_history(outputs, "outputs", strict)
        vectors = _vector_or_one(
            v, outputs, outputs_tuple, create_graph, "vjp", "the user-provided function returns"
        )
    with flambeau.set_grad_enabled(create_graph or flambeau.is_grad_enabled()):
        grads = _gradients(outputs, primals, vectors, create_graph)
        result = _zeros_for_none(grads, primals, strict, create_graph, "back")
    return (
        _tuple_postprocess(_grad_postprocess(outputs, create_graph), outputs_tuple),
        _tuple_postprocess(_grad_postprocess(result, create_graph), inputs_tuple),
    )


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func` at `inputs`, and the product of its Jacobian with `v`, which is like
    the inputs.

    The other arguments are those of vjp.
    """
    with flambeau.enable_grad():
        inputs_tuple, given = _as_tuple(inputs, "inputs", "jvp")
        primals = _prepare(given, create_graph, need_graph=True)
        vectors = _vector_or_one(
            v,
            primals,
            inputs_tuple,
            create_graph,
            "jvp",
            "the input to the user-provided function is",
        )
        outputs_tuple, outputs = _call(func, primals, "jvp")
        _require_history(outputs, "outputs", strict)
        duals = tuple(flambeau.zeros_like(output, requires_grad=True) for output in outputs)
        grads = _gradients(outputs, primals, duals, create_graph=True)
        _require_history(grads, "grad_inputs", strict)
    with flambeau.set_grad_enabled(create_graph or flambeau.is_grad_enabled()):
        found = _gradients(grads, duals, vectors, create_graph)
        result = _zeros_for_none(found, outputs, strict, create_graph, "back_trick")
    return (
        _tuple_postprocess(_grad_postprocess(outputs, create_graph), outputs_tuple),
        _tuple_postprocess(_grad_postprocess(result, create_graph), outputs_tuple),
    )


def _rows_of_jacobian(
    output: Tensor, inputs: tuple[Tensor, ...], index: int, create_graph: bool, strict: bool
) -> list[Tensor]:
    """For each input the Jacobian of `output`, computed row by row."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for element in output.reshape(-1):
        grads = _gradients((element,), inputs, create_graph=create_graph)
        for j, (row, grad, tensor) in enumerate(zip(rows, grads, inputs)):
            if grad is not None:
                if strict and create_graph and not grad.requires_grad:
                    raise RuntimeError(
                        "The jacobian of the user-provided function is independent of input "
                        f"{j}. This is not allowed in strict mode when create_graph=True."
                    )
                row.append(grad)
                continue
            if strict:
                raise RuntimeError(
                    f"Output {index} of the user-provided function is independent of input {j}. "
                    "This is not allowed in strict mode."
                )
            row.append(flambeau.zeros_like(tensor))
    return [
        flambeau.stack(row).view(output.shape + tensor.shape) for row, tensor in zip(rows, inputs)
    ]


def _jacobian_at_once(
    output: Tensor, inputs: tuple[Tensor, ...], create_graph: bool
) -> list[Tensor]:
    """For each input the Jacobian of `output`, from one call with a batch of unit vectors."""
    count = output.numel()
    if not output.requires_grad:
        return [tensor.new_zeros(output.shape + tensor.shape) for tensor in inputs]
    basis = flambeau.eye(count, dtype=output.dtype, device=output.device).view(count, *output.shape)
    grads = flambeau.autograd.grad(
        output,
        inputs,
        basis,
        allow_unused=True,
        create_graph=create_graph,
        retain_graph=True,
        is_grads_batched=True,
    )
    return [
        (
            flambeau.zeros((count, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
            if grad is None
            else grad
        ).view(output.shape + tensor.shape)
        for grad, tensor in zip(grads, inputs)
    ]


def _jacobian_by_columns(func: Callable[..., Any], inputs: Any) -> Any:
    """The Jacobian from one jvp for each element of the inputs."""
    inputs_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
    primals = tuple(tensor.detach() for tensor in given)
    outputs_tuple = False
    columns: list[list[list[Tensor]]] = []
    outputs: tuple[Tensor, ...] = ()
    for j, tensor in enumerate(primals):
        of_input: list[list[Tensor]] = []
        for position in range(tensor.numel()):
            vectors = [flambeau.zeros_like(other) for other in primals]
            vectors[j].view(-1)[position] = 1
            values, products = jvp(func, primals, tuple(vectors))
            outputs_tuple, outputs = _as_tuple(values, "outputs", "jacobian")
            of_input.append(list(_as_tuple(products, "outputs", "jacobian")[1]))
        columns.append(of_input)
    jacobians = [
        [
            flambeau.stack([column[i] for column in columns[j]], dim=-1).view(
                output.shape + primals[j].shape
            )
            for j in range(len(primals))
        ]
        for i, output in enumerate(outputs)
    ]
    return _tuple_postprocess(jacobians, (outputs_tuple, inputs_tuple))


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func` at `inputs`: a tensor of shape output.shape + input.shape.

    For tuples of outputs or inputs it is a tuple by output, by input, or of tuples by both.

    Args:
        func: takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        create_graph: makes the result differentiable.
        strict: raises an error where an output does not depend on an input, instead of giving
            zeros.
        vectorize: takes all rows from one call of `autograd.grad`.
        strategy: "reverse-mode", or, with vectorize=True, "forward-mode": by columns instead of
            rows, for functions with more outputs than inputs.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                "torch.autograd.functional.jacobian: `create_graph=True` and "
                '`strategy="forward-mode"` '
                "are not supported together (yet)."
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only "
                "implemented for `vectorize=True`."
            )
        return _jacobian_by_columns(func, inputs)
    if strict and vectorize:
        raise RuntimeError(
            "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not "
            "supported together. Please either set `strict=False` or `vectorize=False`."
        )
    with flambeau.enable_grad():
        inputs_tuple, given = _as_tuple(inputs, "inputs", "jacobian")
        primals = _prepare(given, create_graph, need_graph=True)
        outputs_tuple, outputs = _call(func, primals, "jacobian")
        _require_history(outputs, "outputs", strict)
        jacobians = []
        for index, output in enumerate(outputs):
            if vectorize:
                row = _jacobian_at_once(output, primals, create_graph)
            else:
                row = _rows_of_jacobian(output, primals, index, create_graph, strict)
            jacobians.append(_grad_postprocess(tuple(row), create_graph))
    return _tuple_postprocess(jacobians, (outputs_tuple, inputs_tuple))


def _checked_scalar(value: Any, caller: str, strict: bool) -> Tensor:
    is_tuple, outputs = _as_tuple(value, "outputs of the user-provided function", caller)
    _require_history(outputs, "outputs", strict)
    if is_tuple:
        raise RuntimeError(f"The function given to {caller} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {caller} should contain a single element"
        )
    return outputs[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of `func`, which returns a single number: a tensor of shape input.shape +
    input.shape.

    For a tuple of inputs it is a tuple of tuples. The arguments are those of jacobian.
    """
    inputs_tuple, given = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def gradient(*tensors: Tensor) -> tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            # jvp passes its own tensors, of which those that are not differentiated need no
            # gradient.
            tensors = tuple(t if t.requires_grad else t.requires_grad_() for t in tensors)
        jac = jacobian(
            lambda *args: _checked_scalar(func(*args), "hessian", strict).squeeze(), tensors, True
        )
        _require_history(jac, "jacobian", strict)
        return jac

    result = jacobian(
        gradient,
        given,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return result if inputs_tuple else result[0][0]


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of `func`, a single number, and the product of `v` with its Hessian at `inputs`.

    The arguments are those of jvp.
    """
    with flambeau.enable_grad():
        inputs_tuple, given = _as_tuple(inputs, "inputs", "vhp")
        primals = _prepare(given, create_graph, need_graph=True)
        vectors = _vector_or_one(
            v,
            primals,
            inputs_tuple,
            create_graph,
            "vhp",
            "the input to the user-provided function is",
        )
        output = _checked_scalar(func(*primals), "vhp", strict)
        jac = _gradients((output,), primals, create_graph=True)
        _require_history(jac, "jacobian", strict)
    with flambeau.set_grad_enabled(create_graph or flambeau.is_grad_enabled()):
        grads = _gradients(jac, primals, vectors, create_graph)
        result = _zeros_for_none(grads, primals, strict, create_graph, "double_back")
    return (
        _grad_postprocess((output,), create_graph)[0],
        _tuple_postprocess(_grad_postprocess(result, create_graph), inputs_tuple),
    )


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The output of `func`, a single number, and the product of its Hessian at `inputs` with `v`.

    It is the same as vhp, since the Hessian is symmetric, and slower. The arguments are those of
    jvp.
    """
    with flambeau.enable_grad():
        inputs_tuple, given = _as_tuple(inputs, "inputs", "hvp")
        primals = _prepare(given, create_graph, need_graph=True)
        vectors = _vector_or_one(
            v,
            primals,
            inputs_tuple,
            create_graph,
            "hvp",
            "the input to the user-provided function is",
        )
        output = _checked_scalar(func(*primals), "hvp", strict)
        jac = _gradients((output,), primals, create_graph=True)
        _require_history(jac, "jacobian", strict)
        duals = tuple(flambeau.zeros_like(tensor, requires_grad=True) for tensor in primals)
        double = _gradients(jac, primals, duals, create_graph=True)
        _require_history(double, "hessian", strict)
    with flambeau.set_grad_enabled(create_graph or flambeau.is_grad_enabled()):
        grads = _gradients(double, duals, vectors, create_graph)
        result = _zeros_for_none(grads, primals, strict, create_graph, "double_back_trick")
    return (
        _grad_postprocess((output,), create_graph)[0],
        _tuple_postprocess(_grad_postprocess(result, create_graph), inputs_tuple),
    )
