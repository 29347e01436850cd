"""Rare arguments and shapes of layers, which tell whether they were written from a guess."""

from __future__ import annotations

import pytest
from compare import Comparison
from test_nn_and_optim import STATE, check

D = "D = torch.float64"
TRAIN = ("y = m(x)", "(y * y.cos()).sum().backward()", "grads = [p.grad for p in m.parameters()]")


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling_by_infinite_norms(rank: int, comparison: Comparison) -> None:
    for arguments in ("float('inf'), 2", "-float('inf'), 3, 1", "float('inf'), 3, 2, True", "0, 2"):
        check(
            comparison, D, f"x = torch.randn({(2, 3, 7, 6, 5)[: rank + 2]}, dtype=D)",
            f"m, x = nn.LPPool{rank}d({arguments}), x.requires_grad_()", *TRAIN,
        )  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 3, 4, 5, 6), (4, 5), (3,), (2, 2, 3, 4, 5, 6)])
def test_adaptive_averages_of_any_number_of_dimensions(
    shape: tuple[int, ...], comparison: Comparison
) -> None:
    for layer in ("AdaptiveAvgPool2d(1)", "AdaptiveAvgPool3d(1)", "AdaptiveAvgPool2d(2)"):
        check(comparison, D, f"x = torch.randn({shape}, dtype=D)", f"y = nn.{layer}(x)")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_cross_map_normalization(size: int, comparison: Comparison) -> None:
    check(
        comparison, f"m = nn.CrossMapLRN2d({size}, 0.5, 0.75, 2.0)", "text = repr(m)",
        "y = m(torch.randn(2, 7, 3, 2))", "z = m(torch.randn(2, 7, 3, 2).bfloat16())",
        "w = m(torch.randn(2, 7, 3))",
    )  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 4, 5), (4,), (2, 4, 3, 2), (2, 4, 3, 2, 2)])
def test_dropout_of_channels_of_fewer_dimensions(
    shape: tuple[int, ...], comparison: Comparison
) -> None:
    for layer in ("Dropout3d()", "Dropout3d(0.3, True)"):
        check(comparison, f"y = nn.{layer}(torch.randn({shape}, dtype=torch.float64))", STATE)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Batch", "Instance"])
def test_lazy_norms_of_another_dtype(kind: str, rank: int, comparison: Comparison) -> None:
    shape = (2, 4, 5, 3, 2)[: rank + 2]
    check(
        comparison, D, f"m = nn.Lazy{kind}Norm{rank}d().to(D)", "early = repr(m)",
        f"x = torch.randn({shape}, dtype=D).requires_grad_()", *TRAIN,
        "after, text = dict(m.state_dict()), repr(m)",
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_cubic_samples_of_volumes(
    padding: str, align_corners: bool, comparison: Comparison
) -> None:
    check(
        comparison, D, "x = torch.randn(2, 3, 5, 4, 3, dtype=D).requires_grad_()",
        "p = (torch.rand(2, 4, 6, 3, 3, dtype=D) * 3 - 1.5).requires_grad_()",
        f"y = F.grid_sample(x, p, 'bicubic', {padding!r}, {align_corners})",
        "(y * y).sum().backward()",
    )  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        "nn.AdaptiveMaxPool1d((3,))(torch.ones(2))",
        "F.adaptive_max_pool1d(torch.ones(2, 4, 7), (2, 2))",
        "F.avg_pool3d(torch.ones(1, 1, 2, 4, 4), 3, ceil_mode=True)",
        "F.avg_pool3d(torch.ones(1, 1, 1, 1, 1), 3, 2, 1)",
        "F.celu(torch.ones(2), 0.0)",
        "F.lp_pool2d(torch.ones(2, 4, 4), 0, 2)",
        "nn.RMSNorm((4, 5))(torch.ones(5))",
        "F.pad(torch.ones(3), (1,), 'mirror')",
        "F.interpolate(torch.ones(1, 1, 3, 3), 2, mode='lanczos', antialias=True, "
        "align_corners=False)",
        "F.interpolate(torch.ones(1, 1, 3, 3), 2, mode='lanczos', antialias=True, "
        "align_corners=True)",
        "F.soft_margin_loss(torch.ones(3), torch.ones(3), reduction='elementwise_mean')",
    ],
)
def test_what_is_refused(call: str, comparison: Comparison) -> None:
    check(comparison, f"y = {call}")


def test_power_iterations_write_to_the_buffers(comparison: Comparison) -> None:
    check(
        comparison, "m = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))",
        "before = dict(m.state_dict())", "y = m(torch.randn(2, 3))", "after = dict(m.state_dict())",
        "same = all(torch.equal(before[k], after[k]) for k in after)",
    )  # fmt: skip
