"""autocast and GradScaler: which dtype an op computes in, and what the scale does to gradients."""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Callable

import pytest

import flambeau as torch
from flambeau.nn import functional as F


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 4)


def test_products_compute_in_low_precision_and_losses_in_single(x):
    with torch.autocast("cpu"):
        product = x @ x
        assert product.dtype == torch.bfloat16
        assert F.mse_loss(product, product).dtype == torch.float32
        assert (product + x).dtype == torch.float32
        assert torch.cat([product, x]).dtype == torch.float32
        assert (x.double() @ x.double()).dtype == torch.float64
    assert (x @ x).dtype == torch.float32


def test_a_device_may_be_named_with_its_number(x):
    with torch.autocast("cpu:0", torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        assert torch.is_autocast_enabled("cpu:0")


def test_a_region_can_be_excepted_and_states_are_put_back(x):
    with torch.autocast("cpu", dtype=torch.float16):
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.float16
        with pytest.raises(ZeroDivisionError), torch.autocast("cpu", dtype=torch.bfloat16):
            raise ZeroDivisionError
        assert torch.get_autocast_dtype("cpu") == torch.float16
    assert not torch.is_autocast_enabled("cpu")


def test_gradients_come_back_in_the_dtype_of_the_parameter_cast_once(x):
    weight = torch.nn.Parameter(x.clone())
    with torch.autocast("cpu"):
        loss = ((x @ weight) @ weight).float().sum()
    loss.backward()
    assert weight.grad.dtype == torch.float32
    exact = weight.detach().requires_grad_()
    ((x @ exact) @ exact).sum().backward()
    assert torch.allclose(weight.grad, exact.grad, rtol=0.1, atol=0.2)


def test_other_threads_are_not_affected(x):
    found = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert found == [torch.float32]


def test_a_decorated_function_and_the_older_names(x):
    @torch.autocast("cpu")
    def product():
        return x @ x

    assert product().dtype == torch.bfloat16
    with pytest.warns(FutureWarning, match=r"Please use `torch.amp.autocast\('cpu', args...\)` in"):
        older = torch.cpu.amp.autocast()
    with older:
        assert (x @ x).dtype == torch.bfloat16
    with pytest.warns(FutureWarning, match=r"`torch.cuda.amp.GradScaler\(args...\)` is deprecated"):
        assert isinstance(torch.cuda.amp.GradScaler(enabled=False), torch.amp.GradScaler)
    words = r"use `torch.amp.custom_fwd\(args..., device_type='cuda'\)` instead"
    with pytest.warns(FutureWarning, match=words):
        assert torch.cuda.amp.custom_fwd(lambda context, x: x) is not None
    with pytest.raises(RuntimeError, match=r"Expected one of .* device type at start of"):
        torch.autocast("tpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks about a machine without CUDA")
def test_cuda_names_warn_and_do_nothing_without_a_device(x):
    with pytest.warns(UserWarning, match="CUDA is not available"):
        context = torch.cuda.amp.autocast()
    with context:
        assert (x @ x).dtype == torch.float32
    with pytest.warns(UserWarning, match="Disabling"):
        scaler = torch.cuda.amp.GradScaler()
    assert not scaler.is_enabled() and scaler.scale(x) is x


def test_an_overflow_skips_the_step_and_shrinks_the_scale():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    scaler.scale((parameter * math.inf).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(parameter.sum() / 2).backward()
    assert parameter.grad.tolist() == [1.0, 1.0]
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.5, 0.5] and scaler.get_scale() == 4.0


def test_the_scaler_refuses_calls_in_the_wrong_order():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu")
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)


def test_functions_made_of_ops_are_cast_inside() -> None:
    x = torch.randn(2, 5, 16)
    attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert attention(x, x, x)[0].dtype == torch.bfloat16


