"""What the functions that multiply matrices, convolve or attend are made of, as calls of the few
ops that have a formula in the counter of operations: those of the call itself, and those of its
gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

import flambeau

Shape = tuple[int, ...]


class Call(NamedTuple):
    """An op's name, its arguments (tensors as shapes), and the shape of its result."""

    op: str
    args: tuple[Any, ...]
    out: Any = None


# (result, arguments...) -> the calls forward, the calls backward
Products = Callable[..., tuple[list[Call], list[Call]]]


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors of a result: itself, or those of a tuple."""
    if isinstance(value, flambeau.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from tensors_in(part)


def _pair(
    op: str, gradient: str, sizes: tuple[Shape, int, int, int], needs: tuple[bool, ...],
    added: tuple[Any, ...] = (),
) -> tuple[list[Call], list[Call]]:  # fmt: skip
    """The product (batch, m, k) @ (batch, k, n), and those of both gradients."""
    batch, m, k, n = sizes
    a, b, out = (*batch, m, k), (*batch, k, n), (*batch, m, n)
    forward = [Call(op, (*added, a, b), out)]
    of_a = Call(gradient, (out, (*batch, n, k)), a)
    of_b = Call(gradient, ((*batch, k, m), out), b)
    return forward, [call for call, needed in zip((of_a, of_b), needs) if needed]


def _needs(*tensors: Any) -> tuple[bool, ...]:
    return tuple(isinstance(t, flambeau.Tensor) and t.requires_grad for t in tensors)


def products_mm(out: Any, input: Any, mat2: Any, **kwargs: Any) -> Any:
    sizes = ((), input.shape[0], input.shape[1], mat2.shape[1])
    return _pair("mm", "mm", sizes, _needs(input, mat2))


def products_addmm(out: Any, input: Any, mat1: Any, mat2: Any, **kwargs: Any) -> Any:
    sizes = ((), mat1.shape[0], mat1.shape[1], mat2.shape[1])
    return _pair("addmm", "mm", sizes, _needs(mat1, mat2), (input.shape,))


def products_bmm(out: Any, input: Any, mat2: Any, **kwargs: Any) -> Any:
    sizes = (input.shape[:1], input.shape[1], input.shape[2], mat2.shape[2])
    return _pair("bmm", "bmm", sizes, _needs(input, mat2))


def products_baddbmm(out: Any, input: Any, batch1: Any, batch2: Any, **kwargs: Any) -> Any:
    sizes = (batch1.shape[:1], batch1.shape[1], batch1.shape[2], batch2.shape[2])
    return _pair("baddbmm", "bmm", sizes, _needs(batch1, batch2), (input.shape,))


def products_linear(out: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    n, k = weight.shape if weight.dim() == 2 else (1, weight.shape[0])
    sizes = ((), prod(input.shape[:-1]), k, n)
    op, added = ("mm", ()) if bias is None else ("addmm", (bias.shape,))
    return _pair(op, "mm", sizes, _needs(input, weight), added)


def products_matmul(out: Any, input: Any, other: Any, **kwargs: Any) -> Any:
    a, b = input.shape, other.shape
    if len(b) < 2 or (len(a) == 1 and len(b) > 2):
        return [], []  # sums of products with a vector are no products of matrices
    m = a[-2] if len(a) > 1 else 1
    if len(a) <= 2 or len(b) == 2:
        sizes: Any = ((), prod(out.shape) // b[-1] if b[-1] else 0, a[-1], b[-1])
        return _pair("mm", "mm", sizes, _needs(input, other))
    sizes = ((prod(out.shape[:-2]),), m, a[-1], b[-1])
    return _pair("bmm", "bmm", sizes, _needs(input, other))


products_linalg_matmul = products_matmul


def products_rmatmul(out: Any, other: Any, input: Any) -> Any:
    return products_matmul(out, input, other)


def products_tensordot(out: Any, a: Any, b: Any, dims_a: Any, dims_b: Any, **kwargs: Any) -> Any:
    k = prod(a.shape[d] for d in dims_a)
    m, n = (t.numel() // k if k else 0 for t in (a, b))
    return _pair("mm", "mm", ((), m, k, n), _needs(a, b))


def products_addbmm(out: Any, input: Any, batch1: Any, batch2: Any, **kwargs: Any) -> Any:
    return products_bmm(out, batch1, batch2)


def products_linalg_multi_dot(out: Any, tensors: Any, **kwargs: Any) -> Any:
    """The products in the order that takes the fewest operations."""
    ends = [tensors[0].shape[0] if tensors[0].dim() == 2 else 1]
    ends += (t.shape[0] for t in tensors[1:])
    ends.append(tensors[-1].shape[1] if tensors[-1].dim() == 2 else 1)
    best: dict[tuple[int, int], tuple[int, Any]] = {}
    for length in range(1, len(tensors) + 1):
        for i in range(len(tensors) - length + 1):
            j = i + length
            if length == 1:
                best[i, j] = (0, (([], []), any(_needs(tensors[i]))))
                continue
            cost, cut = min(
                (best[i, c][0] + best[c, j][0] + ends[i] * ends[c] * ends[j], c)
                for c in range(i + 1, j)
            )
            (one, needs_one), (two, needs_two) = best[i, cut][1], best[cut, j][1]
            own = _pair("mm", "mm", ((), ends[i], ends[cut], ends[j]), (needs_one, needs_two))
            calls = tuple(x + y + z for x, y, z in zip(one, two, own))
            best[i, j] = (cost, (calls, needs_one or needs_two))
    return best[0, len(tensors)][1][0]


# Einstein's sums -------------------------------------------------------------------------------


def _labels(equation: str, operands: list[Any]) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand and of the result; those of an ellipsis count from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = []
    for term, operand in zip(left.split(","), operands):
        head, dots, tail = term.partition("...")
        hidden = operand.dim() - len(head) - len(tail)
        terms.append([*head, *(f".{i}" for i in range(hidden, 0, -1)), *tail] if dots else [*head])
    longest = max((sum(name[0] == "." for name in term) for term in terms), default=0)
    dots_out = [f".{i}" for i in range(longest, 0, -1)]
    if arrow:
        head, dots, tail = right.partition("...")
        return terms, [*head, *(dots_out if dots else []), *tail]
    once = [name for term in terms for name in term if name[0] != "."]
    return terms, dots_out + sorted(name for name in set(once) if once.count(name) == 1)


def products_einsum(out: Any, equation: Any, *operands: Any) -> Any:
    if not isinstance(equation, str):  # (operand, labels, operand, labels, ..., result's labels)
        given = [equation, *operands]
        letters = [
            "".join("..." if i is Ellipsis else chr(ord("A") + i) for i in labels)
            for labels in given[1::2]
        ]
        tail = given[-1] if len(given) % 2 else None
        equation = ",".join(letters)
        if tail is not None:
            last = "".join("..." if i is Ellipsis else chr(ord("A") + i) for i in tail)
            equation += f"->{last}"
        operands = tuple(given[: 2 * len(letters) : 2])
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    terms, result = _labels(equation, list(operands))
    size: dict[str, int] = {}
    for term, operand in zip(terms, operands):
        for name, n in zip(term, operand.shape):
            size[name] = max(size.get(name, 1), n)
    forward: list[Call] = []
    backward: list[Call] = []
    left, needed = set(terms[0]), _needs(operands[0])[0]
    for i in range(1, len(terms)):
        right = set(terms[i])
        kept = set(result).union(*terms[i + 1 :])

        def total(names: set[str]) -> int:
            return prod(size[name] for name in names)

        summed = (left & right) - kept
        if summed:
            sizes = ((total(left & right & kept),), total((left - right) & kept), total(summed),
                     total((right - left) & kept))  # fmt: skip
            calls = _pair("bmm", "bmm", sizes, (needed, _needs(operands[i])[0]))
            forward += calls[0]
            backward += calls[1]
        left, needed = (left | right) & kept, needed or _needs(operands[i])[0]
    return forward, backward


# Convolutions, attention, recurrent layers ----------------------------------------------------


def _convolution(
    out: Any, input: Any, weight: Any, bias: Any, transposed: bool, groups: int
) -> Any:
    x, batch = input.shape, out.shape
    if len(x) == weight.dim() - 1:
        x, batch = (1, *x), (1, *batch)
    options = (None, None, None, None, transposed)  # bias, stride, padding and dilation
    forward = [Call("convolution", (x, weight.shape, *options), batch)]
    mask = _needs(input, weight, bias)
    if not any(mask[:2]):
        return forward, []
    gradients = (batch, x, weight.shape, *options, None, groups, mask)
    return forward, [Call("convolution_backward", gradients)]


def products_conv1d(
    out: Any, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    return _convolution(out, input, weight, bias, False, groups)


products_conv2d = products_conv3d = products_conv1d


def products_conv_transpose1d(
    out: Any, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    return _convolution(out, input, weight, bias, True, groups)


products_conv_transpose2d = products_conv_transpose3d = products_conv_transpose1d


def products_convolution(
    out: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    return _convolution(out, input, weight, bias, transposed, groups)


def products_scaled_dot_product_attention(
    out: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    batch = (prod(query.shape[:-2]),)
    (s_q, d_q), (s_k, d_v) = query.shape[-2:], value.shape[-2:]
    if dropout_p > 0 or _needs(attn_mask)[0]:  # these take the formula with the whole matrix
        scores = _pair(
            "bmm", "bmm", (batch, s_q, d_q, s_k), (query.requires_grad, key.requires_grad)
        )
        weights_need = any(_needs(query, key, attn_mask))
        sums = _pair("bmm", "bmm", (batch, s_q, s_k, d_v), (weights_need, value.requires_grad))
        return scores[0] + sums[0], scores[1] + sums[1]
    op = "_scaled_dot_product_flash_attention" + ("_for_cpu" if query.device.type == "cpu" else "")
    shapes = (query.shape, key.shape, value.shape)
    forward = [Call(op, shapes, out.shape)]
    return forward, [Call(f"{op}_backward", (out.shape, *shapes))] if out.requires_grad else []


def products_lstm(out: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """For all steps the products of each layer with its input's weight, the state's, and that of a
    projection; those with a first state that needs no gradient have none."""
    if isinstance(args[2], (tuple, list)):  # a packed batch
        sizes, hx, params, has_biases, layers, _, _, bidirectional, *_ = args
        rows = int(sizes[0])
    else:
        hx, params, has_biases, layers, _, _, bidirectional, batch_first = args
        rows = 1 if input.dim() < 3 else input.shape[0 if batch_first else 1]
    steps_and_rows = prod(input.shape[:-1])
    state_needs = any(_needs(*(hx if isinstance(hx, (tuple, list)) else [hx])))
    matrices = [weight for weight in params if weight.dim() == 2]
    of_a_layer = len(matrices) // layers
    of_a_direction = of_a_layer // (2 if bidirectional else 1)
    forward: list[Call] = []
    backward: list[Call] = []
    for i, weight in enumerate(matrices):
        n, k = weight.shape
        part = i % of_a_direction
        op, added = ("addmm", ((n,),)) if has_biases and part < 2 else ("mm", ())
        calls = _pair(op, "mm", ((), steps_and_rows, k, n), (False, weight.requires_grad), added)
        forward += calls[0]
        backward += calls[1]
        if part > 0 or i >= of_a_layer or input.requires_grad:
            counted = steps_and_rows - (rows if part == 1 and not state_needs else 0)
            backward.append(Call("mm", ((counted, n), (n, k)), (counted, k)))
    return forward, backward


products_gru = products_rnn_tanh = products_rnn_relu = products_lstm


def products_of(name: str) -> Products | None:
    """How to tell the products of a function, by its name."""
    special = name.startswith("__")
    found = globals().get(f"products_{name.strip('_') if special else name.removesuffix('_')}")
    return None if found is products_of else found
