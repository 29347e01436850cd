"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import flambeau as torch
from flambeau import nn


def names(container: nn.Module) -> list[str]:
    return [type(module).__name__ for module in container.children()]


def test_sequential_calls_one_after_another() -> None:
    net = nn.Sequential(OrderedDict(twice=nn.Linear(1, 1, bias=False), relu=nn.ReLU()))
    nn.init.constant_(net.twice.weight, 2)
    assert net(torch.tensor([[3.0], [-1.0]])).tolist() == [[6], [0]]
    assert list(net._modules) == ["twice", "relu"]


def test_sequential_is_a_sequence() -> None:
    net = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.GELU())
    assert len(net) == 3 and isinstance(net[-1], nn.GELU)
    assert names(net[1:]) == ["Tanh", "GELU"] and type(net[1:]) is nn.Sequential
    net[0] = nn.Sigmoid()
    net.append(nn.ReLU6()).insert(1, nn.SiLU())
    assert names(net) == ["Sigmoid", "SiLU", "Tanh", "GELU", "ReLU6"]
    assert isinstance(net.pop(1), nn.SiLU)
    del net[0]
    assert names(net) == ["Tanh", "GELU", "ReLU6"] and list(net._modules) == ["0", "1", "2"]
    del net[1:]
    assert names(net) == ["Tanh"]
    net.extend([nn.ReLU()])
    assert [type(m).__name__ for m in net * 2] == ["Tanh", "ReLU", "Tanh", "ReLU"]
    assert len(2 * net) == 4 and len(net + net) == 4
    net += nn.Sequential(nn.SELU())
    net *= 2
    assert len(net) == 6


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda n: n[3], IndexError),
        (lambda n: n.insert(9, nn.ReLU()), IndexError),
        (lambda n: n.insert(0, 3), AssertionError),
        (lambda n: n + 3, ValueError),
        (lambda n: n * 0, ValueError),
        (lambda n: n * 1.5, TypeError),
        (lambda n: n.append(3), TypeError),
    ],
)
def test_sequential_refuses_what_makes_no_sense(act, error) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error):
        act(nn.Sequential(nn.ReLU()))


def test_module_list_is_a_list() -> None:
    modules = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    modules.insert(0, nn.GELU())
    modules += [nn.SiLU()]
    modules[1] = nn.Sigmoid()
    assert [type(m).__name__ for m in modules] == ["GELU", "Sigmoid", "Tanh", "SiLU"]
    assert len(modules[::2]) == 2 and type(modules[::2]) is nn.ModuleList
    assert len(modules + [nn.ReLU()]) == 5
    del modules[0]
    assert isinstance(modules.pop(-1), nn.SiLU)
    assert list(modules._modules) == ["0", "1"]
    with pytest.raises(NotImplementedError):
        modules(1)
    with pytest.raises(TypeError, match="should be called with an iterable"):
        nn.ModuleList(3)  # type: ignore[arg-type]


def test_equal_neighbours_in_a_module_list_share_a_line() -> None:
    modules = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])
    assert repr(modules) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    assert repr(nn.ModuleList()) == "ModuleList()"


def test_module_dict_is_a_dictionary() -> None:
    modules = nn.ModuleDict([("b", nn.ReLU()), ("a", nn.Tanh())])
    modules["c"] = nn.GELU()
    assert list(modules) == list(modules.keys()) == ["b", "a", "c"]
    assert "a" in modules and isinstance(modules.pop("a"), nn.Tanh)
    modules.update({"z": nn.ReLU()})
    assert [key for key, _ in modules.items()] == ["b", "c", "z"] and len(modules.values()) == 3
    del modules["z"]
    modules.clear()
    assert len(modules) == 0
    with pytest.raises(ValueError, match="has length 3; 2 is required"):
        nn.ModuleDict([(1, 2, 3)])  # type: ignore[arg-type]


def test_parameter_list_makes_parameters_of_tensors() -> None:
    params = nn.ParameterList([torch.ones(1), nn.Parameter(torch.ones(2))])
    params.append(torch.zeros(3))
    params += ["kept as it is"]
    assert [name for name, _ in params.named_parameters()] == ["0", "1", "2"]
    assert params[0].requires_grad and params[-1] == "kept as it is" and len(params) == 4
    assert len(params[1:3]) == 2
    assert repr(params).splitlines()[1:3] == [
        "    (0): Parameter containing: [torch.float32 of size 1]",
        "    (1): Parameter containing: [torch.float32 of size 2]",
    ]
    with pytest.raises(RuntimeError, match="should not be called"):
        params()
    with pytest.raises(IndexError):
        params[9]


def test_parameter_dict_is_a_dictionary() -> None:
    params = nn.ParameterDict({"b": torch.ones(1), "a": nn.Parameter(torch.ones(2))})
    assert list(params) == ["a", "b"]
    params["c"] = torch.ones(3)
    assert [name for name, _ in params.named_parameters()] == ["a", "b", "c"]
    assert params.get("x", 4) == 4 and "a" in params
    assert params.pop("b").tolist() == [1] and params.popitem()[0] == "c"
    params.setdefault("n", torch.ones(2))
    merged = params | nn.ParameterDict({"z": torch.ones(1)})
    assert list(merged) == ["a", "n", "z"] and list(reversed(merged)) == ["z", "n", "a"]
    assert list(params.fromkeys(["u"], torch.ones(1))) == ["u"]
    merged.clear()
    assert len(merged) == 0 and len(params) == 2
    with pytest.raises(TypeError, match="not a string"):
        params[1] = torch.ones(1)  # type: ignore[index]


def test_a_list_of_parameters_does_not_mention_the_meta_device() -> None:
    text = str(nn.ParameterList([torch.ones(1, device="meta")]))
    assert text == "ParameterList(  (0): Parameter containing: [torch.float32 of size 1])"


def test_parameters_that_become_sparse_are_new_ones() -> None:
    layer = nn.Linear(2, 2)
    weight = layer.weight
    weight.grad = torch.ones(2, 2)
    layer._apply(lambda tensor: tensor.detach().reshape(-1, 1).to_sparse())
    assert isinstance(layer.weight, nn.Parameter) and layer.weight is not weight
    assert layer.weight.is_sparse and layer.weight.grad.is_sparse
