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


def test_inner_calls_of_compositions_are_cast() -> None:
    x = torch.eye(4) + 0.1 * torch.rand(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        for made in (
            torch.cov(x),
            torch.corrcoef(x),
            torch.linalg.pinv(x),
            torch.linalg.matrix_power(x, 3),
            torch.tensordot(x, x, 1),
        ):
            assert made.dtype == torch.bfloat16
        assert torch.inner(x[0], x[0]).dtype == torch.float32
        # What no other op is made of computes in what it is given.
        assert torch.var(x.bfloat16()).dtype == torch.bfloat16


def test_a_parameter_is_cast_again_where_it_or_the_mode_has_changed() -> None:
    x, weight = torch.eye(3), torch.nn.Parameter(torch.ones(3, 3))
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            assert not torch.mm(x, weight).requires_grad
        kept = torch.mm(x, weight)
        assert kept.requires_grad
        with torch.inference_mode():
            assert torch.mm(x, weight).is_inference()
        assert not torch.mm(x, weight).is_inference()
        with torch.no_grad():
            weight.zero_()
        assert torch.mm(x, weight).sum() == 0
        weight.data = torch.full((3, 3), 2.0)
        assert torch.mm(x, weight).sum() == 18
        with torch.autocast("cpu", torch.float16):
            assert torch.mm(x, weight).dtype == torch.float16
        assert torch.mm(x, weight).dtype == torch.bfloat16
    kept.sum().backward()
    assert weight.grad is not None and weight.grad.dtype == torch.float32


def test_state_is_set_and_read_by_kind_of_device() -> None:
    assert torch._C._is_autocast_available("cuda") and not torch._C._is_autocast_available("meta")
    assert not torch.is_autocast_enabled("mps")  # where nothing ever lies
    try:
        torch.set_autocast_enabled("cpu", True)
        assert torch.is_autocast_enabled("cpu") and torch._C._is_any_autocast_enabled()
        torch.set_autocast_dtype("cpu", torch.float16)
        assert torch.mm(torch.eye(2), torch.eye(2)).dtype == torch.float16
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        torch.set_autocast_enabled("cpu", False)
    assert torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0
    with pytest.warns(DeprecationWarning, match=r"use torch.is_autocast_enabled\('cpu'\) instead"):
        assert not torch.is_autocast_cpu_enabled()
    for wrong in (
        lambda: torch.is_autocast_enabled(3),
        lambda: torch.set_autocast_enabled("cpu", 1),
        lambda: torch.set_autocast_dtype("cpu", 3),
        lambda: torch.set_autocast_cache_enabled(1),
    ):
        with pytest.raises(TypeError):
            wrong()
    for missing in (torch.is_autocast_enabled, torch.get_autocast_dtype):
        with pytest.raises(RuntimeError, match="meta"):
            missing("meta")


def test_modes_subclasses_and_vmap_see_ops_before_they_are_cast() -> None:
    seen = []

    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(args[0].dtype)
            return func(*args, **(kwargs or {}))

    class Own(torch.Tensor):
        pass

    x = torch.rand(3, 3)
    with torch.autocast("cpu", torch.bfloat16):
        with Seen():
            assert torch.mm(x, x).dtype == torch.bfloat16
        made = torch.mm(x.as_subclass(Own), x)
        assert type(made) is Own and made.dtype == torch.bfloat16
        with torch._C.DisableTorchFunction():
            assert torch.mm(x, x).dtype == torch.bfloat16
        assert torch.func.vmap(torch.mm)(x[None], x[None]).dtype == torch.bfloat16
        assert torch.func.vmap(lambda row: row @ x)(x).dtype == torch.bfloat16
        grad = torch.func.grad(lambda a: torch.mm(a, x).float().sum())(x)
        assert grad.dtype == torch.float32
    assert seen[0] == torch.float32


def test_a_class_that_answers_for_operators_gives_the_low_precision() -> None:
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            given = [a.inner if isinstance(a, Wrapped) else a for a in args]
            return cls(func(*given, **(kwargs or {})))

    with torch.autocast("cpu", torch.bfloat16):
        made = torch.mm(Wrapped(torch.rand(3, 3)), torch.rand(3, 3))
    assert type(made) is Wrapped and made.dtype == torch.bfloat16


def test_products_with_sparse_matrices_are_cast() -> None:
    x = torch.rand(3, 3)
    sparse = x.to_sparse()
    with torch.autocast("cpu", torch.bfloat16):
        for made in (torch.mm(sparse, x), torch.sparse.mm(sparse, x), torch.addmm(x, sparse, x)):
            assert made.dtype == torch.bfloat16
        assert (sparse + sparse).dtype == torch.float32


def test_halves_of_both_kinds_have_no_common_precision() -> None:
    with (
        torch.autocast("cpu", torch.bfloat16),
        pytest.raises(RuntimeError, match="Unexpected floating ScalarType"),
    ):
        torch.cat([torch.ones(2), torch.ones(2, dtype=torch.float16)])


def test_losses_made_of_ops_are_exact() -> None:
    x, classes = torch.rand(3, 4).bfloat16(), torch.tensor([0, 2, 1])
    with torch.autocast("cpu", torch.bfloat16):
        assert F.soft_margin_loss(x, x.sign()).dtype == torch.float32
        assert F.multi_margin_loss(x, classes).dtype == torch.float32
        assert F.multilabel_margin_loss(x, torch.zeros(3, 4).long()).dtype == torch.float32
    with torch.autocast("cpu", enabled=False):
        assert F.soft_margin_loss(x, x.sign()).dtype == torch.bfloat16
