"""Layers: shapes, values against NumPy, running statistics, arguments that cannot be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.nn.attention.bias import causal_lower_right, causal_upper_left


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return torch.from_numpy(values)


def close(got: torch.Tensor, want: Any, tolerance: float = 1e-5) -> bool:
    return np.allclose(got.detach().numpy(), want, rtol=tolerance, atol=tolerance)


def test_linear_of_rows_in_any_order() -> None:
    """Of batches transposed, cut or repeated: the result and the gradients are a copy's."""
    x = torch.randn(5, 7, 3, 20, dtype=torch.float64)
    layer = torch.nn.Linear(20, 33, dtype=torch.float64)
    for rows in (
        x.transpose(0, 1),
        x.transpose(1, 2),
        x.permute(2, 0, 1, 3)[1:],
        x[:, ::2],
        x[:, :, :1].expand(5, 7, 4, 20),
        x.transpose(2, 3)[..., :1].expand(5, 7, 20, 20),
        x[:0].transpose(0, 1),
    ):
        ours, copied = rows.detach().requires_grad_(), rows.contiguous().requires_grad_()
        y, wanted = layer(ours), layer(copied)
        assert y.is_contiguous() and torch.allclose(y, wanted)
        parameters = list(layer.parameters())
        got = torch.autograd.grad(y.pow(2).sum(), [ours, *parameters])
        exact = torch.autograd.grad(wanted.pow(2).sum(), [copied, *parameters])
        assert all(torch.allclose(a, b) for a, b in zip(got, exact, strict=True))


def test_linear_multiplies_by_its_transposed_weight() -> None:
    layer, x = nn.Linear(3, 2), tensor(4, 3)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    assert close(layer(x), x.numpy() @ weight.T + bias)
    assert nn.Linear(3, 2, bias=False).bias is None
    layer(x).sum().backward()
    assert close(layer.weight.grad, np.tile(x.numpy().sum(0), (2, 1)))
    assert close(layer.bias.grad, [4, 4])


def test_identity_takes_anything() -> None:
    x = tensor(2)
    assert nn.Identity(1, foo=2)(x) is x


