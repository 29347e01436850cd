"""Counts the floating-point operations of matrix products, convolutions and attention, forward and
backward, by module and by op.

A mode sees every operator, those of backward passes too, and counts those that have a formula.
What a few functions hide below one operator, `_flop_calls.py` tells as calls of such operators;
what they do in a backward pass is counted when it reaches the function's node.
"""

from __future__ import annotations

import bisect
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import flambeau
from flambeau import _C
from flambeau.overrides import TorchFunctionMode
from flambeau.utils import _flop_calls
from flambeau.utils._flop_calls import Call
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_map
from flambeau.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

# The formula of each op: from the shapes of its arguments, and `out_shape`, to a number.
flop_registry: dict[Any, Callable[..., int]] = {}


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, flambeau.Tensor) else value


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[..., Any]:
    """Decorates the formula of one op or several, such as `torch.ops.aten.mm`.

    Args:
        targets: the op, or a list of them.
        get_raw: whether the formula takes the arguments themselves and `out_val`; otherwise it
            takes shapes in their place, and `out_shape`.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        found = formula if get_raw else _of_shapes(formula)
        for target in targets if isinstance(targets, Iterable) else [targets]:
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = found
        return formula

    return register


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    def raw(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out = tree_map(_shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out, **kwargs)

    return raw


aten: Any = flambeau.ops.aten


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Operations of (m, k) @ (k, n)."""
    m, k = a_shape
    return 2 * m * k * b_shape[1]


