"""Touches everything once, in a second or two and with no dependency: run it under a sanitizer.

python tests/smoke.py
"""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import flambeau as torch


def close(x: torch.Tensor, values: list[float]) -> bool:
    return all(abs(a - b) < 1e-4 for a, b in zip(x.flatten().tolist(), values, strict=True))


def tensors() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    assert x.shape == torch.Size([3, 4]) and x.stride() == (4, 1) and x.dtype == torch.float32
    assert x.t()[1:, ::2].tolist() == [[1.0, 9.0], [2.0, 10.0], [3.0, 11.0]]
    assert (x + torch.ones(4, dtype=torch.int64)).dtype == torch.float32
    assert torch.tensor([1, 2]).div(2).tolist() == [0.5, 1.0]
    for dtype in (torch.bool, torch.uint8, torch.int16, torch.float16, torch.bfloat16,
                  torch.float64, torch.complex64):  # fmt: skip
        assert x.to(dtype).to(torch.complex128).real.to(dtype).dtype == dtype
    assert "tensor([[" in repr(x) and repr(torch.zeros(0)) == "tensor([])"
    assert torch.equal(pickle.loads(pickle.dumps(x.t())), x.t())
    assert torch.equal(copy.deepcopy(x), x) and torch.from_dlpack(x).data_ptr() == x.data_ptr()
    assert torch.zeros(2, 3, device="meta").sum(0).shape == (3,)
    assert torch.frombuffer(bytearray(b"\x01\x02"), dtype=torch.uint8).tolist() == [1, 2]


def indexing() -> None:
    x = torch.arange(12).reshape(3, 4).clone()
    assert x[1, None, ..., -1].tolist() == [7]
    assert x[[0, 2]][:, torch.tensor([True, False, True, False])].tolist() == [[0, 2], [8, 10]]
    x[x > 9] = -1
    x[1:, [0, 1]] += 100
    assert x.tolist() == [[0, 1, 2, 3], [104, 105, 6, 7], [108, 109, -1, -1]]
    assert x.gather(1, torch.tensor([[3], [0], [1]])).flatten().tolist() == [3, 104, 109]
    assert torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.ones(3)).tolist() == [
        2,
        0,
        1,
    ]
    assert x.index_select(0, torch.tensor([2]))[0, 0].item() == 108
    assert x.masked_fill(x < 0, 5).min().item() == 0


def arithmetic() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert close(x @ x, [7, 10, 15, 22]) and close(torch.einsum("ij,kj->ik", x, x), [5, 11, 11, 25])
    assert close(x.softmax(1), [0.26894, 0.73106] * 2) and close(x.std(0), [1.41421, 1.41421])
    assert x.max(1).indices.tolist() == [1, 1] and x.argmin().item() == 0
    assert torch.cat([x, x], 1).shape == (2, 4) and torch.stack([x, x]).shape == (2, 2, 2)
    assert torch.sort(torch.tensor([3, 1, 2]), descending=True).values.tolist() == [3, 2, 1]
    assert torch.topk(torch.tensor([3, 1, 2]), 2)[1].tolist() == [0, 2]
    assert close(x.cumsum(0), [1, 2, 4, 6]) and close(torch.where(x > 2, x, -x), [-1, -2, 3, 4])
    assert close(torch.exp(x.log()).clamp(1.5, 3.5), [1.5, 2, 3, 3.5])
    assert (torch.tensor([-(2**63)]) // -1).shape == (1,)


def randomness() -> None:
    torch.manual_seed(0)
    first = [torch.rand(3), torch.randn(20), torch.randint(0, 9, (4,)), torch.randperm(5)]
    torch.manual_seed(0)
    again = [torch.rand(3), torch.randn(20), torch.randint(0, 9, (4,)), torch.randperm(5)]
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert set(torch.dropout(torch.ones(100), 0.5, True).tolist()) == {0.0, 2.0}


def gradients() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).clone()
    y[0] = 5.0
    y[1:].mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 8.0, 12.0]
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert close(second, [6, 12, 18])

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, value: torch.Tensor) -> torch.Tensor:
            return value * 2

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    seen: list[torch.Tensor] = []
    x.register_hook(seen.append)
    Double.apply(x).sum().backward()
    assert seen[0].tolist() == [2.0, 2.0, 2.0]
    with torch.no_grad():
        assert not (x * 2).requires_grad
    for bad in (lambda: x.add_(1), lambda: y.sum().backward(), lambda: torch.ones(2).backward(),
                lambda: torch.zeros(2, 3) @ torch.zeros(2), lambda: x[5]):  # fmt: skip
        try:
            bad()
        except (RuntimeError, IndexError):
            continue
        raise AssertionError("an error was not raised")


def deep_and_wide() -> None:
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(20000):
        y = y * 1.0
    y.backward()
    assert x.grad.item() == 1.0
    del y
    workers = [threading.Thread(target=lambda: (x * x).sum().backward()) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def training() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Dropout(0.1), torch.nn.Linear(36, 3),
    )  # fmt: skip
    data, target = torch.randn(16, 1, 8, 8), torch.randint(0, 3, (16,))
    for optimizer in (torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
                      torch.optim.Adam(model.parameters(), 0.01)):  # fmt: skip
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            loss = torch.nn.CrossEntropyLoss()(model(data), target)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 1.0
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    assert "Conv2d(1, 4" in repr(model) and not model.eval()(data).isnan().any()


def main() -> None:
    for part in (tensors, indexing, arithmetic, randomness, gradients, deep_and_wide, training):
        part()
    gc.collect()
    print("smoke test passed")


if __name__ == "__main__":
    main()
