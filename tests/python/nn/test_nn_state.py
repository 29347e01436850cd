"""Saving modules into state_dict and loading them."""

from __future__ import annotations

import gc
from collections import OrderedDict
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn


class Net(nn.Module):
    _version = 3

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.register_buffer("kept", torch.ones(1))
        self.register_buffer("dropped", torch.ones(1), persistent=False)
        self.norm = nn.BatchNorm1d(2)


KEYS = [
    "kept", "a.weight", "a.bias", "norm.weight", "norm.bias", "norm.running_mean",
    "norm.running_var", "norm.num_batches_tracked",
]  # fmt: skip


def test_state_dict_has_names_and_versions() -> None:
    state = Net().state_dict()
    assert isinstance(state, OrderedDict)
    assert list(state) == KEYS
    assert dict(state._metadata) == {
        "": {"version": 3},
        "a": {"version": 1},
        "norm": {"version": 2},
    }
    assert next(iter(Net().state_dict(prefix="p."))) == "p.kept"
    assert not state["a.weight"].requires_grad
    assert Net().state_dict(keep_vars=True)["a.weight"].requires_grad


def test_state_dict_shares_memory_with_the_module() -> None:
    net = Net()
    net.state_dict()["a.weight"].zero_()
    assert net.a.weight.abs().sum() == 0


def test_loading_copies_into_the_module() -> None:
    source, target = Net(), Net()
    weight = target.a.weight
    result = target.load_state_dict(source.state_dict())
    assert repr(result) == "<All keys matched successfully>"
    assert target.a.weight is weight and torch.equal(weight, source.a.weight)


def test_loading_with_assign_takes_the_tensors_over() -> None:
    state = Net().state_dict()
    target = Net()
    target.a.weight.requires_grad_(False)
    target.load_state_dict(state, assign=True)
    assert target.a.weight.data_ptr() == state["a.weight"].data_ptr()
    assert isinstance(target.a.weight, nn.Parameter)
    assert not target.a.weight.requires_grad and target.a.bias.requires_grad


def test_strict_loading_lists_all_differences() -> None:
    state: dict[str, Any] = dict(Net().state_dict())
    del state["kept"]
    state["more.x"] = torch.ones(1)
    state["a.weight"] = torch.ones(3)
    state["a.bias"] = 5
    with pytest.raises(RuntimeError) as caught:
        Net().load_state_dict(state)
    lines = str(caught.value).split("\n\t")
    assert lines[0] == "Error(s) in loading state_dict for Net:"
    assert lines[1] == 'Missing key(s) in state_dict: "kept". '
    assert lines[2] == 'Unexpected key(s) in state_dict: "more.x". '
    assert lines[3].startswith("size mismatch for a.weight: copying a param with shape")
    assert lines[4].startswith('While copying the parameter named "a.bias"')


def test_loose_loading_returns_the_differences() -> None:
    state = dict(Net().state_dict())
    del state["kept"]
    state["more"] = torch.ones(1)
    missing, unexpected = Net().load_state_dict(state, strict=False)
    assert (missing, unexpected) == (["kept"], ["more"])
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        Net().load_state_dict(3)  # type: ignore[arg-type]


def test_extra_state_is_saved_and_loaded() -> None:
    class Extra(nn.Module):
        value = 1

        def get_extra_state(self) -> dict[str, int]:
            return {"value": self.value}

        def set_extra_state(self, state: dict[str, int]) -> None:
            self.value = state["value"]

    source, target = Extra(), Extra()
    source.value = 7
    assert list(source.state_dict()) == ["_extra_state"]
    target.load_state_dict(source.state_dict())
    assert target.value == 7
    with pytest.raises(RuntimeError, match=r'Missing key.*"_extra_state"'):
        target.load_state_dict({})


def test_state_dict_hooks() -> None:
    net, seen = Net(), []
    net.register_state_dict_pre_hook(lambda m, prefix, keep_vars: seen.append((prefix, keep_vars)))
    net.a.register_state_dict_post_hook(lambda m, s, prefix, meta: s.update({prefix + "more": 1}))
    state = net.state_dict()
    assert seen == [("", False)] and state["a.more"] == 1
    net.register_state_dict_post_hook(lambda m, s, prefix, meta: s)
    with pytest.raises(RuntimeError, match="must return None"):
        net.state_dict()


def test_load_state_dict_hooks() -> None:
    net, seen = Net(), []

    def rename(module: nn.Module, state: Any, prefix: str, *rest: Any) -> None:
        seen.append((type(module).__name__, prefix))
        state[prefix + "weight"] = state.pop(prefix + "old")

    net.a.register_load_state_dict_pre_hook(rename)
    net.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
    state = net.state_dict()
    state["a.old"] = torch.zeros(2, 2)
    del state["a.weight"], state["kept"]
    net.load_state_dict(state, strict=False)
    assert seen == [("Linear", "a.")] and net.a.weight.abs().sum() == 0


def test_old_batch_norm_checkpoints_lack_the_number_of_batches() -> None:
    norm = nn.BatchNorm1d(2)
    state = norm.state_dict()
    del state["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        norm.load_state_dict(state)
    state._metadata.clear()
    norm.load_state_dict(state)


def test_prefixes_can_be_stripped() -> None:
    state = nn.Sequential(nn.Linear(1, 1)).state_dict(prefix="module.")
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"]


def test_loading_an_uninitialized_state_leaves_a_lazy_module_uninitialized() -> None:
    module = nn.LazyLinear(3)
    module.load_state_dict(nn.LazyLinear(3).state_dict())
    assert module.has_uninitialized_params()
    assert module(torch.ones(2, 4)).shape == (2, 3)


def test_load_state_dict_leaves_no_reference_cycle() -> None:
    module = nn.LSTM(2, 2)
    state = module.state_dict()
    gc.collect()
    module.load_state_dict(state)
    assert gc.collect() == 0


def test_spectral_norm_refuses_a_lazy_module() -> None:
    with pytest.raises(ValueError, match="can't have uninitialized parameters"):
        nn.utils.spectral_norm(nn.LazyLinear(3))


class Loud(torch.Tensor):
    def module_load(self, other: torch.Tensor, assign: bool = False) -> torch.Tensor:
        return other.detach() if assign else self.detach().copy_(2 * other)


@pytest.mark.parametrize("assign", [False, True])
def test_parameters_stay_the_same_objects_where_loading_swaps(assign: bool) -> None:
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Loud))
    weight, bias = layer.weight, layer.bias
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.load_state_dict({"weight": torch.ones(2, 2), "bias": torch.ones(2)}, assign=assign)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert layer.weight is weight and layer.bias is bias and isinstance(weight, nn.Parameter)
    assert weight.tolist() == ([[1, 1], [1, 1]] if assign else [[2, 2], [2, 2]])
    assert weight.requires_grad and bias.tolist() == [1, 1]


def test_module_load_may_not_return_what_it_was_given() -> None:
    class Lazy(torch.Tensor):
        def module_load(self, other: torch.Tensor, assign: bool = False) -> torch.Tensor:
            return other

    layer = nn.Linear(2, 2, bias=False)
    layer.weight = nn.Parameter(layer.weight.detach().as_subclass(Lazy))
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with pytest.raises(RuntimeError, match="module_load returned one of self or other"):
            layer.load_state_dict({"weight": torch.ones(2, 2)})
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
