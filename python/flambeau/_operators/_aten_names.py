"""PyTorch's name for a call: which operator of `ops.aten` a function of this library stands for.

Programs that watch or steer operators (dispatch modes, policies of checkpoints) know them by these
names. An operator that this library computes under another name, or as a whole where PyTorch
takes several steps, is shown as the step that does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._ops import OpOverload

# Names of the library, and PyTorch's operator where it has another one.
_OTHER_NAMES = {
    "__neg__": "neg",
    "__pos__": "positive",
    "__abs__": "abs",
    "__invert__": "bitwise_not",
    "negative": "neg",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "layer_norm": "native_layer_norm",
    "batch_norm": "native_batch_norm",
    "group_norm": "native_group_norm",
    "reshape": "view",
    "flatten": "view",
    "unflatten": "view",
    "view_as": "view",
    "nll_loss": "nll_loss_forward",
    "item": "_local_scalar_dense",
    "norm": "linalg_vector_norm",
    "max_pool2d": "max_pool2d_with_indices",
    "pad": "constant_pad_nd",
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "convolution"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), "convolution"),
    **dict.fromkeys(("to", "type", "float", "double", "half", "bfloat16", "int"), "_to_copy"),
    **dict.fromkeys(("long", "short", "bool", "byte", "char"), "_to_copy"),
}

# Which overload a call is: by the operator's name, from its second argument.
_BY_TENSOR = {"eq", "ne", "lt", "le", "gt", "ge", "fill_"}
_BY_THIRD = {"masked_fill", "masked_fill_", "lerp", "lerp_"}
_TENSOR = {
    *("add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_", "split", "index", "slice"),
    *("remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide_"),
}
_FIXED = {
    "transpose": "int",
    "select": "int",
    "unbind": "int",
    "where": "self",
    "var": "correction",
}
_FIXED |= dict.fromkeys(("std", "var_mean", "std_mean"), "correction")
_FIXED |= {**dict.fromkeys(_TENSOR, "Tensor")}


class _Standing(OpOverload):
    """An operator of PyTorch that stands for a call of this library: it equals that operator, and
    computes what was called.
    """

    def __init__(self, operator: OpOverload, function: Callable[..., Any]) -> None:
        super().__init__(operator._packet, operator._overloadname)
        self._operator, self._function = operator, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self._operator or (
            isinstance(other, _Standing) and other._operator is self._operator
        )

    def __hash__(self) -> int:
        return hash(self._operator)


def operator_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload | None:
    """The operator that a call is to PyTorch; None for what is no operator, such as a shape."""
    if isinstance(func, OpOverload):
        return func
    name = getattr(func, "__name__", "").removeprefix("_nn_")
    found: str | None
    if name == "__getitem__":
        found = _of_subscript(args[1])
    elif name in ("matmul", "__matmul__", "linear", "scaled_dot_product_attention"):
        found = _of_product(name, args, kwargs)
    else:
        found = _plain_name(name)
    if found is None:
        return None
    operator = getattr(getattr(flambeau.ops.aten, found), _overload(found, args, kwargs))
    own = operator._packet._function
    return operator if getattr(own, "__name__", None) == name else _Standing(operator, func)


def _plain_name(name: str) -> str | None:
    known = _OTHER_NAMES.get(name)
    if known is not None or not name:
        return known
    if name.startswith("__") and name.endswith("__"):
        bare = name[2:-2]
        for candidate in (bare, bare.removeprefix("r"), bare.removeprefix("i") + "_"):
            if hasattr(Tensor, candidate) and callable(getattr(Tensor, candidate)):
                return candidate
        return None
    is_operator = hasattr(flambeau, name) or hasattr(Tensor, name)
    is_operator = is_operator or hasattr(flambeau.nn.functional, name)
    return name if is_operator and name not in _NOT_OPERATORS else None


# What only tells about a tensor, or leads somewhere else.
_NOT_OPERATORS = {
    *("size", "stride", "dim", "numel", "storage_offset", "is_contiguous", "data_ptr", "backward"),
    "const_data_ptr",
    *("requires_grad_", "register_hook", "retain_grad", "element_size", "get_device", "is_complex"),
    *("is_floating_point", "is_tensor", "as_subclass", "untyped_storage", "storage", "tolist"),
    *("numpy", "apply_", "map_", "ndimension", "nelement", "type_as", "share_memory_"),
}


def _of_subscript(key: Any) -> str:
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, (Tensor, list)) for part in keys):
        return "index"
    return "select" if any(isinstance(part, int) for part in keys) else "slice"


def _of_product(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    if name == "scaled_dot_product_attention":
        on_cpu = args[0].device.type == "cpu" if args else False
        return "_scaled_dot_product_flash_attention" + ("_for_cpu" if on_cpu else "")
    if name == "linear":
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        return "mm" if bias is None else "addmm"
    left, right = (value.dim() if isinstance(value, Tensor) else 0 for value in args[:2])
    known = {(1, 1): "dot", (2, 1): "mv", (1, 2): "mm"}.get((left, right))
    return known or ("mm" if right <= 2 else "bmm")


def _overload(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    second = args[1] if len(args) > 1 else None
    if kwargs.get("out") is not None:
        return "out"
    if name in _FIXED:
        return _FIXED[name]
    if name == "sort" and kwargs.get("stable") is not None:
        return "stable"
    if name in _BY_TENSOR or name in _BY_THIRD:
        value = args[2] if name in _BY_THIRD and len(args) > 2 else second
        return "Tensor" if isinstance(value, Tensor) else "Scalar"
    if name in ("pow", "pow_"):
        if not isinstance(args[0], Tensor):
            return "Scalar"
        return "Tensor_Tensor" if isinstance(second, Tensor) else "Tensor_Scalar"
    along = "dim" in kwargs or "axis" in kwargs or second is not None
    if name in ("sum", "mean") and along:
        return "dim_IntList" if name == "sum" else "dim"
    if name in ("max", "min", "squeeze", "any", "all", "prod") and along:
        return "other" if isinstance(second, Tensor) else "dim"
    return "default"