def test_cross_entropy_reads_half_precision_without_a_copy() -> None:
    x, w = torch.randn(4, 10, requires_grad=True), torch.randn(10, 10, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(x @ w, torch.tensor([1, 2, 3, 4]))
    assert loss.dtype == torch.float32 and loss.grad_fn is not None
    assert [node.name() for node, _ in loss.grad_fn.next_functions] == ["MmBackward0"]


def test_reflected_and_replicated_padding_is_exact_on_the_cpu() -> None:
    x = torch.randn(2, 3, 4, 4, dtype=torch.bfloat16)
    dtypes = {}
    with torch.autocast("cpu", torch.bfloat16):
        for mode in ("constant", "reflect", "replicate", "circular"):
            dtypes[mode] = torch.nn.functional.pad(x, (1, 1, 1, 1), mode=mode).dtype
    exact = {mode for mode, dtype in dtypes.items() if dtype == torch.float32}
    assert exact == {"reflect", "replicate"}


def test_ops_choose_on_the_cpu_as_pytorch_does() -> None:
    low, single = torch.bfloat16, torch.float32
    x, images = torch.rand(4, 4), torch.rand(2, 4, 4, 4)
    rows = torch.rand(3, 4, 4)

    def dtypes(make: Callable[[torch.dtype], torch.Tensor]) -> tuple[torch.dtype, torch.dtype]:
        with torch.autocast("cpu"):
            return make(single).dtype, make(low).dtype

    # Vectors are not worth a cast, and what stands on products of others is cast with them.
    assert dtypes(lambda d: torch.mv(x.to(d), x[0].to(d))) == (single, low)
    assert dtypes(lambda d: torch.tensordot(x.to(d), x.to(d), 1)) == (low, low)
    assert dtypes(lambda d: torch.nn.RNN(4, 4)(rows.to(d))[0]) == (low, low)
    assert dtypes(lambda d: torch.nn.GRU(4, 4)(rows.to(d))[0]) == (single, low)
    assert dtypes(lambda d: torch.nn.LSTMCell(4, 4)(x.to(d))[0]) == (single, low)
    # What half precision has no kernel for, or loses too much by, is computed in single.
    assert dtypes(lambda d: torch.cdist(x.to(d), x.to(d))) == (single, single)
    assert dtypes(lambda d: torch.linalg.solve(torch.eye(4), x.to(d))) == (single, single)
    assert dtypes(lambda d: torch.fft.rfft(x.to(d)).real) == (single, single)
    grid = torch.rand(2, 3, 3, 2)
    assert dtypes(lambda d: F.grid_sample(images.to(d), grid.to(d), align_corners=False)) == (
        single,
        single,
    )


def test_a_scaler_counts_on_the_device_and_survives_pickling() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.scale(torch.ones(()))
        scaler.update()
    assert isinstance(scaler._scale, torch.Tensor)
    half = torch.tensor(60_000.0, dtype=torch.float16)
    assert scaler.scale(half).item() == 480_000.0  # not in half precision
    scaler.update(torch.tensor([32.0]))
    copied = pickle.loads(pickle.dumps(scaler))
    assert copied.get_scale() == 32.0 and copied.state_dict() == scaler.state_dict()


def test_an_optimizer_that_can_divides_by_the_scale_itself() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([parameter], lr=0.5, weight_decay=0.0, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale((parameter * torch.tensor([1.0, math.inf])).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    assert parameter.grad.tolist() == [2.0, 2.0]  # still scaled
    assert parameter.tolist() == pytest.approx([0.5, 0.5], abs=1e-5)


def test_a_result_that_is_given_is_written_and_not_cast() -> None:
    x, out = torch.randn(3, 3), torch.zeros(3, 3)
    with torch.autocast("cpu"):
        assert torch.mm(x, x, out=out) is out
    assert torch.equal(out, x @ x)


@pytest.mark.parametrize(
    "equation, shapes, low",
    [
        ("ij,jk->ik", [(2, 3), (3, 2)], True),
        ("...i,...i->...", [(2, 3), (2, 3)], True),
        ("i,j->ij", [(2,), (3,)], False),
        ("...i,...i->...", [(2, 1), (2, 1)], False),
        ("ij,jk->ik", [(2, 1), (3, 2)], False),
        ("b i, b i -> b i", [(2, 3), (2, 3)], False),
        ("ij->i", [(2, 3)], False),
        ("i...,i...", [(2, 3), (2, 3)], True),
    ],
)
def test_einsum_is_a_product_only_where_it_adds_up(equation, shapes, low) -> None:
    operands = [torch.ones(shape) for shape in shapes]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = torch.einsum(equation, *operands)
    assert result.dtype is (torch.bfloat16 if low else torch.float32)