@register_flop_formula(aten.addmm)
def addmm_flop(
    self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Operations of a product to which something is added; the additions do not count."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Operations of (b, m, k) @ (b, k, n)."""
    b, m, k = a_shape
    return 2 * b * m * k * b_shape[-1]


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(
    self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Operations of a batch of products to which something is added."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """Operations of a convolution: each place of the output, or of a transposed one's input, takes
    the whole filter."""
    positions = 1
    for size in (x_shape if transposed else out_shape)[2:]:
        positions *= size
    taps = 2
    for size in w_shape:
        taps *= size
    return x_shape[0] * positions * taps


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(
    x_shape: Any, w_shape: Any, _bias: Any = None, _stride: Any = 1, _padding: Any = 0,
    _dilation: Any = 1, transposed: bool = False, *args: Any, out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Operations of a convolution."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Any, x_shape: Any, w_shape: Any, _bias: Any, _stride: Any, _padding: Any,
    _dilation: Any, transposed: bool, _output_padding: Any, groups: int, output_mask: Any,
    out_shape: Any = None,
) -> int:  # fmt: skip
    """Operations of a convolution's gradients. The gradient of the weight counts, as PyTorch
    counts it, as if every group were convolved with every other."""
    once = conv_flop_count(x_shape, w_shape, grad_out_shape, transposed)
    return once * (bool(output_mask[0]) + groups * bool(output_mask[1]))


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Operations of attention: the scores, and the sums of values."""
    *batch, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    heads = 1
    for size in batch:
        heads *= size
    return 2 * heads * s_q * s_k * (d_q + d_v)


_FUSED = (
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)


@register_flop_formula([getattr(aten, name) for name in _FUSED])
def sdpa_flop(
    query_shape: Any, key_shape: Any, value_shape: Any, *args: Any, out_shape: Any = None,
    **kwargs: Any,
) -> int:  # fmt: skip
    """Operations of attention in one op."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


@register_flop_formula([getattr(aten, f"{name}_backward") for name in _FUSED])
def sdpa_backward_flop(
    grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any, *args: Any,
    out_shape: Any = None, **kwargs: Any,
) -> int:  # fmt: skip
    """Operations of attention's gradients: the scores again, and four products."""
    *batch, s_q, d_q = query_shape
    s_k, d_v = key_shape[-2], value_shape[-1]
    heads = 1
    for size in batch:
        heads *= size
    return 2 * heads * s_q * s_k * (3 * d_q + 2 * d_v)


class _Operators(TorchDispatchMode):
    """Shows every operator to the counter."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.counter._saw(func.overloadpacket, args, kwargs, out)
        return out


class _Functions(TorchFunctionMode):
    """Shows the counter the functions that hide products from it."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        hidden = _flop_calls.hidden_in(getattr(func, "__name__", ""))
        body = getattr(func, "__wrapped__", None)
        if hidden is None and body is not None:
            with self:  # a function in Python: what it calls may hide some
                return body(*args, **kwargs)
        out = func(*args, **kwargs)
        if hidden is not None:
            self.counter._saw_hidden(*hidden(out, *args, **kwargs), out)
        return out


class FlopCounterMode:
    """A context that counts the operations of what runs inside it, backward passes included.

    Args:
        mods: not needed any more: all modules are followed.
        depth: down to which level of modules the table goes.
        display: whether to print the table at the end.
        custom_mapping: formulas of further ops, or other ones; a formula with an attribute
            `_get_raw` that is true takes the arguments and `out_val` in place of shapes.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Callable[..., int]] | None = None,
    ) -> None:
        if mods is not None:
            import warnings

            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.depth = depth
        self.display = display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        own = {
            op: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
            for op, formula in (custom_mapping or {}).items()
        }
        self.flop_registry = {**flop_registry, **own}
        self.mod_tracker = ModuleTracker()
        self._modes: contextlib.ExitStack | None = None
        # From which node on the modules were others, and which: nodes are numbered in order.
        self._starts: list[int] = []
        self._parents: list[frozenset[str]] = []

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._modes = contextlib.ExitStack()
        self._modes.enter_context(_Functions(self))
        self._modes.enter_context(_Operators(self))
        return self

    def __exit__(self, *args: Any) -> None:
        assert self._modes is not None
        self._modes.close()
        self._modes = None
        self.mod_tracker.__exit__(*args)
        if self.display:
            print(self.get_table(self.depth))

    def _saw(self, op: Any, args: Any, kwargs: Any, out: Any) -> None:
        parents = self._modules()
        if op in self.flop_registry:
            self._add(parents, op, self.flop_registry[op](*args, **kwargs, out_val=out))

    def _modules(self) -> frozenset[str]:
        """The modules that run; in a backward pass those whose gradient is computed too."""
        parents = frozenset(self.mod_tracker.parents)
        if (node := _C._current_autograd_node()) is not None:
            at = bisect.bisect_right(self._starts, node._sequence_nr()) - 1
            parents |= self._parents[at] if at >= 0 else frozenset()
        if not self._parents or self._parents[-1] != parents:
            self._starts.append(_C._get_sequence_nr())
            self._parents.append(parents)
        return parents

    def _saw_hidden(self, forward: list[Call], backward: list[Call], out: Any) -> None:
        parents = self._modules()
        self._count(parents, forward)
        first = out[0] if isinstance(out, tuple) else out
        if backward and first.grad_fn is not None:
            first.grad_fn.register_prehook(lambda grads: self._count(parents, backward))

    def _count(self, parents: Iterable[str], calls: list[Call]) -> None:
        if self._modes is None:
            return  # a backward pass after the context
        for call in calls:
            op = getattr(aten, call.op)
            self._add(parents, op, self.flop_registry[op](*call.args, out_val=call.out))

    def _add(self, parents: Iterable[str], op: Any, count: int) -> None:
        for parent in parents:
            self.flop_counts[parent][op] += count

    def get_total_flops(self) -> int:
        """All operations counted."""
        return sum(self.flop_counts["Global"].values()) if self.flop_counts else 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """For each module, "Global" for everything, the operations of each op."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a table, modules down to a depth."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        names = sorted(n for n in self.flop_counts if n != "Global" and n.count(".") + 1 <= depth)
        # A line of its own for everything says nothing new if there is one module at the top.
        tops = [n for n in names if "." not in n]
        if len(tops) != 1 or sum(self.flop_counts[tops[0]].values()) != total:
            names = ["Global", *names]
        suffix = next((i for i in (3, 2, 1) if total >= 1000**i * 10), 0)
        rows = [("Module", "FLOP", "% Total")]
        for name in names:
            counts = self.flop_counts[name]
            rows.append(_row(name, sum(counts.values()), total, suffix))
            rows += [_row(f"- {op}", n, total, suffix) for op, n in counts.items()]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        widths[1:] = max(widths[1], 6), max(widths[2], 9)  # space left of the titles of numbers
        rows.insert(1, ("-" * widths[0], "-" * widths[1], "-" * widths[2]))
        lines = (f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows)
        return "\n".join(lines)


def _row(name: str, count: int, total: int, suffix: int) -> tuple[str, str, str]:
    unit = ("", "K", "M", "B")[suffix]
    number = f"{count / 1000**suffix:.3f}{unit}" if suffix else str(count)
    return name, number, f"{count / total:.2%}" if total else "0%"
