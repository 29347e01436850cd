"""Custom functions in forward mode and in vmap, and forward mode where recording is off."""

from __future__ import annotations

from typing import Any

import pytest

import flambeau as torch
import flambeau.autograd.forward_ad as forward_ad
from flambeau.autograd import Function
from flambeau.func import jacrev, jvp, linearize, stack_module_state, vjp, vmap


class Scaled(Function):
    """x -> k x^2, whose jvp is ten times too large, so that it can be told from the derivative."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, k: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.k = k
        return k * x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return 2 * ctx.k * x * grad, None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: None) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 20 * ctx.k * x * tangent


def test_a_functions_jvp_gives_the_tangent() -> None:
    x, t = torch.tensor([1.0, 2.0]), torch.tensor([1.0, -1.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, t)
        y = Scaled.apply(3 * dual, 2.0)
        torch.testing.assert_close(forward_ad.unpack_dual(y).tangent, 360 * x * t)
        z = y.sin() + dual
        expected = (18 * x * x).cos() * 360 * x * t + t
        torch.testing.assert_close(forward_ad.unpack_dual(z).tangent, expected)


def test_backward_passes_a_function_with_a_jvp() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with forward_ad.dual_level():
        y = Scaled.apply(forward_ad.make_dual(x, torch.ones(2)), 1.0)
        primal, tangent = forward_ad.unpack_dual(y)
        assert torch.autograd.grad(tangent.sum(), x, retain_graph=True)[0].tolist() == [20, 20]
        assert torch.autograd.grad(primal.sum(), x)[0].tolist() == [2, 4]


def test_a_jvp_gives_a_tangent_for_each_output() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return x * 2, x * 3

        @staticmethod
        def jvp(ctx: Any, t: torch.Tensor) -> Any:
            return t * 2

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        with pytest.raises(RuntimeError, match="expected 2 but got 1"):
            Two.apply(dual)


def test_a_jvp_of_a_function_that_writes_into_its_argument() -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return 2 * grad

        @staticmethod
        def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
            assert ctx.saved_tensors == ()  # nothing was saved for forward mode
            return tangent.mul_(2)

    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: Double.apply(x.clone()), x, check_forward_ad=True)


def test_forward_mode_works_where_recording_is_off() -> None:
    weight = torch.tensor([3.0], requires_grad=True)
    with torch.no_grad(), forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.tensor([2.0]), torch.ones(1))
        primal, tangent = forward_ad.unpack_dual(dual * dual * weight)
    assert (primal.item(), tangent.item()) == (12.0, 12.0)
    assert not primal.requires_grad
    assert not tangent.requires_grad
    with torch.no_grad(), forward_ad.dual_level():
        pass
    assert torch.is_grad_enabled()


def test_tangents_are_printed() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert str(dual * 2) == "tensor([2., 2.], tangent=tensor([2., 2.]))"


def test_vmap_calls_the_rule_of_a_function() -> None:
    calls = []

    class Add(Function):
        @staticmethod
        def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> Any:
            return grad, grad

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            calls.append((info.batch_size, in_dims))
            return Add.apply(x, y.expand_as(x)).mT, 1

    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(vmap(Add.apply, (0, None))(x, torch.ones(3)), x + 1)
    assert calls == [(2, (0, None))]


def test_rules_for_vmap_that_are_wrong() -> None:
    class One(Function):
        @staticmethod
        def forward(x: torch.Tensor) -> torch.Tensor:
            return x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
            return x

    class Both(One):
        generate_vmap_rule = True

    class Dims(One):
        @staticmethod
        def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
            return x, (0, 0)

    for function, message in ((One, "two returns"), (Both, "both"), (Dims, "incompatible")):
        with pytest.raises(RuntimeError, match=message):
            vmap(function.apply)(torch.ones(2, 3))


def test_products_of_a_batch_with_one_jacobian() -> None:
    x = torch.randn(3)
    eye = torch.eye(3)
    _, product = vjp(torch.sin, x)
    assert torch.equal(vmap(lambda v: product(v)[0])(eye), x.cos().diag())
    _, product = linearize(torch.sin, x)
    assert torch.equal(vmap(product)(eye), x.cos().diag())
    leaf = x.clone().requires_grad_()
    y = leaf.sin()  # the graph is freed: all products are one pass
    assert torch.equal(vmap(lambda v: torch.autograd.grad(y, leaf, v)[0])(eye), x.cos().diag())


def test_jvp_of_a_function_that_writes_into_its_argument() -> None:
    out, tangent = jvp(lambda x: x.mul_(3).exp(), (torch.zeros(2),), (torch.ones(2),))
    assert (out.tolist(), tangent.tolist()) == ([1, 1], [3, 3])


def test_what_transforms_refuse() -> None:
    x = torch.ones(3)
    for call, message in (
        (lambda: vjp(lambda x: (x, 1.0), x, has_aux=True), "Expected tensors, got unsupported"),
        (lambda: vjp(lambda x: x, x, has_aux=True), r"vjp\(f, \*primals\): output of function f"),
        (lambda: jvp(lambda x: (), (x,), (x,)), "non-empty output"),
        (lambda: jacrev(lambda x: None)(x), "non-empty output"),
        (lambda: jacrev(lambda x: 3)(x), "return only tensors"),
        (lambda: jacrev(lambda x: x, argnums=(0.0,))(x), "argnum must be int"),
        (lambda: jacrev(lambda x: x, argnums=[0])(x), r"int or Tuple\[int"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    with pytest.raises(ValueError, match="chunk_size"):
        jacrev(lambda x: x, chunk_size=0)
    models = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    models[0].weight.requires_grad_(False)
    with pytest.raises(RuntimeError, match=r"the same \.requires_grad"):
        stack_module_state(models)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((torch.ones(2), torch.ones(2)), r"forward gradients \(expected 1 but got 2\)"),
        (3, r"expected Variable or None \(got int\) for grad output 0"),
        (torch.ones(7), "different size"),
    ],
)
def test_what_a_jvp_may_not_return(returned: Any, message: str) -> None:
    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def jvp(ctx: Any, tangent: torch.Tensor) -> Any:
            return returned

    with forward_ad.dual_level(), pytest.raises(RuntimeError, match=message):
        Double.apply(forward_ad.make_dual(torch.ones(2), torch.ones(2)))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_the_derivative_of_samples_by_image_and_grid(mode: str, padding: str) -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    grid = torch.rand(2, 3, 2, 2, dtype=torch.float64) * 2.2 - 1.1
    along = torch.randn_like(image), torch.randn_like(grid)

    def sample(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.grid_sample(x, g, mode, padding, align_corners=False)

    _, change = torch.func.jvp(sample, (image, grid), along)
    step = 1e-6
    ahead = sample(image + step * along[0], grid + step * along[1])
    behind = sample(image - step * along[0], grid - step * along[1])
    torch.testing.assert_close(change, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-7)


def test_what_is_unpacked_leads_back_to_leaves_outside_of_the_level() -> None:
    x, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0], requires_grad=True)
    with forward_ad.dual_level():
        primal, tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, torch.ones(2)) ** 2 * w)
        alone = forward_ad.unpack_dual(forward_ad.make_dual(x, torch.ones(2)) ** 2)
    assert primal.requires_grad and not alone.primal.requires_grad
    assert not alone.tangent.requires_grad
    assert torch.autograd.grad(tangent.sum(), w)[0].tolist() == [2, 4]
    assert torch.autograd.grad(primal.sum(), w)[0].tolist() == [1, 4]
    with torch.no_grad(), forward_ad.dual_level():
        primal, tangent = forward_ad.unpack_dual(forward_ad.make_dual(x, torch.ones(2)) * w)
    assert not primal.requires_grad and not tangent.requires_grad
