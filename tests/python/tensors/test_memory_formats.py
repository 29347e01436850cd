"""Which layout results have, told by the strides of the inputs, also where sizes of one leave free
strides that tell it."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F

LAST = torch.channels_last


def test_to_goes_by_the_strides_and_not_by_whether_elements_lie_in_order() -> None:
    x = torch.randn(2, 1, 4, 4)
    assert x.to(memory_format=LAST).stride() == (16, 1, 4, 1)
    assert x.contiguous(memory_format=LAST).stride() == (16, 16, 4, 1)
    assert torch.randn(2, 3, 1, 1).to(memory_format=LAST).stride() == (3, 1, 3, 3)
    part = torch.randn(4, 6)[:, ::2]
    assert part.to(memory_format=torch.contiguous_format) is part


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, 2),
        lambda x: F.interpolate(x, scale_factor=2),
        lambda x: F.conv2d(x, torch.randn(4, 1, 3, 3)),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    ],
)
def test_one_channel_laid_out_last_stays_so(function) -> None:
    result = function(torch.randn(2, 1, 4, 4).to(memory_format=LAST))
    assert result.stride(1) == 1


def test_of_the_poolings_of_volumes_only_maxima_keep_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5, 6, dtype=torch.float64)
    last = x.to(memory_format=torch.channels_last_3d).requires_grad_()
    assert F.max_pool3d(last, 2).stride() == (36, 1, 18, 9, 3)
    assert F.max_pool3d(last[0], 2).stride() == (1, 18, 9, 3)
    assert F.adaptive_avg_pool3d(last, 1).stride() == (3, 1, 3, 3, 3)
    for pool in (F.avg_pool3d, F.adaptive_avg_pool3d, F.adaptive_max_pool3d):
        result = pool(last, 2)
        assert result.is_contiguous() and result.equal(pool(x, 2))
        assert torch.autograd.gradcheck(lambda x, pool=pool: pool(x, 2), last)


def test_the_values_of_one_channel_do_not_depend_on_its_layout() -> None:
    x, weight = torch.randn(2, 1, 6, 6), torch.randn(4, 1, 3, 3)
    last = x.to(memory_format=LAST)
    for other in (weight, weight.to(memory_format=LAST)):
        torch.testing.assert_close(F.conv2d(last, other), F.conv2d(x, weight))
    torch.testing.assert_close(F.avg_pool2d(last, 2), F.avg_pool2d(x, 2))


def test_batch_norm_gives_contiguous_results_and_gradients_laid_out_as_the_input() -> None:
    x = torch.randn(2, 3, 1, 1).to(memory_format=LAST).requires_grad_()
    y = F.batch_norm(x, torch.zeros(3), torch.ones(3), training=True)
    y.backward(torch.randn_like(y))
    assert y.stride() == (3, 1, 1, 1)
    assert x.grad is not None
    assert x.grad.stride() == (3, 1, 3, 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.pixel_shuffle(x, 1),
        lambda x: F.pixel_unshuffle(x, 1),
        lambda x: F.channel_shuffle(x, 1),
    ],
)
def test_shuffling_nothing_gives_a_copy(function) -> None:
    x = torch.zeros(1, 4, 2, 2)
    function(x).add_(1)
    assert not bool(x.any())


def test_reflecting_and_replicating_keep_channels_last() -> None:
    x = torch.randn(2, 3, 4, 4)
    for mode in ("reflect", "replicate"):
        result = F.pad(x.to(memory_format=LAST), (1, 2, 1, 0), mode=mode)
        assert result.is_contiguous(memory_format=LAST)
        torch.testing.assert_close(result, F.pad(x, (1, 2, 1, 0), mode=mode))


def test_a_convolution_of_no_channels_has_none() -> None:
    conv = torch.nn.Conv1d(0, 8, 2, stride=2)
    x = torch.randn(2, 0, 15, requires_grad=True)
    y = conv(x)
    y.sum().backward()
    assert y.shape == (2, 0, 7)
    assert conv.bias is not None and conv.bias.grad is not None
    assert conv.bias.grad.tolist() == [0] * 8


def test_norms_keep_channels_last() -> None:
    x = torch.randn(2, 6, 4, 5).to(memory_format=LAST)
    assert F.rms_norm(x, [5], torch.ones(5)).is_contiguous(memory_format=LAST)
    assert F.group_norm(x, 3).is_contiguous(memory_format=LAST)
    deep = torch.randn(2, 6, 3, 4, 5).to(memory_format=torch.channels_last_3d)
    assert F.group_norm(deep, 3).is_contiguous(memory_format=torch.channels_last_3d)
    torch.testing.assert_close(F.group_norm(deep, 3), F.group_norm(deep.contiguous(), 3))


@pytest.mark.parametrize("samples, groups", [(1, 1), (1, 4), (2, 1), (2, 2)])
@pytest.mark.parametrize("last", [False, True])
def test_group_norm_has_the_derivatives_of_its_formula(
    samples: int, groups: int, last: bool
) -> None:
    x = torch.randn(samples, 4, 3, 2, dtype=torch.float64)
    x = (x.contiguous(memory_format=LAST) if last else x).requires_grad_()
    weight, bias = (torch.randn(4, dtype=torch.float64).requires_grad_() for _ in range(2))
    out = F.group_norm(x, groups, weight, bias)
    rows = x.reshape(samples, groups, -1)
    rows = (rows - rows.mean(2, True)) / (rows.var(2, correction=0, keepdim=True) + 1e-5).sqrt()
    formula = rows.reshape(x.shape) * weight.reshape(4, 1, 1) + bias.reshape(4, 1, 1)
    torch.testing.assert_close(out, formula)
    weights = torch.randn(x.shape, dtype=torch.float64)
    inputs = (x, weight, bias)
    found = torch.autograd.grad(out, inputs, weights)
    wanted = torch.autograd.grad(formula, inputs, weights)
    torch.testing.assert_close(found, wanted)
    assert found[0].stride() == x.stride()


def test_group_norm_rounds_half_precision_once_beside_wider_parameters() -> None:
    x = torch.randn(2, 6, 8, 8).bfloat16()
    weight, exact = (torch.ones(6, requires_grad=True) for _ in range(2))
    bias = torch.zeros(6)
    half = F.group_norm(x, 3, weight, bias)
    half.backward(x)
    F.group_norm(x.float(), 3, exact, bias).backward(x.float())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(weight.grad, exact.grad)


def test_padding_by_nothing_gives_a_copy() -> None:
    for mode in ("constant", "reflect", "replicate", "circular"):
        x = torch.zeros(1, 1, 2, 2)
        F.pad(x, (0, 0, 0, 0), mode=mode).add_(1)
        assert not bool(x.any())


@pytest.mark.parametrize("dim", range(4))
def test_what_is_joined_in_channels_last_lies_so_in_a_resized_out(dim: int) -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    expected = torch.cat([x.contiguous(), x.contiguous()], dim)
    for dtype in (torch.float32, torch.float64):
        out = torch.cat([x, x], dim, out=torch.empty(0, dtype=dtype))
        assert out.is_contiguous(memory_format=torch.channels_last)
        assert out.equal(expected.to(dtype))
    rows = torch.empty(expected.shape)
    assert torch.cat([x, x], dim, out=rows).is_contiguous() and rows.equal(expected)
    mixed = torch.cat([x, x.contiguous()], dim, out=torch.empty(0))
    assert mixed.is_contiguous() and mixed.equal(expected)
