"""Normalization, pooling, convolution and recurrent layers on CUDA, against the CPU."""

from __future__ import annotations

import pytest
from test_kernels import assert_close, assert_same

import flambeau as torch
import flambeau.nn.functional as F


@pytest.fixture(autouse=True)
def exact_products() -> object:
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def gradients(function: object, *tensors: torch.Tensor) -> list[torch.Tensor]:
    leaves = [
        x.detach().clone(memory_format=torch.preserve_format).requires_grad_() for x in tensors
    ]
    out = function(*leaves)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    (out * weights.to(out.device)).sum().backward()
    return [out.detach(), *(x.grad for x in leaves)]


def assert_gradients(function: object, *tensors: torch.Tensor, tolerance: float = 2e-5) -> None:
    cpu = gradients(function, *tensors)
    device = gradients(function, *(x.cuda() for x in tensors))
    for ours, theirs in zip(cpu, device, strict=True):
        assert_close(ours, theirs, tolerance)


LAYOUTS = [torch.contiguous_format, torch.channels_last]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("shape", [(4, 8, 6, 6), (8, 64, 28, 28), (3, 33, 7, 7), (64, 256, 14, 14)])
def test_batch_norm_is_that_of_the_cpu(layout: object, shape: tuple[int, ...]) -> None:
    x = (torch.randn(shape) * 3 + 100).contiguous(memory_format=layout)
    weight, bias = torch.randn(shape[1]), torch.randn(shape[1])

    def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        mean, var = torch.zeros_like(weight), torch.ones_like(weight)
        return F.batch_norm(x, mean.detach(), var.detach(), weight, bias, True)

    assert_gradients(run, x, weight, bias, tolerance=2e-3)


@pytest.mark.parametrize("shape", [(5, 7), (100, 768), (33, 1024), (9, 5000), (4, 6, 100)])
def test_layer_norm_is_that_of_the_cpu(shape: tuple[int, ...]) -> None:
    x, weight, bias = torch.randn(shape) + 5, torch.randn(shape[-1]), torch.randn(shape[-1])
    assert_gradients(lambda x, w, b: F.layer_norm(x, shape[-1:], w, b), x, weight, bias)


@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "channels_last"])
def test_pooling_is_that_of_the_cpu(layout: object) -> None:
    x = torch.randn(3, 10, 23, 31).contiguous(memory_format=layout)
    cases = [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.max_pool2d(x, (3, 5), (1, 2), (1, 2), ceil_mode=True),
        lambda x: F.max_pool2d(x, 3, 1, 1, dilation=2),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (5, 7)),
        lambda x: F.adaptive_avg_pool2d(x, 1),
        lambda x: F.adaptive_max_pool2d(x, (4, 3)),
    ]
    for case in cases:
        assert_gradients(case, x)
    positions = [F.max_pool2d(t, 3, 2, 1, return_indices=True)[1] for t in (x, x.cuda())]
    assert_same(*positions)


CONVOLUTIONS = [
    ((2, 3, 20, 20), (8, 3, 3, 3), {"padding": 1}),
    ((2, 16, 14, 14), (32, 16, 1, 1), {}),
    ((2, 16, 15, 15), (32, 16, 3, 3), {"stride": 2, "padding": 1}),
    ((2, 16, 15, 15), (16, 1, 3, 3), {"groups": 16, "padding": 1}),
    ((2, 8, 17, 13), (12, 4, 3, 5), {"groups": 2, "dilation": 2, "padding": (2, 4)}),
    ((2, 3, 33, 33), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 4, 10, 10), (4, 4, 2, 2), {"padding": "same"}),
    ((4, 6, 50), (10, 6, 5), {"padding": 2}),
    ((2, 3, 8, 9, 10), (4, 3, 3, 3, 3), {"padding": 1, "stride": (1, 2, 1)}),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_convolution_is_that_of_the_cpu(layout: object, case: object, dtype: str) -> None:
    x_shape, w_shape, options = case
    kind = getattr(torch, dtype)
    x, w, b = (torch.randn(s, dtype=kind) for s in (x_shape, w_shape, w_shape[:1]))
    if len(x_shape) == 4:
        x = x.contiguous(memory_format=layout)
    convolve = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(x_shape)]
    assert_gradients(lambda x, w, b: convolve(x, w, b, **options), x, w, b, tolerance=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "channels_last"])
def test_convolution_in_half_precision_is_close_to_single(dtype: str, layout: object) -> None:
    kind = getattr(torch, dtype)
    x = torch.randn(4, 16, 20, 20).contiguous(memory_format=layout)
    w = torch.randn(24, 16, 3, 3)
    single = gradients(lambda x, w: F.conv2d(x, w, padding=1), x, w)
    half = gradients(lambda x, w: F.conv2d(x, w, padding=1), x.to(kind).cuda(), w.to(kind).cuda())
    for exact, rounded in zip(single, half, strict=True):
        assert_close(exact, rounded, 3e-2)


