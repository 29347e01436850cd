"""Resizing, sampling, folding and unpooling give PyTorch's numbers and errors."""

from __future__ import annotations

import pytest
from compare import Comparison
from test_nn_and_optim import check

LOSS = [
    "(y * y * torch.arange(y.numel()).view(y.shape).to(y.dtype)).sum().backward()",
    "y = y.detach()",
]
LAST = "x = x.detach().to(memory_format=torch.channels_last).requires_grad_()"

RESIZES = [
    "size=7", "size=3", "size=1", "size=5", "scale_factor=2", "scale_factor=1.7",
    "scale_factor=0.6", "scale_factor=2.5, recompute_scale_factor=True",
]  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "area"])
def test_interpolate_sequences(mode: str, comparison: Comparison) -> None:
    for resize in RESIZES:
        for corners in ("", ", align_corners=True") if mode == "linear" else ("",):
            check(
                comparison, "x = torch.randn(2, 3, 5, dtype=torch.float64).requires_grad_()",
                f"y = F.interpolate(x, {resize}, mode={mode!r}{corners})", *LOSS,
            )  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "area"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_interpolate_images(mode: str, dtype: str, comparison: Comparison) -> None:
    bends = mode in ("bilinear", "bicubic")
    options = ("", ", align_corners=True", ", align_corners=False, antialias=True")
    for resize in [*RESIZES, "size=(9, 2)", "scale_factor=(0.5, 3)"]:
        for option in options if bends else ("",):
            if "antialias" in option and dtype == "float16":
                continue
            for layout in ("", LAST):
                check(
                    comparison,
                    f"x = torch.randn(2, 3, 5, 6).to(torch.{dtype}).requires_grad_()", layout,
                    f"y = F.interpolate(x, {resize}, mode={mode!r}{option})",
                    "(y * y).sum().backward()", "y = y.detach()",
                )  # fmt: skip


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "trilinear", "area"])
def test_interpolate_volumes(mode: str, comparison: Comparison) -> None:
    for resize in (*RESIZES, "size=(2, 7, 3)"):
        for corners in ("", ", align_corners=True") if mode == "trilinear" else ("",):
            check(
                comparison, "x = torch.randn(1, 2, 5, 4, 3, dtype=torch.float64).requires_grad_()",
                f"y = F.interpolate(x, {resize}, mode={mode!r}{corners})", *LOSS,
            )  # fmt: skip


def test_interpolate_bytes(comparison: Comparison) -> None:
    for mode in ("nearest", "nearest-exact"):
        check(
            comparison, "x = (torch.rand(1, 2, 5, 6) * 255).to(torch.uint8)",
            f"y = F.interpolate(x, (8, 3), mode={mode!r})",
        )  # fmt: skip


def test_lanczos(comparison: Comparison) -> None:
    for size in (3, 9):
        check(
            comparison, "x = torch.randn(1, 2, 7, 8, dtype=torch.float64).requires_grad_()",
            f"y = F.interpolate(x, {size}, mode='lanczos', antialias=True)", *LOSS,
        )  # fmt: skip


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
def test_grid_sample(mode: str, padding: str, corners: bool, comparison: Comparison) -> None:
    check(
        comparison, "x = torch.randn(2, 3, 4, 5, dtype=torch.float64).requires_grad_()",
        "g = (torch.rand(2, 6, 3, 2, dtype=torch.float64) * 5 - 2.5).requires_grad_()",
        f"y = F.grid_sample(x, g, {mode!r}, {padding!r}, {corners})", *LOSS,
        f"low = torch.grid_sampler(x, g, 0, 1, {corners}).detach()",
    )  # fmt: skip
    if mode != "bicubic":
        check(
            comparison, "x = torch.randn(2, 3, 4, 5, 2, dtype=torch.float64).requires_grad_()",
            "g = (torch.rand(2, 6, 3, 1, 3, dtype=torch.float64) * 4 - 2).requires_grad_()",
            f"y = F.grid_sample(x, g, {mode!r}, {padding!r}, {corners})", *LOSS,
        )  # fmt: skip


