"""Bad indices and weights on the device: an error that names op, value and bound when the device is
next waited for, and a device that works on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import flambeau as torch
import flambeau.nn.functional as F

Use = Callable[[torch.Tensor, torch.Tensor], object]

# Each takes five numbers and the bad index 7, both on the device.
INDICES: dict[str, Use] = {
    "embedding": lambda x, i: F.embedding(i, x[:, None]),
    "embedding_bag": lambda x, i: F.embedding_bag(i[None], x[:, None]),
    "index": lambda x, i: x[i],
    "index_put_": lambda x, i: x.__setitem__(i, 1.0),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add_": lambda x, i: x.index_add_(0, i, x[:1].clone()),
    "index_copy_": lambda x, i: x.index_copy_(0, i, x[:1].clone()),
    "index_fill_": lambda x, i: x.index_fill_(0, i, 1.0),
    "index_reduce_": lambda x, i: x.index_reduce_(0, i, x[:1].clone(), "amax"),
    "gather": lambda x, i: x.gather(0, i),
    "take": lambda x, i: x.take(i),
    "take_along_dim": lambda x, i: x.take_along_dim(i, 0),
    "put_": lambda x, i: x.put_(i, x[:1].clone()),
    "scatter_": lambda x, i: x.scatter_(0, i, x.clone()),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, x, "amax"),
    "one_hot": lambda x, i: F.one_hot(i, 5),
}
TARGETS: dict[str, Use] = {
    "cross_entropy_loss": lambda x, i: F.cross_entropy(x[None], i),
    "nll_loss_nd": lambda x, i: F.nll_loss(x[None], i),
}


def complaint(use: Use, *args: torch.Tensor) -> str:
    """What is raised when the device is waited for, not before."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        kept = use(*args)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    with pytest.raises(IndexError) as caught:
        torch.cuda.synchronize()
    assert isinstance(caught.value, RuntimeError)  # which the same op may raise on the CPU
    torch.cuda.synchronize()  # once is enough
    assert torch.ones(3, device="cuda").sum().item() == 3
    del kept
    return str(caught.value)


@pytest.mark.parametrize("value", [7, -9])
@pytest.mark.parametrize("name", INDICES)
def test_a_bad_index_is_told_with_its_op_and_bound(name: str, value: int) -> None:
    x, index = torch.arange(5.0, device="cuda"), torch.tensor([value], device="cuda")
    text = complaint(INDICES[name], x, index)
    if name == "take_along_dim" and value < 0:
        value += 5  # it counts from the end before it looks
    assert f"index {value} is out of bounds for dimension" in text and "with size 5" in text
    assert text.endswith(f"(found by {name} on cuda:0)")


@pytest.mark.parametrize("name", TARGETS)
def test_a_bad_class_is_told_with_its_op_and_the_number_of_classes(name: str) -> None:
    x, target = torch.arange(5.0, device="cuda"), torch.tensor([7], device="cuda")
    text = complaint(TARGETS[name], x, target)
    assert text == f"Target 7 is out of bounds. (found by {name}, of 5 classes, on cuda:0)"


def test_a_probability_that_is_none_is_told() -> None:
    p = torch.tensor([0.0, 0.5, 1.5, 1.0], device="cuda")
    text = complaint(F.binary_cross_entropy, p, p.clamp(max=1.0))
    assert text == (
        "all elements of input should be between 0 and 1 "
        "(found by binary_cross_entropy at element 2 of 4, on cuda:0)"
    )
    assert F.binary_cross_entropy(p.clamp(max=1.0), p.clamp(max=1.0)).isfinite().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("samples, replacement", [(1, False), (2, False), (3, True)])
def test_weights_that_nothing_can_be_drawn_by_are_told(
    samples: int, replacement: bool, dtype: torch.dtype
) -> None:
    def draw(weights: torch.Tensor) -> torch.Tensor:
        return torch.multinomial(weights, samples, replacement)

    good = torch.tensor([[1.0, 2.0, 3.0]] * 4, dtype=dtype)
    for bad in (-1.0, float("inf"), float("nan")):
        weights = good.clone()
        weights[2, 1] = bad
        text = complaint(draw, weights.cuda())
        assert "either `inf`, `nan` or element < 0" in text
        assert "(found by multinomial at element 1 of 3 of row 2, on cuda:0)" in text
    weights = good.clone()
    weights[3] = 0
    assert "sum of probabilities <= 0) (found by multinomial in row 3 on" in complaint(
        draw, weights.cuda()
    )
    assert draw(good.cuda()).max().item() <= 2


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.bincount(torch.tensor([-1], device="cuda")),
        lambda: F.one_hot(torch.tensor([-1], device="cuda")),
        lambda: F.ctc_loss(
            torch.zeros(5, 1, 3, device="cuda"), torch.tensor([[9, 9]], device="cuda"), (5,), (2,)
        ),
    ],
    ids=["bincount", "one_hot", "ctc_loss"],
)
def test_ops_that_read_their_indices_on_the_host_refuse_them_at_once(
    use: Callable[[], object],
) -> None:
    with pytest.raises(RuntimeError):
        use()
    assert torch.ones(3, device="cuda").sum().item() == 3
