"""Counts floating-point operations of a program: `with FlopCounterMode() as counter: ...`.

Products and convolutions count, by the modules that ask for them; everything else is small beside
them. What backward will compute is counted when it computes it: a hook on the node of a product
adds one product for each factor that wants a gradient.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from math import prod
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_map_only

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

_ATTENTION = ("_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu")

# Formulas of the program's own: by operator, a function of the shapes of its arguments.
flop_registry: dict[Any, Any] = {}


def _formula(formula: Any, get_raw: bool) -> Any:
    """The formula as a function of the arguments themselves."""
    if get_raw:
        return formula

    def of_shapes(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out = tree_map_only(Tensor, lambda t: t.shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out, **kwargs)

    return of_shapes


def register_flop_formula(targets: Any, get_raw: bool = False) -> Any:
    """Decorates a formula for some operators: a function of the shapes of their arguments and, by
    keyword, `out_shape`; with `get_raw` of the arguments themselves and `out_val`.
    """

    def register(formula: Any) -> Any:
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = _formula(formula, get_raw)
        return formula

    return register


class _Count:
    """What one call costs: itself, and, under another name, what backward will compute for it."""

    def __init__(self, flops: int, backward: str = "", backward_flops: float = 0) -> None:
        self.flops, self.backward, self.backward_flops = flops, backward, backward_flops


def _wanted(*tensors: Any) -> int:
    return sum(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in tensors)


def _of_product(called: str, args: tuple[Any, ...], out: Tensor, backward: str) -> _Count:
    left, right = args[1:3] if called in ("addmm", "baddbmm") else args[:2]
    flops = 2 * out.numel() * left.shape[-1]
    return _Count(flops, backward, flops * _wanted(left, right))


def _of_convolution(called: str, args: tuple[Any, ...], out: Tensor) -> _Count:
    input, weight = args[:2]
    places = input if "transpose" in called else out
    flops = 2 * places.numel() * prod(weight.shape[1:])
    return _Count(flops, "convolution_backward", flops * _wanted(input, weight))


def _of_attention(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Count:
    query, key, value = (*args, *kwargs.values())[:3]
    pairs = prod(query.shape[:-1]) * key.shape[-2]
    flops = 2 * pairs * (query.shape[-1] + value.shape[-1])
    wants = _wanted(query, key, value) > 0
    return _Count(flops, f"{name}_backward", 2.5 * flops if wants else 0)


def _of_sum(args: tuple[Any, ...]) -> _Count:
    """An einsum of two tensors is a product."""
    equation, *tensors = args
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = list(tensors[0])
    if len(tensors) != 2 or not isinstance(equation, str) or "." in equation:
        return _Count(0)
    letters = equation.replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for names, tensor in zip(letters, tensors):
        sizes.update(zip(names, tensor.shape))
    flops = 2 * prod(sizes.values())
    return _Count(flops, "bmm", flops * _wanted(*tensors))


def _count(name: str, called: str, args: Any, kwargs: dict[str, Any], out: Any) -> _Count:
    if called == "einsum":
        return _of_sum(args)
    if name in ("mm", "addmm", "bmm", "baddbmm"):
        return _of_product(called, args, out, "bmm" if "bmm" in name else "mm")
    if name == "convolution":
        return _of_convolution(called, args, out)
    if name in _ATTENTION:
        return _of_attention(name, args, kwargs)
    return _Count(0)


class _Counting(TorchDispatchMode):
    """Shows every operator to a counter."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        self.counter._see(func, args, kwargs or {}, out)
        return out


class FlopCounterMode:
    """Counts the floating-point operations of what runs inside of it.

    Args:
        mods: ignored; modules are found by themselves.
        depth: how deep the table goes into modules; None for all of them.
        display: whether the table is printed at the end.
        custom_mapping: formulas for further operators; see register_flop_formula.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.depth, self.display = depth, display
        own = {
            op: _formula(f, getattr(f, "_get_raw", False))
            for op, f in (custom_mapping or {}).items()
        }
        self._own_formulas = own
        self.flop_counts: dict[str, dict[Any, int]] = {}
        self._names: dict[int, str] = {}
        self._inside: list[str] = []
        self._hooks: list[Any] = []

    # Where the program is
    def _enter_module(self, module: Any, *args: Any) -> None:
        if not self._inside or id(module) not in self._names:
            kind = type(module).__name__
            for name, part in module.named_modules():
                self._names[id(part)] = f"{kind}.{name}" if name else kind
        self._inside.append(self._names[id(module)])

    def _leave_module(self, *args: Any) -> None:
        if self._inside:
            self._inside.pop()

    # What it computes
    def _add(self, operator: Any, flops: float, modules: tuple[str, ...]) -> None:
        for name in {"Global", *modules}:
            self.flop_counts.setdefault(name, defaultdict(int))[operator] += int(flops)

    def _see(self, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> None:
        packet, modules = func.overloadpacket, tuple(self._inside)
        formula = self._own_formulas.get(packet) or flop_registry.get(packet)
        if formula is not None:
            self._add(packet, formula(*args, **kwargs, out_val=out), modules)
            return
        called = getattr(getattr(func, "_function", None), "__name__", packet.__name__)
        count = _count(packet.__name__, called, args, kwargs, out)
        aten = flambeau.ops.aten
        if count.flops:
            self._add(aten.bmm if called == "einsum" else packet, count.flops, modules)
        if count.backward_flops and isinstance(out, Tensor) and out.grad_fn is not None:

            def when_it_runs(gradients: Any) -> None:
                if self._hooks:  # inside of the mode
                    self._add(getattr(aten, count.backward), count.backward_flops, modules)

            out.grad_fn.register_prehook(when_it_runs)

    # What it found
    def get_total_flops(self) -> int:
        """The sum over everything."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By the name of each module, the counts by operator; all together under "Global"."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = [("Module", "FLOP", "% Total")]
        for name in sorted(self.flop_counts, key=lambda name: (name != "Global", name)):
            level = 0 if name == "Global" else name.count(".") + 1
            if depth is not None and level > depth:
                continue
            counts = self.flop_counts[name]
            rows.append(_row(" " * level + name, sum(counts.values()), total))
            for operator, flops in counts.items():
                rows.append(_row(f"{' ' * level} - {operator}", flops, total))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._inside.clear()
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._mode = _Counting(self)
        self._mode.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._mode.__exit__(*exception)
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self.display:
            print(self.get_table())


def _row(name: str, flops: int, total: int) -> tuple[str, str, str]:
    for unit, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if flops >= unit:
            return name, f"{flops / unit:.3f}{letter}", f"{100 * flops / total:.2f}%"
    return name, str(flops), f"{100 * flops / total:.2f}%"
