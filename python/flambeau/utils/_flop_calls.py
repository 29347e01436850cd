"""What the counter of operations cannot see below a function, as calls of the ops that have a
formula: the gradients of convolutions, and the products of attention and of recurrent layers, which
one kernel computes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import flambeau
from flambeau._operators._kinds import names_of


class Call(NamedTuple):
    """An op's name, its arguments (tensors as shapes), and the shape of its result."""

    op: str
    args: tuple[Any, ...]
    out: Any = None


# (result, arguments...) -> the calls forward, the calls backward
Hidden = Callable[..., tuple[list[Call], list[Call]]]


def _needs(*tensors: Any) -> tuple[bool, ...]:
    return tuple(isinstance(t, flambeau.Tensor) and t.requires_grad for t in tensors)


def _convolution(
    out: Any, input: Any, weight: Any, bias: Any, transposed: bool, groups: int
) -> Any:
    x, batch, mask = input.shape, out.shape, _needs(input, weight, bias)
    if len(x) == weight.dim() - 1:
        x, batch = (1, *x), (1, *batch)
    options = (None, None, None, None, transposed)  # bias, stride, padding and dilation
    gradients = (batch, x, weight.shape, *options, None, groups, mask)
    return [], [Call("convolution_backward", gradients)] if any(mask[:2]) else []


def hidden_conv(
    out: Any, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    return _convolution(out, input, weight, bias, False, groups)


def hidden_conv_transpose(
    out: Any, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    return _convolution(out, input, weight, bias, True, groups)


def hidden_convolution(
    out: Any, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    return _convolution(out, input, weight, bias, transposed, groups)


def hidden_scaled_dot_product_attention(
    out: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    if dropout_p > 0 or _needs(attn_mask)[0]:  # by the whole matrix, in backward in many steps
        batch, (s_q, d_q), (s_k, d_v) = prod(query.shape[:-2]), query.shape[-2:], value.shape[-2:]
        scores = Call("bmm", ((batch, s_q, d_q), (batch, d_q, s_k)))
        return [scores, Call("bmm", ((batch, s_q, s_k), (batch, s_k, d_v)))], []
    op = "_scaled_dot_product_flash_attention" + ("_for_cpu" if query.device.type == "cpu" else "")
    shapes = (query.shape, key.shape, value.shape)
    forward = [Call(op, shapes, out.shape)]
    return forward, [Call(f"{op}_backward", (out.shape, *shapes))] if out.requires_grad else []


def hidden_lstm(out: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """For all steps the products of each layer with its input's weight, the state's, and that of a
    projection. Of the gradients only those of states are hidden; a first state that needs none has
    none."""
    if isinstance(args[2], (tuple, list)):  # a packed batch
        sizes, hx, params, has_biases, layers, _, _, bidirectional, *_ = args
        rows = int(sizes[0])
    else:
        hx, params, has_biases, layers, _, _, bidirectional, batch_first = args
        rows = 1 if input.dim() < 3 else input.shape[0 if batch_first else 1]
    steps_and_rows = prod(input.shape[:-1])
    state_needs = any(_needs(*(hx if isinstance(hx, (tuple, list)) else [hx])))
    matrices = [weight.shape for weight in params if weight.dim() == 2]
    of_a_direction = len(matrices) // (layers * (2 if bidirectional else 1))
    forward: list[Call] = []
    backward: list[Call] = []
    for i, (n, k) in enumerate(matrices):
        part, factors = i % of_a_direction, ((steps_and_rows, k), (k, n))
        biased = has_biases and part < 2
        forward.append(Call("addmm", ((n,), *factors)) if biased else Call("mm", factors))
        if part == 1 and out[0].requires_grad:
            counted = steps_and_rows - (0 if state_needs else rows)
            backward.append(Call("mm", ((counted, n), (n, k))))
    return forward, backward


hidden_gru = hidden_rnn_tanh = hidden_rnn_relu = hidden_lstm


def hidden_gru_cell(
    out: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:  # fmt: skip
    """The products of one step; all of its gradients are seen."""
    rows = prod(input.shape[:-1])
    factors = [
        ((rows, weight.shape[1]), (weight.shape[1], weight.shape[0])) for weight in (w_ih, w_hh)
    ]
    if b_ih is None:
        return [Call("mm", each) for each in factors], []
    return [Call("addmm", (b_ih.shape, *each)) for each in factors], []


hidden_lstm_cell = hidden_rnn_tanh_cell = hidden_rnn_relu_cell = hidden_gru_cell


def hidden_in(name: str) -> Hidden | None:
    """What a function hides, by its name."""
    found = (globals().get(f"hidden_{each}") for each in names_of(name) if each != "in")
    return next(filter(None, found), None)