@pytest.mark.parametrize("corners", [True, False])
def test_affine_grid(corners: bool, comparison: Comparison) -> None:
    for shape, size in (("2, 2, 3", (2, 1, 3, 4)), ("1, 3, 4", (1, 2, 3, 1, 2))):
        check(
            comparison, f"t = torch.randn({shape}, dtype=torch.float64).requires_grad_()",
            f"y = F.affine_grid(t, {size}, {corners})", *LOSS,
            f"low = torch.affine_grid_generator(t, {size}, {corners}).detach()",
        )  # fmt: skip


@pytest.mark.parametrize(
    "window", ["2", "(2, 3)", "3, 1, 1, 2", "2, 2", "(1, 2), (1, 2), (2, 0), (3, 1)"]
)
def test_fold_and_unfold(window: str, comparison: Comparison) -> None:
    for shape in ("2, 3, 5, 6", "3, 5, 6"):
        check(
            comparison, f"x = torch.randn({shape}, dtype=torch.float64).requires_grad_()",
            f"m = nn.Unfold({window})", "text = repr(m)", "y = m(x)", *LOSS,
            "c = y.clone().requires_grad_()", f"m = nn.Fold((5, 6), {window})",
            "text2 = repr(m)", "z = m(c)", "(z * z).sum().backward()", "z = z.detach()",
        )  # fmt: skip


@pytest.mark.parametrize(
    "module",
    ["Upsample(2)", "Upsample(scale_factor=(2, 3), mode='bilinear', align_corners=True)",
     "Upsample((7, 3), mode='bicubic')", "UpsamplingNearest2d(scale_factor=2)",
     "UpsamplingBilinear2d(9)"],
)  # fmt: skip
def test_upsampling_modules(module: str, comparison: Comparison) -> None:
    check(
        comparison, "x = torch.randn(2, 3, 4, 5).requires_grad_()", f"m = nn.{module}",
        "text = repr(m)", "y = m(x)", *LOSS,
    )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "I(x)", "I(x, size=2, scale_factor=2)", "I(x, 2, mode='foo')", "I(x, 2, mode='linear')",
        "I(r(1, 2, 4), 2, mode='bilinear')", "I(x, (2, 2, 2))", "I(x, scale_factor=(2, 2, 2))",
        "I(x, 2, mode='nearest', align_corners=True)", "I(r(2, 2), 2)", "I(x, 2, antialias=True)",
        "I(x, scale_factor=0.1)", "I(x, 0)", "I(x, 2, recompute_scale_factor=True)",
        "I(x.int(), 2, mode='bilinear')", "I(x.bool(), 8)", "I(x.int(), 8)",
        "s = I(r(0, 2, 4, 4), 8).shape", "I(r(1, 0, 4, 4), 8)", "I(x, 2.5)",
        "I(r(1, 2, 4), 8, mode='trilinear')", "G(x, r(1, 3, 3, 3))", "G(x, r(2, 3, 3, 2))",
        "G(x, r(1, 3, 3, 2), mode='foo')", "G(x, r(1, 3, 3, 2), padding_mode='foo')",
        "G(x, r(1, 3, 2))", "G(x.double(), r(1, 3, 3, 2))", "G(r(1, 2, 0, 3), r(1, 3, 3, 2))",
        "s = G(x, r(1, 0, 3, 2)).shape", "A(r(1, 2, 3), (1, 1, 2))",
        "A(r(1, 2, 3), (1, 1, 2, 0))", "A(r(1, 2, 4), (1, 1, 2, 2))",
        "A(r(1, 2, 3).int(), (1, 1, 2, 2))", "A(r(2, 2, 3), (1, 1, 2, 2))",
        "F.unfold(x, 5)", "F.unfold(x, 2, stride=0)", "F.fold(r(1, 7, 9), (4, 4), 2)",
        "F.fold(r(1, 8, 8), (4, 4), 2)", "F.fold(r(1, 1, 8, 9), (4, 4), 2)",
        "s = F.unfold(r(0, 2, 4, 4), 2).shape",
    ],
)  # fmt: skip
def test_errors(statement: str, comparison: Comparison) -> None:
    check(
        comparison, "r, I, G, A = torch.randn, F.interpolate, F.grid_sample, F.affine_grid",
        "x = r(1, 2, 4, 4)", statement,
    )  # fmt: skip
