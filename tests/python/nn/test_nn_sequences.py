"""Recurrent layers, attention and what else has a definition to be compared with."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import functional as F
from flambeau.nn.attention import flex_attention as flex
from flambeau.nn.utils import parametrizations, parametrize, prune, rnn

CELLS = {"LSTM": nn.LSTMCell, "GRU": nn.GRUCell, "RNN": nn.RNNCell}


def close(one: Any, other: Any) -> bool:
    return torch.allclose(one, other, atol=1e-9)


@pytest.mark.parametrize("name", CELLS)
def test_a_layer_is_its_cell_step_by_step(name: str) -> None:
    layer, cell = getattr(nn, name)(3, 4).double(), CELLS[name](3, 4).double()
    for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(cell, kind).data = getattr(layer, f"{kind}_l0").data
    x = torch.randn(5, 2, 3, dtype=torch.float64)
    state, outputs = None, []
    for step in x:
        state = cell(step, state)
        outputs.append(state[0] if name == "LSTM" else state)
    assert close(layer(x)[0], torch.stack(outputs))


@pytest.mark.parametrize("name", CELLS)
def test_packed_sequences_run_as_each_on_its_own(name: str) -> None:
    layer = getattr(nn, name)(3, 4, 2, bidirectional=True).double()
    sequences = [torch.randn(n, 3, dtype=torch.float64) for n in (2, 5, 3)]
    output, state = layer(rnn.pack_sequence(sequences, enforce_sorted=False))
    final = state[0] if name == "LSTM" else state
    for place, (got, alone) in enumerate(zip(rnn.unpack_sequence(output), sequences, strict=True)):
        wanted, own = layer(alone)
        assert close(got, wanted)
        assert close(final[:, place], own[0] if name == "LSTM" else own)


@pytest.mark.parametrize("name", CELLS)
def test_recurrent_layers_have_two_derivatives(name: str) -> None:
    layer = getattr(nn, name)(2, 2, bidirectional=True).double()
    names = [key for key, _ in layer.named_parameters()]
    x = torch.randn(2, 2, 2, dtype=torch.float64, requires_grad=True)

    def run(x: Any, *weights: Any) -> Any:
        values = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(layer, values, (x,))[0]

    inputs = (x, *(weight.detach().requires_grad_() for weight in layer.parameters()))
    assert gradcheck(run, inputs)
    assert gradgradcheck(lambda x: layer(x)[0], (x,))


def test_projected_states_have_the_projected_size() -> None:
    output, (h, c) = nn.LSTM(3, 4, 2, proj_size=2, batch_first=True)(torch.randn(5, 7, 3))
    assert output.shape == (5, 7, 2) and h.shape == (2, 5, 2) and c.shape == (2, 5, 4)


def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return ((q @ k.mT) / math.sqrt(q.size(-1)) + mask).softmax(-1) @ v


@pytest.mark.parametrize("length", [3, 70, 600])
def test_attention_is_its_formula(length: int) -> None:
    q, k, v = (torch.randn(2, length, 8, dtype=torch.float64).requires_grad_() for _ in range(3))
    never = torch.full((length, length), -math.inf, dtype=torch.float64).triu(1)
    wanted = torch.autograd.grad(attention(q, k, v, never).sin().sum(), (q, k, v))
    got = torch.autograd.grad(
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sin().sum(), (q, k, v)
    )
    assert all(close(one, other) for one, other in zip(got, wanted, strict=True))


def test_flex_attention_with_a_causal_mask_is_causal_attention() -> None:
    q, k, v = (torch.randn(1, 2, 5, 4, dtype=torch.float64).requires_grad_() for _ in range(3))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 5, 5, BLOCK_SIZE=2)
    wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    for got in (
        flex.flex_attention(q, k, v, block_mask=mask),
        flex.flex_attention(q, k, v, lambda s, b, h, i, j: torch.where(i >= j, s, -torch.inf)),
    ):
        assert close(got, wanted)
        one, two = (torch.autograd.grad(y.sum(), q, retain_graph=True)[0] for y in (got, wanted))
        assert close(one, two)
    assert mask.to("cpu").sparsity() == mask.sparsity() and mask.to_dense().sum() == 6


def test_multihead_attention_averages_what_its_heads_see() -> None:
    layer = nn.MultiheadAttention(4, 2, batch_first=True).double()
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    seen, weights = layer(x, x, x, average_attn_weights=False)
    plain, mean = layer(x, x, x)
    assert weights.shape == (3, 2, 5, 5) and close(weights.mean(1), mean) and close(seen, plain)
    assert close(layer(x, x, x, need_weights=False)[0], plain)


def test_a_decoder_does_not_see_what_comes_after() -> None:
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True).double()
    src, tgt = torch.randn(2, 3, 8).double(), torch.randn(2, 4, 8).double()
    mask = nn.Transformer.generate_square_subsequent_mask(4).double()
    whole = model(src, tgt, tgt_mask=mask)
    assert close(whole[:, :2], model(src, tgt[:, :2], tgt_mask=mask[:2, :2]))


def test_interpolation_reproduces_lines_and_constants() -> None:
    line = torch.arange(5, dtype=torch.float64).view(1, 1, 5)
    wide = F.interpolate(line, 9, mode="linear", align_corners=True)
    assert close(wide.view(-1), torch.arange(9, dtype=torch.float64) / 2)
    flat = torch.full((1, 1, 5, 7), 3.0)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
        assert bool((F.interpolate(flat, (4, 9), mode=mode) - 3).abs().max() < 1e-6)


def test_resampling_on_meta_needs_no_memory() -> None:
    large = torch.empty(2**20, 3, 2**30, device="meta")
    assert F.interpolate(large, size=2**31 - 1).shape == (2**20, 3, 2**31 - 1)
    assert F.interpolate(large, size=2**30, mode="linear").shape == large.shape


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_interpolation_has_two_derivatives(mode: str) -> None:
    x = torch.randn(1, 1, 4, 3, dtype=torch.float64, requires_grad=True)
    for antialias in (False, True):

        def run(x: Any, antialias: bool = antialias) -> Any:
            return F.interpolate(x, (3, 5), mode=mode, antialias=antialias)

        assert gradcheck(run, (x,)) and gradgradcheck(run, (x,))  # fmt: skip


def test_the_identity_grid_samples_the_image_itself() -> None:
    image = torch.randn(1, 2, 4, 5, dtype=torch.float64)
    theta = torch.eye(2, 3, dtype=torch.float64).unsqueeze(0)
    grid = F.affine_grid(theta, image.shape, align_corners=False)
    for mode in ("bilinear", "nearest", "bicubic"):
        assert close(F.grid_sample(image, grid, mode, align_corners=False), image)


def test_folding_undoes_unfolding_but_for_overlaps() -> None:
    image = torch.randn(2, 3, 4, 6)
    assert torch.equal(F.fold(F.unfold(image, 2, stride=2), (4, 6), 2, stride=2), image)


def test_unpooling_puts_maxima_back() -> None:
    image = torch.randn(1, 2, 4, 4)
    pooled, positions = F.max_pool2d(image, 2, return_indices=True)
    back = F.max_unpool2d(pooled, positions, 2)
    assert torch.equal(F.max_pool2d(back.abs(), 2), pooled.abs())
    assert int((back != 0).sum()) == pooled.numel()


def test_lazy_layers_become_ordinary_ones() -> None:
    model = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    assert copy.deepcopy(model)(torch.randn(2, 3, 5, 5)).shape == (2, 2)
    with pytest.raises(RuntimeError, match="uninitialized"):
        _ = model[0].weight.shape
    model(torch.randn(2, 3, 5, 5))
    assert [type(layer) for layer in model] == [nn.Conv2d, nn.BatchNorm2d, nn.Flatten, nn.Linear]
    assert type(model[1].running_mean) is torch.Tensor


def test_parametrized_weights_are_trained_through_their_parts() -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    layer(torch.randn(4, 3)).sum().backward()
    parts = layer.parametrizations.weight
    assert parts.original0.grad is not None and parts.original1.grad is not None
    assert torch.allclose(layer.weight.norm(dim=1, keepdim=True), parts.original0)
    square = parametrizations.orthogonal(nn.Linear(4, 4).double())
    assert close(square.weight @ square.weight.T, torch.eye(4, dtype=torch.float64))
    before = square.weight.detach().clone()
    parametrize.remove_parametrizations(square, "weight")
    assert type(square) is nn.Linear and close(square.weight, before)


def test_spectral_norm_brings_the_largest_singular_value_to_one() -> None:
    layer = parametrizations.spectral_norm(nn.Linear(5, 4).double(), n_power_iterations=50)
    layer.train()
    assert abs(float(torch.linalg.svdvals(layer.weight)[0]) - 1) < 1e-6


def test_pruning_leaves_the_largest_and_survives_training() -> None:
    layer = nn.Linear(4, 3)
    kept = layer.weight.detach().abs().flatten().topk(6).indices.sort().values
    prune.l1_unstructured(layer, "weight", 0.5)
    assert torch.equal(layer.weight_mask.flatten().nonzero().flatten(), kept)
    layer(torch.ones(1, 4)).sum().backward()
    assert bool((layer.weight_orig.grad[layer.weight_mask == 0] == 0).all())
    prune.remove(layer, "weight")
    assert not prune.is_pruned(layer) and int((layer.weight == 0).sum()) == 6


def test_a_batch_split_among_devices_gives_the_same_gradients() -> None:
    layer, x = nn.Linear(3, 2), torch.randn(5, 3)
    whole = layer(x)
    split = nn.parallel.data_parallel(layer, x, ["cpu", "cpu"])
    assert torch.equal(split, whole)
    one = torch.autograd.grad(whole.pow(2).sum(), list(layer.parameters()))
    two = torch.autograd.grad(split.pow(2).sum(), list(layer.parameters()))
    assert all(torch.allclose(a, b) for a, b in zip(one, two, strict=True))


def test_images_of_bytes_are_resampled_in_fixed_point() -> None:
    x = torch.arange(12, dtype=torch.uint8).reshape(1, 1, 3, 4) * 20
    cubic = F.interpolate(x, (5, 6), mode="bicubic")
    assert cubic[0, 0, 0].tolist() == [0, 0, 16, 28, 44, 54]
    assert cubic[0, 0, 4].tolist() == [166, 176, 192, 204, 220, 230]
    linear = F.interpolate(x, (5, 6), mode="bilinear")
    assert linear[0, 0, 1].tolist() == [32, 42, 55, 69, 82, 92]


@pytest.mark.parametrize("name", CELLS)
def test_weights_can_be_given_as_a_list_until_they_change(name: str) -> None:
    layer = getattr(nn, name)(3, 4)
    x = torch.randn(5, 2, 3)
    own = layer(x)[0]
    given = [torch.zeros_like(w).requires_grad_() for w in layer._flat_weights]
    layer._flat_weights = given
    out = layer(x)[0]
    assert out.abs().max().item() == 0.0
    out.sum().backward()
    assert given[0].grad is not None and layer.weight_ih_l0.grad is None
    layer.weight_ih_l0 = nn.Parameter(torch.ones_like(layer.weight_ih_l0))
    assert layer._flat_weights[0] is layer.weight_ih_l0 and layer._flat_weights[1] is given[1]
    layer.load_state_dict(getattr(nn, name)(3, 4).state_dict())
    layer.float()
    assert layer._flat_weights == list(layer.parameters())
    assert own.shape == out.shape


def test_attention_of_an_empty_batch_is_empty() -> None:
    x = torch.rand(3, 0, 8)
    seen, weights = nn.MultiheadAttention(8, 2)(x, x, x)
    assert seen.shape == (3, 0, 8) and weights.shape == (0, 3, 3)
    assert nn.TransformerEncoderLayer(8, 2, 16)(x).shape == (3, 0, 8)
    assert nn.TransformerDecoderLayer(8, 2, 16)(x, torch.rand(5, 0, 8)).shape == (3, 0, 8)
