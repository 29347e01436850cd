"""Selective checkpoints: a policy says which operators' results are kept, so that computing a
checkpointed function again does not compute those once more.

While the function runs for the first time, the results that the policy keeps are put aside, with a
note of which arguments or results each tensor is that the operator saves for backward. When it runs
again, such an operator is not computed: its results are taken from there, and what it had saved is
handed over from the arguments at hand. An operator that saves anything else is computed again.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._operators._kinds import kind_named
from flambeau._ops import OpOverload
from flambeau.autograd.forward_ad import _Begin
from flambeau.utils._checkpoint_saving import noting_saved, record_saved
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_leaves, tree_map_only

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

_aten = flambeau.ops.aten
SAC_IGNORED_OPS = {
    _aten.detach.default,
    _aten.is_contiguous.default,
    _aten.is_contiguous.memory_format,
    _aten.is_non_overlapping_and_dense.default,
    _aten.numel.default,
    _aten.size.default,
    _aten.stride.default,
    _aten.storage_offset.default,
    _aten.dim.default,
}


class CheckpointPolicy(enum.Enum):
    """What a policy says about the results of an operator. What it prefers is done."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_RECOMPUTED = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)
_OFFLOADED = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """What a policy is told besides the operator: its results. It is asked in the first run only,
    so `is_recompute` is False.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


# Where a tensor that an operator saved comes from: the results or the arguments, which one of
# them, and, if it is a view of that, its sizes, strides and offset.
_Source = tuple[str, int, tuple[Any, Any, int] | None]


def _source_of(saved: Tensor, arguments: list[Tensor], outputs: list[Tensor]) -> _Source | None:
    for where, tensors in (("argument", arguments), ("output", outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is saved:
                return where, index, None
    for where, tensors in (("output", outputs), ("argument", arguments)):
        for index, tensor in enumerate(tensors):
            if tensor.dtype == saved.dtype and _memory(tensor) == _memory(saved):
                return where, index, (saved.shape, saved.stride(), saved.storage_offset())
    return None


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class _Kept:
    """The results of one operator, and what it saved for backward."""

    def __init__(self, output: Any, sources: list[_Source], policy: CheckpointPolicy) -> None:
        self.sources = sources
        self.wants_gradient = [tensor.requires_grad for tensor in _tensors(output)]
        self.devices = [tensor.device for tensor in _tensors(output)]
        offloads = policy in _OFFLOADED
        self.output = tree_map_only(
            Tensor, lambda tensor: tensor.detach().cpu() if offloads else tensor.detach(), output
        )
        self.versions = [tensor._version for tensor in _tensors(self.output)]

    def replay(self, arguments: list[Tensor], may_change: bool) -> Any:
        """The results, after what the operator saved has been handed to the checkpoint."""
        if not may_change and [t._version for t in _tensors(self.output)] != self.versions:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated"
            )
        facts = iter(zip(self.wants_gradient, self.devices))

        def as_it_was(tensor: Tensor) -> Tensor:
            wants_gradient, device = next(facts)
            tensor = tensor.to(device).detach().requires_grad_(wants_gradient)
            return _Begin.apply(tensor)  # no leaf: what follows may write into it

        output = tree_map_only(Tensor, as_it_was, self.output)
        for where, index, view in self.sources:
            tensor = (arguments if where == "argument" else _tensors(output))[index]
            record_saved(tensor if view is None else tensor.as_strided(*view))
        return output


def _is_repeatable(operator: OpOverload, args: Any, kwargs: Any) -> bool:
    """Whether skipping the operator leaves everything else as it was: it writes nothing, and draws
    no random numbers.
    """
    name = operator.overloadpacket.__name__
    draws = kind_named(name).has("draws")
    drops = "dot_product" in name and (kwargs.get("dropout_p") or (len(args) > 4 and args[4]))
    return not (name.endswith("_") or "out" in kwargs or draws or drops)


# The results of each operator in the order of its calls; None for one that is computed again.
_Store = dict[Any, deque[Any]]


class _Operators(TorchDispatchMode):
    """Sees every operator, inside of functions too."""

    def __init__(self, policy: Callable[..., Any], kept: _Store, may_change: bool) -> None:
        super().__init__()
        self.policy, self.kept, self.may_change = policy, kept, may_change

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs or {})
        return self.run(func, args, kwargs or {})

    def run(self, operator: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class _FirstRun(_Operators):
    """Asks the policy, and puts aside what it keeps."""

    def run(self, operator: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        with noting_saved() as saved:
            output = operator(*args, **kwargs)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=output)
        policy = self.policy(context, operator, *args, **kwargs)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        entry = None
        if policy not in _RECOMPUTED and _is_repeatable(operator, args, kwargs):
            entry = self._kept(output, saved, _tensors((args, kwargs)), policy)
        self.kept.setdefault(operator, deque()).append(entry)
        return output

    @staticmethod
    def _kept(
        output: Any, saved: list[Tensor], arguments: list[Tensor], policy: CheckpointPolicy
    ) -> _Kept | None:
        outputs = _tensors(output)
        memory = {_memory(tensor) for tensor in arguments}
        if any(_memory(tensor) in memory for tensor in outputs):
            return None  # a view costs nothing
        sources = [_source_of(tensor, arguments, outputs) for tensor in saved]
        known = [source for source in sources if source is not None]
        return _Kept(output, known, policy) if len(known) == len(sources) else None


class _LaterRun(_Operators):
    """Takes what was put aside, and computes the rest again."""

    def run(self, operator: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        waiting = self.kept.get(operator)
        if waiting is None:
            raise RuntimeError(f"{operator} encountered during backward, but not found in storage")
        if not waiting:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any "
                "region computed under selective activation checkpoint."
            )
        entry = waiting.popleft()
        if entry is None:
            return operator(*args, **kwargs)
        return entry.replay(_tensors((args, kwargs)), self.may_change)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | list[OpOverload],
    allow_cache_entry_mutation: bool = False,
) -> tuple[Any, Any]:
    """The two contexts of a selective checkpoint, for the `context_fn` of `checkpoint`.

    Args:
        policy_fn_or_list: the operators whose results are kept, or a function of a
            SelectiveCheckpointContext, an operator and its arguments that gives a CheckpointPolicy.
        allow_cache_entry_mutation: whether results that are kept may be written into; otherwise
            that is an error.
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type "
                    f"{type(op)}. Please update the OpOverloadPacket to a specific OpOverload. For "
                    "example, if you have `torch.ops.aten.mm`, change it to "
                    "`torch.ops.aten.mm.default`."
                )
        chosen = set(policy_fn_or_list)

        def policy_fn(context: Any, op: OpOverload, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            kept = op in chosen
            return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    elif callable(policy_fn_or_list):
        policy_fn = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: _Store = {}
    return (
        _FirstRun(policy_fn, kept, allow_cache_entry_mutation),
        _LaterRun(policy_fn, kept, allow_cache_entry_mutation),
    )
