"""Exchanges among the processes of a group. In a group of one, what a process gets is what it gave:
sums, maxima and means of one tensor are that tensor, and gathering copies it.
"""

from __future__ import annotations

import copy

import flambeau
from flambeau import Tensor
from flambeau.distributed._group import (
    RedOpType,
    Work,
    _group_or_default,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _check_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor"
            f"\n             but got {type(value)} instead."
        )


def _check_list(values: Any, name: str) -> None:
    if not isinstance(values, list) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]"
            f"\n             but got {type(values)} with elements of type "
            f"{[type(v) for v in values] if isinstance(values, list) else None}."
        )


def _check_root(op: str, root: int | None, group_root: int | None = None) -> None:
    rank = root if root is not None else (group_root or 0)
    if rank != 0:
        raise RuntimeError(f"{op}: invalid root rank: {rank}, the group has one process")


def _check_op(op: Any) -> None:
    try:
        RedOpType(op)
    except ValueError:
        raise ValueError(
            f"Invalid reduction {op!r}, expected one of torch.distributed.ReduceOp"
        ) from None


def _one(op: str, values: Any, name: str) -> Any:
    if len(values) != 1:
        raise RuntimeError(
            f"{op}: invalid {name}: expected a list of 1 tensor, one for each process, got "
            f"{len(values)}"
        )
    return values[0]


def _write(op: str, target: Tensor, source: Tensor) -> None:
    if target.numel() != source.numel() or target.dtype != source.dtype:
        raise ValueError(
            f"{op}: the output is {tuple(target.shape)} of {target.dtype}, the input "
            f"{tuple(source.shape)} of {source.dtype}; both must have the same number of elements "
            "and the same dtype"
        )
    with flambeau.no_grad():
        target.copy_(source.reshape(target.shape))


def _done(async_op: bool) -> Work | None:
    return Work() if async_op else None


def all_reduce(
    tensor: Tensor, op: Any = RedOpType.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduces a tensor over all processes, in place."""
    _group_or_default(group)
    _check_tensor(tensor, "tensor")
    _check_op(op)
    return _done(async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = RedOpType.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduces a tensor over all processes; the process `dst` has the result."""
    _group_or_default(group)
    _check_tensor(tensor, "tensor")
    _check_op(op)
    _check_root("reduce", dst, group_dst)
    return _done(async_op)


def all_reduce_coalesced(
    tensors: list[Tensor], op: Any = RedOpType.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduces each tensor of a list over all processes, in place."""
    _group_or_default(group)
    _check_list(tensors, "tensors")
    _check_op(op)
    return _done(async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives the tensor of the process `src` to all."""
    _group_or_default(group)
    _check_tensor(tensor, "tensor")
    _check_root("broadcast", src, group_src)
    return _done(async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Puts the tensors of all processes into a list of tensors."""
    _group_or_default(group)
    _check_list(tensor_list, "tensor_list")
    _check_tensor(tensor, "tensor")
    _write("all_gather", _one("all_gather", tensor_list, "output tensor list"), tensor)
    return _done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Puts the tensors of all processes one after another into one tensor."""
    _group_or_default(group)
    _check_tensor(output_tensor, "output_tensor")
    _check_tensor(input_tensor, "input_tensor")
    _write("all_gather_into_tensor", output_tensor, input_tensor)
    return _done(async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Puts the tensors of all processes into a list of the process `dst`."""
    _group_or_default(group)
    _check_tensor(tensor, "tensor")
    _check_root("gather", dst, group_dst)
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    _check_list(gather_list, "gather_list")
    _write("gather", _one("gather", gather_list, "gather_list"), tensor)
    return _done(async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Gives each process one tensor out of a list of the process `src`."""
    _group_or_default(group)
    _check_tensor(tensor, "tensor")
    _check_root("scatter", src, group_src)
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    _check_list(scatter_list, "scatter_list")
    _write("scatter", tensor, _one("scatter", scatter_list, "scatter_list"))
    return _done(async_op)


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = RedOpType.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduces a list of tensors over all processes and gives each process one of the results."""
    _group_or_default(group)
    _check_tensor(output, "output")
    _check_list(input_list, "input_list")
    _check_op(op)
    _write("reduce_scatter", output, _one("reduce_scatter", input_list, "input_list"))
    return _done(async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = RedOpType.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduces a tensor over all processes and gives each process its part of the result."""
    _group_or_default(group)
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    _check_op(op)
    _write("reduce_scatter_tensor", output, input)
    return _done(async_op)


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Each process gives one tensor of its list to each other."""
    _group_or_default(group)
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    given = _one("all_to_all", input_tensor_list, "input_tensor_list")
    _write("all_to_all", _one("all_to_all", output_tensor_list, "output_tensor_list"), given)
    return _done(async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Each process gives one part of its tensor to each other."""
    _group_or_default(group)
    _check_tensor(output, "output")
    _check_tensor(input, "input")
    _write("all_to_all_single", output, input)
    return _done(async_op)


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: list[int] | None = None,
    timeout: Any = None,
) -> Work | None:
    """Waits for all processes."""
    _group_or_default(group)
    return _done(async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Waits for all processes, and tells which do not come."""
    _group_or_default(group)


# --- Objects --------------------------------------------------------------------------------------


def all_gather_object(
    object_list: list[Any], obj: Any, group: Any = None, weights_only: bool = False
) -> None:
    """Puts the objects of all processes into a list; each is a copy."""
    _group_or_default(group)
    object_list[0] = copy.deepcopy(obj)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
    weights_only: bool = False,
) -> None:
    """Puts the objects of all processes into a list of the process `dst`."""
    _group_or_default(group)
    _check_root("gather_object", dst, group_dst)
    if object_gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    object_gather_list[0] = copy.deepcopy(obj)


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """Gives the objects in a list of the process `src` to all."""
    _group_or_default(group)
    _check_root("broadcast_object_list", src, group_src)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
    weights_only: bool = False,
) -> None:
    """Gives each process one object out of a list of the process `src`."""
    _group_or_default(group)
    _check_root("scatter_object_list", src, group_src)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    scatter_object_output_list[0] = copy.deepcopy(
        _one("scatter_object_list", scatter_object_input_list or [], "input list")
    )


# --- From one process to another ------------------------------------------------------------------


def _no_other(
    tensor: Tensor, group: Any, peer: int | None, group_peer: int | None, word: str
) -> Any:
    _check_tensor(tensor, "tensor")
    _group_or_default(group)
    peer = group_peer if peer is None else peer
    if peer in (None, 0):
        raise ValueError(
            f"Invalid {word} rank: {word} rank should not be the same as the rank of the current "
            "process."
        )
    raise ValueError(f"Invalid {word} rank {peer}: the group has one process")


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends a tensor to another process; there is none, so it raises."""
    _no_other(tensor, group, dst, group_dst, "destination")


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives a tensor from another process; there is none, so it raises."""
    return _no_other(tensor, group, src, group_src, "source")


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work:
    """Like `send`, without waiting."""
    return _no_other(tensor, group, dst, group_dst, "destination")


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work:
    """Like `recv`, without waiting."""
    return _no_other(tensor, group, src, group_src, "source")