def test_transposed_convolution_is_that_of_the_cpu() -> None:
    x, w = torch.randn(2, 6, 9, 9), torch.randn(6, 4, 3, 3)
    options = {"stride": 2, "padding": 1, "output_padding": 1}
    assert_gradients(lambda x, w: F.conv_transpose2d(x, w, **options), x, w, tolerance=1e-4)


def test_benchmark_mode_finds_an_algorithm() -> None:
    torch.backends.cudnn.benchmark = True
    try:
        x, w = torch.randn(2, 8, 12, 12), torch.randn(8, 8, 3, 3)
        assert_gradients(lambda x, w: F.conv2d(x, w, padding=1), x, w, tolerance=1e-4)
    finally:
        torch.backends.cudnn.benchmark = False


# --- Recurrent networks --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_those_of_the_cpu(kind: str) -> None:
    layer = getattr(torch.nn, kind)(20, 30, num_layers=2, bidirectional=True)
    x = torch.randn(7, 4, 20)
    out = layer(x)[0]
    out.sum().backward()
    grads = [p.grad for p in layer.parameters()]
    layer.zero_grad()
    layer.cuda()
    device = layer(x.cuda())[0]
    device.sum().backward()
    assert_close(out.detach(), device.detach())
    for cpu, p in zip(grads, layer.parameters(), strict=True):
        assert_close(cpu, p.grad, 1e-4)


# --- Attention -----------------------------------------------------------------------------------


def attention_cases() -> list[tuple[str, tuple[tuple[int, ...], ...], dict[str, object]]]:
    mask = torch.rand(2, 1, 6, 9) > 0.3
    return [
        ("plain", ((2, 3, 6, 8), (2, 3, 9, 8), (2, 3, 9, 5)), {}),
        ("causal", ((2, 3, 70, 16), (2, 3, 70, 16), (2, 3, 70, 16)), {"is_causal": True}),
        ("bools", ((2, 3, 6, 8), (2, 3, 9, 8), (2, 3, 9, 8)), {"attn_mask": mask}),
        ("added", ((2, 3, 6, 8), (2, 3, 9, 8), (2, 3, 9, 8)), {"attn_mask": mask.float()}),
        ("shared", ((2, 6, 6, 8), (2, 2, 9, 8), (2, 2, 9, 8)), {"enable_gqa": True}),
        ("long", ((1, 2, 5, 32), (1, 2, 3000, 32), (1, 2, 3000, 32)), {"scale": 0.3}),
        ("few dimensions", ((6, 8), (9, 8), (9, 8)), {}),
    ]


@pytest.mark.parametrize("case", attention_cases(), ids=lambda case: case[0])
def test_attention_is_that_of_the_cpu(case: tuple[str, object, dict[str, object]]) -> None:
    _, shapes, options = case
    tensors = [torch.randn(shape) for shape in shapes]
    mask = options.get("attn_mask")

    def attend(*qkv: torch.Tensor) -> torch.Tensor:
        given = {} if mask is None else {"attn_mask": mask.to(qkv[0].device)}
        return F.scaled_dot_product_attention(*qkv, **{**options, **given})

    assert_gradients(attend, *tensors, tolerance=5e-5)
    exact = gradients(attend, *tensors)
    if mask is None or mask.dtype == torch.bool:
        half = gradients(attend, *(x.to(torch.bfloat16).cuda() for x in tensors))
        for ours, theirs in zip(exact, half, strict=True):
            assert_close(ours, theirs, 4e-2)


def test_attention_reads_transposed_heads() -> None:
    x = torch.randn(2, 10, 3 * 4 * 8)

    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 10, 4, 8).transpose(1, 2) for part in x.split(32, dim=2))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    assert_gradients(attend, x)


@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_maxima_pass_their_gradients_back_the_same_way_each_time(
    layout: object, dtype: torch.dtype
) -> None:
    x = torch.randperm(2 * 16 * 13 * 11).reshape(2, 16, 13, 11).to(torch.float64)
    x = (x / 8).to(dtype).contiguous(memory_format=layout)
    for options in ((2,), (3, 2, 1), (3, 1, 1, 2), (2, 2, 0, 1, True)):
        first, again = (
            gradients(lambda x, o=options: F.max_pool2d(x, *o), x.cuda()) for _ in range(2)
        )
        expected = gradients(lambda x, o=options: F.max_pool2d(x, *o), x.double())
        for a, b, c in zip(first, again, expected, strict=True):
            assert torch.equal(a, b)
            assert_close(c, a, 2e-2 if dtype == torch.bfloat16 else 1e-5)
    empty = x.cuda().requires_grad_()
    F.adaptive_max_pool2d(empty, (0, 2)).sum().backward()
    assert not empty.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_batch_norm_moves_its_running_statistics_as_on_the_cpu(dtype: torch.dtype) -> None:
    cpu, device = torch.nn.BatchNorm2d(12), torch.nn.BatchNorm2d(12).cuda()
    for _ in range(3):
        x = torch.randn(4, 12, 5, 5) * 3 + 7
        cpu(x.to(dtype).float()), device(x.to(dtype).cuda())
    version = device.running_mean._version
    assert_close(cpu.running_mean, device.running_mean, 1e-5)
    assert_close(cpu.running_var, device.running_var, 1e-5)
    device.eval(), cpu.eval()
    assert_close(cpu(x), device(x.cuda()), 1e-5)
    assert device.running_mean._version == version > 0


