"""Convolution and pooling: oneDNN's float32 against our own float64, in both memory layouts."""

from __future__ import annotations

import itertools

import pytest

import flambeau as torch
import flambeau.nn.functional as F

GEOMETRIES = [
    {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    for stride, padding, dilation, groups in itertools.product((1, 2), (0, 2), (1, 2), (1, 2))
]


def leaf(x, dtype, layout):
    """A leaf that requires a gradient, with the values of x."""
    return x.to(dtype).to(memory_format=layout).detach().requires_grad_()


def results(function, inputs, dtype, layout=torch.contiguous_format):
    """The result of the function and the gradients of all inputs, as float64."""
    leaves = [leaf(x, dtype, layout if x.dim() == 4 else torch.contiguous_format) for x in inputs]
    out = function(*leaves)
    weights = torch.linspace(-1, 1, out.numel(), dtype=dtype).view(out.shape)
    return out, [g.double() for g in (out, *torch.autograd.grad((out * weights).sum(), leaves))]


def assert_close(many, others, tolerance):
    for one, other in zip(many, others, strict=True):
        assert one.shape == other.shape
        assert (one - other).abs().max().item() <= tolerance * (1 + other.abs().max().item())


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_single_precision_equals_double_precision(geometry, layout):
    torch.manual_seed(0)
    groups = geometry["groups"]
    inputs = [torch.randn(3, 4, 11, 9), torch.randn(6, 4 // groups, 3, 2), torch.randn(6)]

    def convolve(x, weight, bias):
        return F.conv2d(x, weight, bias, **geometry)

    _, expected = results(convolve, inputs, torch.float64)
    out, found = results(convolve, inputs, torch.float32, layout)
    assert_close(found, expected, 1e-5)
    assert out.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_transposed_convolution_is_the_adjoint(rank):
    torch.manual_seed(0)
    convolve = getattr(F, f"conv{rank}d")
    transpose = getattr(F, f"conv_transpose{rank}d")
    x = torch.randn(2, 3, *[7] * rank, dtype=torch.float64)
    weight = torch.randn(5, 3, *[3] * rank, dtype=torch.float64)
    y = convolve(x, weight, stride=2, padding=1)
    g = torch.randn(y.shape, dtype=torch.float64)
    back = transpose(g, weight, stride=2, padding=1)
    assert back.shape == x.shape
    assert ((y * g).sum() - (x * back).sum()).abs().item() < 1e-10


def test_padding_same_keeps_the_size_for_even_kernels():
    x = torch.arange(6.0).view(1, 1, 6)
    y = F.conv1d(x, torch.ones(1, 1, 4), padding="same")
    # One zero before, two behind.
    assert y.tolist() == [[[3.0, 6.0, 10.0, 14.0, 12.0, 9.0]]]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        lambda x: F.max_pool2d(x, (2, 3), (3, 1), (1, 0), (1, 2)),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (3, 5)),
        lambda x: F.adaptive_max_pool2d(x, (3, 5)),
    ],
    ids=["max2", "max3", "dilated", "average", "adaptive average", "adaptive maximum"],
)
def test_pooling_does_not_depend_on_the_layout(pool, layout):
    torch.manual_seed(0)
    inputs = [torch.randn(2, 5, 13, 12)]
    _, expected = results(pool, inputs, torch.float64)
    _, found = results(pool, inputs, torch.float32, layout)
    assert_close(found, expected, 1e-6)


def test_among_equal_maxima_the_first_gets_the_gradient():
    x = torch.zeros(1, 1, 4, 4, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad[0, 0].tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]


def test_a_pooled_nan_is_nan():
    x = torch.zeros(1, 1, 2, 4)
    x[0, 0, 1, 2] = float("nan")
    assert F.max_pool2d(x, 2).isnan().tolist() == [[[[False, True]]]]


def test_a_transposed_convolution_is_one_node():
    layer = torch.nn.ConvTranspose2d(2, 3, 3)
    y = layer(torch.ones(1, 2, 4, 4))
    assert y.grad_fn is not None
    assert y.grad_fn.name() == "ConvolutionBackward0" and y._version == 0
    assert len(y.grad_fn.next_functions) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_grouped_convolutions_of_rows_and_their_gradients(dtype: torch.dtype) -> None:
    """In single precision they are taken for images one row high."""
    x = torch.randn(3, 8, 30, dtype=dtype, requires_grad=True)
    weight = torch.randn(16, 2, 5, dtype=dtype, requires_grad=True)
    bias = torch.randn(16, dtype=dtype, requires_grad=True)
    found = F.conv1d(x, weight, bias, stride=2, padding=3, dilation=2, groups=4)
    alone = [
        F.conv1d(x[:, 2 * g : 2 * g + 2], weight[4 * g : 4 * g + 4], None, 2, 3, 2)
        for g in range(4)
    ]
    wanted = torch.cat(alone, 1) + bias[:, None]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    g = torch.randn_like(found)
    for ours, theirs in zip(
        torch.autograd.grad(found, (x, weight, bias), g),
        torch.autograd.grad(wanted, (x, weight, bias), g),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("image", "kernel", "stride", "padding"),
    [
        ((27, 1), (2, 3), (3, 3), (0, 2)),  # a kernel larger than the image
        ((22, 2), (2, 3), (3, 3), (0, 2)),
        ((3, 4, 1), (2, 4, 4), (4, 5, 2), (0, 0, 2)),
        ((164,), (3,), (72,), (1,)),  # steps that leap over elements
        ((6, 60), (2, 4), (1, 8), (0, 0)),
        ((72,), (4,), (4,), (0,)),
        ((1, 8), (2, 3), (1, 2), (2, 0)),
        ((67, 2, 67), (2, 2, 2), 65, 0),
        ((9, 9), (1, 1), (2, 2), (0, 0)),
        ((2, 2), (3, 3), (1, 1), (1, 1)),
    ],
    ids=str,
)
@pytest.mark.parametrize("channels", [(3, 2), (32, 29)])
def test_bfloat16_with_uncommon_steps(image, kernel, stride, padding, channels):
    function = (F.conv1d, F.conv2d, F.conv3d)[len(image) - 1]
    torch.manual_seed(0)
    x = torch.randint(-3, 4, (1, channels[0], *image))
    weight = torch.randint(-3, 4, (channels[1], channels[0], *kernel))

    def convolve(x, weight):
        for size in range(6, 20):  # what nothing is written to shows
            _ = [torch.full((blocks << size >> 4,), torch.nan) for blocks in range(16, 32)]
        return function(x, weight, None, stride, padding)

    got, want = (results(convolve, (x, weight), t)[1] for t in (torch.bfloat16, torch.float64))
    assert_close(got, want, 1e-2)
