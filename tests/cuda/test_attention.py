"""Attention by fused kernels, cuDNN's in half and our own in single precision, against float64."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F

# name: heads, heads of keys, queries, keys, width, width of values, options
CASES = [
    ("plain", 4, 4, 128, 128, 64, 64, {}),
    ("causal", 4, 4, 256, 256, 64, 64, {"is_causal": True}),
    ("causal, few keys", 2, 2, 200, 70, 32, 32, {"is_causal": True}),
    ("causal, many keys", 2, 2, 70, 200, 32, 32, {"is_causal": True}),
    ("odd lengths", 3, 3, 77, 101, 64, 64, {}),
    ("scaled", 2, 2, 64, 64, 128, 128, {"scale": 0.3}),
    ("grouped", 8, 2, 128, 128, 64, 64, {"is_causal": True, "enable_gqa": True}),
    ("one head of keys", 4, 1, 96, 160, 64, 64, {"enable_gqa": True}),
    ("wide", 2, 2, 128, 128, 256, 256, {"is_causal": True}),
    ("narrow", 2, 2, 64, 64, 8, 8, {}),
    ("widths that differ", 2, 2, 33, 65, 40, 24, {}),
    ("one query", 4, 4, 1, 300, 64, 64, {}),
    ("no multiple of eight", 2, 2, 20, 30, 13, 13, {}),
]


def gradients(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: object) -> list:
    """The result, and the gradients of queries, keys and values."""
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*leaves, **options)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).reshape(out.shape)
    (out * weights.to(out.device, out.dtype)).sum().backward()
    return [out.detach(), *(x.grad for x in leaves)]


def assert_near(ours: torch.Tensor, exact: torch.Tensor, tolerance: float) -> None:
    assert ours.shape == exact.shape
    distance = (ours.cpu().double() - exact).norm() / exact.norm().clamp(min=1e-12)
    assert distance < tolerance, float(distance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_it_gives_the_numbers_of_double_precision(case: tuple, dtype: torch.dtype) -> None:
    _, heads, kv_heads, queries, keys, width, value_width, options = case
    q = torch.randn(3, heads, queries, width).to(dtype)
    k = torch.randn(3, kv_heads, keys, width).to(dtype)
    v = torch.randn(3, kv_heads, keys, value_width).to(dtype)
    exact = gradients(q.double(), k.double(), v.double(), **options)
    ours = gradients(q.cuda(), k.cuda(), v.cuda(), **options)
    for a, b in zip(ours, exact, strict=True):
        assert a.dtype == dtype
        assert_near(a, b, 2e-2 if dtype == torch.bfloat16 else 3e-3)


@pytest.mark.parametrize("deterministic", [False, True])
def test_it_reads_heads_that_lie_side_by_side(deterministic: bool) -> None:
    x = torch.randn(2, 130, 3 * 4 * 64).bfloat16()

    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 130, 4, 64).transpose(1, 2) for part in x.split(256, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(2, 130, 256)

    results = []
    torch.use_deterministic_algorithms(deterministic)
    try:
        for given in (x.double(), x.cuda(), x.cuda()):
            leaf = given.requires_grad_()
            y = attend(leaf)
            y.backward(torch.ones_like(y))
            results.append((y.detach(), leaf.grad))
    finally:
        torch.use_deterministic_algorithms(False)
    for ours, exact in zip(results[1], results[0], strict=True):
        assert_near(ours, exact, 2e-2)
    if deterministic:
        assert torch.equal(results[1][1], results[2][1])


def test_expanded_tensors_and_gradients_are_taken() -> None:
    q, k = torch.randn(1, 2, 64, 32).half(), torch.randn(1, 2, 64, 32).half()
    ours = F.scaled_dot_product_attention(
        (a := q.cuda().requires_grad_()).expand(3, 2, 64, 32), k.cuda(), k.cuda()
    )
    ours.sum().backward()
    b = q.double().requires_grad_()
    exact = F.scaled_dot_product_attention(b.expand(3, 2, 64, 32), k.double(), k.double())
    exact.sum().backward()
    assert_near(ours.detach(), exact.detach(), 3e-3)
    assert (a.grad.cpu().double() - b.grad).abs().max() < 1e-2


def memory_of_attention(dtype: torch.dtype) -> float:
    """What both passes over 4,096 tokens take, in tensors; the scores would be 64 of them."""
    shape = (2, 8, 4096, 64)
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype).requires_grad_() for _ in range(3))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
    torch.cuda.synchronize()
    used = torch.cuda.max_memory_allocated() - before
    return used / (q.numel() * q.element_size())


def test_it_holds_no_matrix_of_scores() -> None:
    assert memory_of_attention(torch.bfloat16) < 16


def test_it_can_be_differentiated_twice() -> None:
    q, k, v = (torch.randn(1, 2, 16, 8).bfloat16().cuda().requires_grad_() for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v)
    (first,) = torch.autograd.grad(out.float().square().sum(), q, create_graph=True)
    (second,) = torch.autograd.grad(first.float().square().sum(), k)
    assert second.shape == k.shape and bool(second.isfinite().all())


@pytest.mark.large
@pytest.mark.parametrize("sizes", [(1100, 1100), (1536, 700), (1024, 2000)], ids=str)
def test_causal_attention_in_single_precision_leaves_out_what_is_not_seen(
    sizes: tuple[int, int],
) -> None:
    queries, keys = sizes
    q = torch.randn(2, 4, queries, 16)
    k, v = torch.randn(2, 2, keys, 16), torch.randn(2, 2, keys, 24)
    options = {"is_causal": True, "enable_gqa": True}
    exact = gradients(q.double(), k.double(), v.double(), **options)
    ours = gradients(q.cuda(), k.cuda(), v.cuda(), **options)
    for a, b in zip(ours, exact, strict=True):
        assert_near(a, b, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dropout_is_drawn_in_the_kernel_and_again_in_backward(dtype: torch.dtype) -> None:
    n = 64
    q = torch.zeros(2, 3, n, n, dtype=dtype, device="cuda").requires_grad_()
    k = torch.zeros(2, 3, n, n, dtype=dtype, device="cuda")
    v = torch.eye(n, dtype=dtype, device="cuda").expand(2, 3, n, n).contiguous().requires_grad_()
    torch.manual_seed(3)
    out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    again = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    torch.manual_seed(3)
    same = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    assert torch.equal(out, same) and not torch.equal(out, again)
    # All weights are alike, so that the result shows which were kept.
    kept = out.detach() != 0
    assert 0.7 < kept.float().mean() < 0.8
    expected = torch.full_like(out, 1 / (0.75 * n))
    torch.testing.assert_close(out[kept], expected[kept], rtol=1e-2, atol=0)
    weights = torch.randn_like(out.detach())
    out.backward(weights)
    exact = out.detach().double().mT @ weights.double()
    assert (v.grad.double() - exact).norm() / exact.norm() < 1e-2
    assert not out.detach()[kept].isnan().any() and bool(q.grad.isfinite().all())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_single_precision_is_as_exact_as_the_formula(case: tuple) -> None:
    _, heads, kv_heads, queries, keys, width, value_width, options = case
    q = torch.randn(2, heads, queries, width)
    k = torch.randn(2, kv_heads, keys, width)
    v = torch.randn(2, kv_heads, keys, value_width)
    exact = gradients(q.double(), k.double(), v.double(), **options)
    for a, b in zip(gradients(q.cuda(), k.cuda(), v.cuda(), **options), exact, strict=True):
        assert a.dtype == torch.float32
        assert_near(a, b, 4e-6)


def test_single_precision_stays_exact_over_many_keys() -> None:
    """Tensor cores cut off where sums should be rounded; values of one sign show what that adds.
    Gradients of queries and keys are then small differences, on the CPU as well."""
    q, k = torch.randn(1, 2, 64, 64), torch.randn(1, 2, 8192, 64)
    v = torch.rand(1, 2, 8192, 64) + 1
    exact = gradients(q.double(), k.double(), v.double())
    plain = gradients(q, k, v)
    ours = gradients(q.cuda(), k.cuda(), v.cuda())
    for a, b, c in zip(ours, plain, exact, strict=True):
        rounding = float((b.double() - c).norm() / c.norm())
        assert_near(a, c, 4 * rounding + 1e-6)


def test_numbers_that_are_none_stay_none_in_single_precision() -> None:
    for tf32 in (False, True):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        try:
            q, k, v = (torch.randn(1, 1, 70, 64, device="cuda") for _ in range(3))
            v[0, 0, 3, 5] = torch.nan
            out = F.scaled_dot_product_attention(q, k, v)
            assert out[..., 5].isnan().all() and out.isnan().sum() == 70
            k[0, 0, 68] = torch.nan
            assert F.scaled_dot_product_attention(q, k, v).isnan().all()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False


@pytest.mark.parametrize("width", [24, 64, 128])
@pytest.mark.parametrize("kind", ["bool", "float", "by head", "blind rows"])
def test_masks_in_single_precision(kind: str, width: int) -> None:
    q, k, v = (torch.randn(2, 3, steps, width) for steps in (90, 150, 150))
    mask = torch.rand(2, 1, 90, 150) < 0.7
    if kind == "blind rows":
        mask[0, 0, 5] = False
        mask[1, 0, 70:] = False
    if kind == "float":
        mask = torch.randn(90, 150).masked_fill(~mask[0, 0], -torch.inf)
    if kind == "by head":
        mask = torch.randn(3, 1, 150)
    wide = mask if mask.dtype == torch.bool else mask.double()
    exact = gradients(q.double(), k.double(), v.double(), attn_mask=wide)
    ours = gradients(q.cuda(), k.cuda(), v.cuda(), attn_mask=mask.cuda())
    for a, b in zip(ours, exact, strict=True):
        assert not a.isnan().any()
        assert_near(a, b, 4e-6)


def test_single_precision_reads_heads_that_lie_side_by_side_the_same_in_every_run() -> None:
    x = torch.randn(2, 130, 3 * 4 * 64)

    def attend(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(2, 130, 4, 64).transpose(1, 2) for part in x.split(256, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(2, 130, 256)

    results = []
    for given in (x.double(), x.cuda(), x.cuda()):
        leaf = given.requires_grad_()
        attend(leaf).square().sum().backward()
        results.append(leaf.grad)
    assert_near(results[1], results[0], 4e-6)
    assert torch.equal(results[1], results[2])


def test_tf32_is_used_where_a_program_allows_it() -> None:
    q, k, v = (torch.randn(2, 4, 300, 64) for _ in range(3))
    exact = gradients(q.double(), k.double(), v.double(), is_causal=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        ours = gradients(q.cuda(), k.cuda(), v.cuda(), is_causal=True)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    for a, b in zip(ours, exact, strict=True):
        assert_near(a, b, 2e-3)
    assert (ours[0].cpu().double() - exact[0]).norm() / exact[0].norm() > 1e-5


def test_single_precision_holds_no_matrix_of_scores() -> None:
    assert memory_of_attention(torch.float32) < 8


def test_dropout_in_single_precision_keeps_its_formula() -> None:
    q, k, v = (torch.randn(1, 2, 16, 8, device="cuda").requires_grad_() for _ in range(3))
    F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).sum().backward()
    assert bool(q.grad.isfinite().all())
