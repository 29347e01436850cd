"""LSTM, GRU and RNN as one op of cuDNN, against the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


@pytest.fixture(autouse=True)
def exact_products() -> object:
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


LAYERS = {
    "lstm": lambda: nn.LSTM(7, 12),
    "lstm, two layers both ways": lambda: nn.LSTM(7, 12, 2, bidirectional=True),
    "lstm, no biases": lambda: nn.LSTM(7, 12, 2, bias=False),
    "lstm, projected": lambda: nn.LSTM(7, 12, 2, proj_size=5, bidirectional=True),
    "lstm, batch first": lambda: nn.LSTM(7, 12, 3, batch_first=True),
    "gru": lambda: nn.GRU(7, 12),
    "gru, three layers both ways": lambda: nn.GRU(7, 12, 3, bidirectional=True),
    "gru, no biases": lambda: nn.GRU(7, 12, bias=False),
    "rnn": lambda: nn.RNN(7, 12, 2),
    "rnn, relu both ways": lambda: nn.RNN(7, 12, nonlinearity="relu", bidirectional=True),
}


def states(outputs: Any) -> list[torch.Tensor]:
    output, state = outputs
    return [output, *(state if isinstance(state, tuple) else (state,))]


def ops_behind(tensor: torch.Tensor) -> set[str]:
    seen, todo = set(), [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [edge[0] for edge in node.next_functions]
    return {type(node).__name__ + node.name() for node in seen}


def train(model: Any, x: torch.Tensor, hx: Any, lengths: torch.Tensor | None) -> list[torch.Tensor]:
    x = x.detach().requires_grad_()
    hx = tuple(part.detach().requires_grad_() for part in hx)
    given = x if lengths is None else pack_padded_sequence(x, lengths, enforce_sorted=False)
    output, state = model(given, hx if isinstance(model, nn.LSTM) else hx[0])
    if lengths is not None:
        output = pad_packed_sequence(output)[0]
    results = states((output, state))
    loss = sum((r * torch.linspace(-1, 1, r.numel()).to(r).reshape(r.shape)).sum() for r in results)
    loss.backward()
    weights = [p.grad for p in model.parameters()]
    used = hx if isinstance(model, nn.LSTM) else hx[:1]
    return [*(r.detach() for r in results), x.grad, *(part.grad for part in used), *weights]


@pytest.mark.parametrize("packed", [False, True], ids=["equal", "packed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_it_is_that_of_the_cpu(name: str, dtype: torch.dtype, packed: bool) -> None:
    model = LAYERS[name]().to(dtype)
    if packed and model.batch_first:
        return
    batch = 6 if model.batch_first else 4
    cells = model.num_layers * (2 if model.bidirectional else 1)
    x = torch.randn(4 if model.batch_first else 6, batch, 7, dtype=dtype)
    batch = 4
    hx = [
        torch.randn(cells, batch, model.proj_size or 12, dtype=dtype),
        torch.randn(cells, batch, 12, dtype=dtype),
    ]
    lengths = torch.tensor([3, 6, 1, 4]) if packed else None
    device = copy.deepcopy(model).cuda()
    expected = train(model, x, hx, lengths)
    ours = train(device, x.cuda(), [part.cuda() for part in hx], lengths)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=tolerance, atol=tolerance)


def test_a_stack_is_one_op() -> None:
    output, _ = nn.GRU(8, 16, 3, bidirectional=True).cuda()(torch.randn(5, 2, 8).cuda())
    names = " ".join(ops_behind(output)).lower()
    assert "rnn" in names and "tanh" not in names and "mm" not in names


def test_halves_are_near_and_autocast_reaches_the_layers() -> None:
    model, x = nn.LSTM(32, 64, 2), torch.randn(9, 8, 32)
    exact = states(model(x))
    device = copy.deepcopy(model).cuda()
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype):
            output, state = device(x.cuda())
            again = device(output[:, :, :32])[0]  # of the low precision already
            assert again.dtype == dtype
        for a, b in zip(states((output, state)), exact, strict=True):
            assert a.dtype == dtype
            assert (a.float().cpu() - b).abs().max() < 3e-2
        output.float().square().mean().backward()
        assert all(p.grad.dtype == torch.float32 for p in device.parameters())
        device.zero_grad()


def test_backward_can_be_repeated_and_is_the_same() -> None:
    for dropout in (0.0, 0.5):
        model = nn.LSTM(8, 16, 3, dropout=dropout).cuda()
        x = torch.randn(6, 4, 8).cuda().requires_grad_()
        loss = model(x)[0].square().sum()
        first = torch.autograd.grad(loss, [x, *model.parameters()], retain_graph=True)
        second = torch.autograd.grad(loss, [x, *model.parameters()])
        for a, b in zip(first, second, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_it_can_be_differentiated_twice() -> None:
    def penalty(model: Any, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (g,) = torch.autograd.grad(model(x)[0].square().sum(), x, create_graph=True)
        g.square().sum().backward()
        return model.weight_hh_l0.grad

    model, x = nn.GRU(3, 4).double(), torch.randn(5, 2, 3).double()
    device = copy.deepcopy(model).cuda()
    torch.testing.assert_close(penalty(device, x.cuda()).cpu(), penalty(model, x))


def test_dropout_is_seeded_and_off_in_evaluation() -> None:
    model, x = nn.LSTM(8, 256, 2, dropout=0.5).cuda(), torch.randn(4, 8, 8).cuda()
    torch.manual_seed(5)
    first, again = model(x)[0], model(x)[0]
    torch.manual_seed(5)
    same = model(x)[0]
    assert torch.equal(first, same) and not torch.equal(first, again)
    with torch.no_grad():
        assert not torch.equal(model(x)[0], model(x)[0])
    model.eval()
    assert torch.equal(model(x)[0], model(x)[0])
    torch.testing.assert_close(
        model(x)[0].cpu(), copy.deepcopy(model).cpu()(x.cpu())[0], rtol=1e-4, atol=1e-4
    )


def test_a_second_copy_of_the_weights_is_not_kept_until_the_backward_pass() -> None:
    layer, x = nn.LSTM(512, 512, 2).cuda(), torch.randn(2, 1, 512, device="cuda")
    weights = sum(p.numel() * p.element_size() for p in layer.parameters())
    before = torch.cuda.memory_allocated()
    output, _ = layer(x)
    assert torch.cuda.memory_allocated() - before < weights / 4
    output.sum().backward()


def test_weights_written_to_before_the_backward_pass_are_noticed() -> None:
    layer, x = nn.LSTM(8, 8).cuda(), torch.randn(2, 1, 8, device="cuda")
    output, _ = layer(x)
    with torch.no_grad():
        layer.weight_hh_l0.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