@pytest.mark.parametrize(
    ("layer", "given", "wanted"),
    [
        (lambda: nn.Conv1d(2, 4, 3), (1, 2, 9), (1, 4, 7)),
        (lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1), (1, 2, 9, 8), (1, 4, 5, 4)),
        (lambda: nn.Conv2d(2, 4, 3, padding="same"), (2, 9, 8), (4, 9, 8)),
        (lambda: nn.Conv2d(2, 4, (1, 3), dilation=(1, 2)), (1, 2, 9, 8), (1, 4, 9, 4)),
        (lambda: nn.Conv2d(4, 4, 3, groups=2, bias=False), (1, 4, 5, 5), (1, 4, 3, 3)),
        (lambda: nn.Conv2d(1, 1, 3, 1, 1, padding_mode="circular"), (1, 1, 5, 5), (1, 1, 5, 5)),
        (lambda: nn.MaxPool2d(2), (1, 2, 5, 5), (1, 2, 2, 2)),
        (lambda: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (1, 2, 6, 6), (1, 2, 4, 4)),
        (lambda: nn.AvgPool2d(2, padding=1), (1, 2, 4, 4), (1, 2, 3, 3)),
        (lambda: nn.AdaptiveAvgPool2d((1, None)), (1, 2, 4, 5), (1, 2, 1, 5)),
        (lambda: nn.Flatten(), (2, 3, 4), (2, 12)),
        (lambda: nn.Flatten(0, 1), (2, 3, 4), (6, 4)),
        (lambda: nn.Unflatten(1, (2, 3)), (5, 6), (5, 2, 3)),
        (lambda: nn.LayerNorm((3, 4)), (2, 3, 4), (2, 3, 4)),
        (lambda: nn.BatchNorm3d(2), (3, 2, 2, 2, 2), (3, 2, 2, 2, 2)),
    ],
)  # fmt: skip
def test_shapes(layer: Any, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    assert tuple(layer()(tensor(*given)).shape) == wanted


def test_convolution_with_a_delta_is_the_identity() -> None:
    conv = nn.Conv2d(3, 3, 3, padding=1, bias=False)
    nn.init.dirac_(conv.weight)
    x = tensor(2, 3, 5, 5)
    assert close(conv(x), x.numpy())


def test_pooling_values() -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert nn.MaxPool2d(2)(x).flatten().tolist() == [5, 7, 13, 15]
    _, indices = nn.MaxPool2d(2, return_indices=True)(x)
    assert indices.flatten().tolist() == [5, 7, 13, 15]
    assert nn.AvgPool2d(2)(x).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert nn.AdaptiveAvgPool2d(1)(x).item() == 7.5


def test_batch_norm_normalizes_and_remembers() -> None:
    norm, x = nn.BatchNorm2d(2), tensor(4, 2, 3, 3)
    y = norm(x)
    mean, var = x.numpy().mean((0, 2, 3)), x.numpy().var((0, 2, 3))
    shape = (1, 2, 1, 1)
    assert close(y, (x.numpy() - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5), 1e-4)
    unbiased = var * 36 / 35
    assert close(norm.running_mean, 0.1 * mean)
    assert close(norm.running_var, 0.9 + 0.1 * unbiased)
    assert norm.num_batches_tracked.item() == 1
    norm.eval()
    assert close(
        norm(x),
        (x.numpy() - norm.running_mean.numpy().reshape(shape))
        / np.sqrt(norm.running_var.numpy().reshape(shape) + 1e-5),
        1e-4,
    )
    assert norm.num_batches_tracked.item() == 1


def test_batch_norm_without_momentum_averages() -> None:
    norm = nn.BatchNorm1d(2, momentum=None)
    batches = [tensor(5, 2, seed=seed) for seed in range(3)]
    for batch in batches:
        norm(batch)
    assert close(norm.running_mean, np.mean([b.numpy().mean(0) for b in batches], 0))
    norm.reset_running_stats()
    assert norm.running_mean.abs().sum() == 0 and norm.num_batches_tracked.item() == 0


def test_batch_norm_checks_its_input() -> None:
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.BatchNorm2d(2)(tensor(3, 2))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        nn.BatchNorm1d(2)(tensor(1, 2))
    stateless = nn.BatchNorm1d(2, affine=False, track_running_stats=False)
    assert list(stateless.state_dict()) == []
    assert abs(float(stateless.eval()(tensor(8, 2)).mean())) < 1e-6


def test_layer_norm_normalizes_the_last_dimensions() -> None:
    x = tensor(3, 4).numpy()
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    assert close(nn.LayerNorm(4)(torch.from_numpy(x)), want)
    assert nn.LayerNorm(4, bias=False).bias is None
    assert nn.LayerNorm(4, elementwise_affine=False).weight is None


def test_embedding_looks_rows_up() -> None:
    table = nn.Embedding(5, 3, padding_idx=-5)
    assert table.padding_idx == 0 and table.weight[0].abs().sum() == 0
    index = torch.tensor([[1, 4], [0, 1]])
    assert torch.equal(table(index), table.weight[index])
    table(index).sum().backward()
    assert table.weight.grad.sum(1).tolist() == [0, 6, 0, 0, 3]
    frozen = nn.Embedding.from_pretrained(torch.ones(2, 3))
    assert not frozen.weight.requires_grad and frozen(torch.tensor(1)).tolist() == [1, 1, 1]


ACTIVATIONS = {
    "ReLU": lambda x: np.maximum(x, 0),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(x)),
    "LeakyReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Tanhshrink": lambda x: x - np.tanh(x),
    "LogSigmoid": lambda x: -np.log1p(np.exp(-x)),
    "Hardtanh": lambda x: np.clip(x, -1, 1),
    "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "Hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "Mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "GELU": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "Identity": lambda x: x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    x = tensor(5, 7)
    assert close(getattr(nn, name)()(x), ACTIVATIONS[name](x.numpy()))


@pytest.mark.parametrize("name", ["ReLU", "ELU", "LeakyReLU", "SiLU", "Hardtanh", "ReLU6"])
def test_in_place_activations_write_over_their_input(name: str) -> None:
    x = tensor(5, 7)
    want = getattr(nn, name)()(x)
    written = getattr(nn, name)(inplace=True)(x)
    assert written.data_ptr() == x.data_ptr() and torch.equal(x, want)


def test_softmax_family() -> None:
    x = tensor(3, 4)
    exps = np.exp(x.numpy())
    want = exps / exps.sum(1, keepdims=True)
    assert close(nn.Softmax(1)(x), want)
    assert close(nn.LogSoftmax(-1)(x), np.log(want))
    assert close(nn.Softmin(1)(-x), want)
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
        assert close(nn.Softmax()(x), want)
    assert F.softmax(x, 1, dtype=torch.float64).dtype == torch.float64


def test_dropout_zeroes_and_rescales_in_training_only() -> None:
    torch.manual_seed(0)
    x = torch.ones(10000)
    dropped = nn.Dropout(0.25)(x)
    values = set(dropped.unique().tolist()) if hasattr(x, "unique") else set(dropped.tolist())
    assert len(values) == 2 and 0 in values and abs(max(values) - 4 / 3) < 1e-6
    assert 0.22 < float((dropped == 0).float().mean()) < 0.28
    assert torch.equal(nn.Dropout(0.25).eval()(x), x)
    with pytest.raises(ValueError, match="between 0 and 1, but got 2"):
        nn.Dropout(2)
    with pytest.raises(ValueError, match="between 0 and 1, but got -1"):
        F.dropout(x, -1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 2, groups=2), ValueError, "in_channels must be divisible"),
        (lambda: nn.Conv2d(2, 3, 2, groups=2), ValueError, "out_channels must be divisible"),
        (lambda: nn.Conv2d(2, 2, 2, groups=0), ValueError, "groups must be a positive"),
        (lambda: nn.Conv2d(1, 1, 2, padding="other"), ValueError, "Invalid padding string"),
        (lambda: nn.Conv2d(1, 1, 2, 2, padding="same"), ValueError, "strided convolutions"),
        (lambda: nn.Conv2d(1, 1, 2, padding_mode="no"), ValueError, "padding_mode must be"),
        (lambda: nn.Embedding(3, 2, padding_idx=3), AssertionError, "within num_embeddings"),
        (lambda: nn.Hardtanh(2, 1), AssertionError, "must be greater than"),
        (lambda: nn.GroupNorm(3, 4), ValueError, "divisible"),
        (lambda: nn.Unflatten(1, 3), TypeError, "must be a tuple of ints"),
    ],
)
def test_arguments_that_cannot_be(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_layers_print_their_options() -> None:
    assert repr(nn.Conv2d(1, 2, 3, padding=1, bias=False)) == (
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)"
    )
    assert repr(nn.MaxPool2d(2)) == (
        "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.Embedding(3, 2, padding_idx=1)) == "Embedding(3, 2, padding_idx=1)"
    assert repr(nn.LeakyReLU(0.2, True)) == "LeakyReLU(negative_slope=0.2, inplace=True)"
    assert repr(nn.GELU("tanh")) == "GELU(approximate='tanh')"
    assert repr(nn.BatchNorm2d(3)) == (
        "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    )


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_the_last_bag_reaches_to_the_end_whatever_its_offset_says(mode: str) -> None:
    table = tensor(6, 3).double()
    indices = torch.tensor([0, 1, 2, 3, 4])
    bags = nn.EmbeddingBag.from_pretrained(table, mode=mode, include_last_offset=True)
    short, whole = bags(indices, torch.tensor([0, 2, 3])), bags(indices, torch.tensor([0, 2, 5]))
    assert torch.equal(short, whole)


def test_arguments_that_bags_refuse() -> None:
    table, offsets = tensor(6, 3), torch.tensor([0])
    with pytest.raises(RuntimeError, match="Expected idx >= 0 && idx < num_embeddings but found"):
        F.embedding_bag(torch.tensor([0, 6]), table, offsets)
    with pytest.raises(RuntimeError, match="to have the same type as tensor for argument #1"):
        weights = torch.ones(2, dtype=torch.float64)
        F.embedding_bag(
            torch.tensor([0, 1]), table, offsets, per_sample_weights=weights, mode="sum"
        )


def test_bags_take_their_table_first_as_they_once_did() -> None:
    table, indices, offsets = tensor(6, 3), torch.tensor([0, 1, 2]), torch.tensor([0, 2])
    with pytest.warns(UserWarning, match="Argument order"):
        older = F.embedding_bag(table, indices, offsets)
    assert torch.equal(older, F.embedding_bag(indices, table, offsets))


def test_dropout2d_says_that_it_reads_three_dimensions_as_a_batch() -> None:
    with pytest.warns(UserWarning, match="assuming that channel-wise 1D dropout behavior is"):
        nn.Dropout2d()(torch.ones(1, 2, 2))


def test_sizes_that_resizing_and_folding_refuse() -> None:
    x = torch.ones(1, 1, 4, 4)
    with pytest.raises(TypeError, match="expected size to be one of int or"):
        F.interpolate(x, size=(2.0, 2.0))
    with pytest.raises(RuntimeError, match="without overflow"):
        F.interpolate(x, scale_factor=-1e20, mode="bilinear")
    with pytest.raises(RuntimeError, match="calculated shape of the array of sliding blocks as"):
        F.fold(torch.ones(1, 4, 12), output_size=(4, 5), kernel_size=2, dilation=8)
    with pytest.raises(ValueError, match="requires output_ratio to either be a single Int"):
        F.fractional_max_pool2d(x, 2, output_ratio=(0.5, 0.5, 0.5))
    with pytest.raises(RuntimeError, match="expected grid to have size 1 in last dimension"):
        F.grid_sample(torch.zeros(1, 2, 2), torch.zeros(1, 1, 1, 2))
    with pytest.warns(UserWarning, match="See the documentation of affine_grid for details"):
        F.affine_grid(torch.ones(1, 2, 3), (1, 1, 2, 1), align_corners=True)


@pytest.mark.parametrize("keys", [4, 7])
def test_causal_biases_stand_for_their_masks(keys: int) -> None:
    q, k, v = tensor(1, 2, 4, 8), tensor(1, 2, keys, 8, seed=1), tensor(1, 2, keys, 8, seed=2)
    for make in (causal_upper_left, causal_lower_right):
        bias = make(4, keys)
        expected = F.scaled_dot_product_attention(q, k, v, attn_mask=bias._materialize())
        torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v, bias), expected)
        with pytest.raises(ValueError, match="should not be used with causal=True"):
            F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=True)


def test_backward_through_affine_grid_needs_nothing_saved() -> None:
    theta = tensor(2, 2, 3).requires_grad_()
    grid = F.affine_grid(theta, (2, 1, 3, 4), align_corners=False)
    assert grid.grad_fn.name() == "AffineGridGeneratorBackward0"
    grid.sum().backward()
    grid.sum().backward()
    assert theta.grad is not None
    assert theta.grad[:, :, 2].tolist() == [[24.0, 24.0], [24.0, 24.0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_group_norm_rounds_half_precision_after_it_has_scaled_and_shifted(dtype) -> None:
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(s).to(dtype) for s in ((4, 10, 100), (10,), (10,)))
    wide = F.group_norm(x.double(), 2, weight.double(), bias.double())
    result = F.group_norm(x, 2, weight, bias)
    assert result.dtype == dtype
    assert bool((result == wide.to(dtype)).double().mean() > 0.99)
    assert ((result.double() - wide).abs() / wide.abs()).max().item() < torch.finfo(dtype).eps