def test_complex_convolution_is_that_of_the_cpu() -> None:
    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=torch.complex128)

    x, w, bias = random(2, 4, 9, 8), random(6, 2, 3, 3), random(6)

    def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        y = F.conv2d(x, w, bias, stride=2, padding=1, groups=2)
        return torch.view_as_real(y)

    for ours, theirs in zip(
        gradients(run, x, w, bias), gradients(run, x.cuda(), w.cuda(), bias.cuda()), strict=True
    ):
        assert (ours - theirs.cpu()).abs().max() < 1e-9


@pytest.mark.parametrize("rows", [1, 300, 16384, 40000])
def test_the_mean_of_cross_entropy_leaves_out_what_is_ignored(rows: int) -> None:
    x, target = torch.randn(rows, 10), torch.randint(0, 10, (rows,))
    target[::3] = -100 if rows > 1 else 4

    def loss(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, target.to(x.device)).reshape(1) * 100

    assert_gradients(loss, x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_gradient_of_dropout_is_what_was_kept(dtype: str) -> None:
    x = torch.randn(70, 33, device="cuda", dtype=getattr(torch, dtype), requires_grad=True)
    y = F.dropout(x, 0.25)
    weights = torch.randn(33, 70, device="cuda", dtype=x.dtype, requires_grad=True).t()
    (grad,) = torch.autograd.grad(y, x, weights, create_graph=True)
    (again,) = torch.autograd.grad(F.dropout(x, 0.25).sum(), x)
    kept = (y != 0).to(x.dtype)
    torch.testing.assert_close(grad, weights * kept / 0.75)
    scale = torch.tensor(1 / 0.75, dtype=torch.float64).to(x.dtype)
    assert set(again.unique().tolist()) == {0.0, float(scale)}
    (second,) = torch.autograd.grad(grad.sum(), weights)
    torch.testing.assert_close(second, kept / 0.75)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("classes", [2, 7, 1000, 1025, 4096, 9001])
def test_cross_entropy_of_rows_that_begin_anywhere(classes: int, smoothing: float) -> None:
    many, target = torch.randn(12 * classes + 1) * 5, torch.randint(0, classes, (11,))
    target[3] = -100

    def loss(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(
            x, target.to(x.device), label_smoothing=smoothing, reduction="none"
        ) + F.cross_entropy(x, target.to(x.device), label_smoothing=smoothing)

    for start in (0, 1, classes):
        assert_gradients(loss, many[start : start + 11 * classes].view(11, classes))
        part = many.cuda()[start : start + 11 * classes].view(11, classes)
        assert_close(loss(part.cpu()), loss(part))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_of_one_class_is_nothing_but_rounding(smoothing: float) -> None:
    x = torch.randn(5, 1, device="cuda", requires_grad=True)
    target = torch.zeros(5, dtype=torch.int64, device="cuda")
    F.cross_entropy(x, target, label_smoothing=smoothing).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.zeros_like(x), rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_optimizers_reach_every_element_of_tensors_of_any_size(name: str) -> None:
    sizes = [1, 1000, 1024, 1025, 70_000] * 9 + [5_000_000]
    start, gradient = torch.randn(sum(sizes)), torch.randn(sum(sizes))
    results = []
    for device in ("cpu", "cuda"):
        params = [torch.nn.Parameter(p.clone().to(device)) for p in start.split(sizes)]
        optimizer = getattr(torch.optim, name)(params, lr=0.1)
        for p, g in zip(params, gradient.split(sizes), strict=True):
            p.grad = g.to(device)
        optimizer.step()
        results.append(torch.cat([p.detach().cpu() for p in params]))
    assert (results[0] - results[1]).abs().max() < 1e-6
    assert not torch.equal(results[0], start)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling_is_that_of_the_cpu(rank: int) -> None:
    pool = getattr(F, f"fractional_max_pool{rank}d")
    x, samples = torch.randn(2, 3, *[9] * rank), torch.rand(2, 3, rank)
    wanted, positions = pool(x, 2, 4, return_indices=True, _random_samples=samples)
    got = pool(x.cuda(), 2, 4, return_indices=True, _random_samples=samples.cuda())
    assert torch.equal(got[0].cpu(), wanted) and torch.equal(got[1].cpu(), positions)
