"""Bags of embeddings, unpooling, fractional pooling, CTC and other losses against PyTorch."""

from __future__ import annotations

import pytest
from compare import Comparison
from test_nn_and_optim import REDUCTIONS, STATE, check

D = "D = torch.float64"


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode: str, comparison: Comparison) -> None:
    freq = [] if mode == "max" else ["scale_grad_by_freq=True"]
    for option in ("", "padding_idx=1", "include_last_offset=True", "max_norm=1.0", *freq):
        for call in ("i, o", "i[:6].view(2, 3)"):
            if "last" in option and "view" in call:
                continue
            check(
                comparison, D, f"m = nn.EmbeddingBag(5, 3, mode={mode!r}, {option})",
                "text = repr(m)", "start = dict(m.state_dict())", STATE, "m = m.double()",
                "i = torch.tensor([1, 4, 4, 0, 1, 2, 1])", "o = torch.tensor([0, 2, 2, 7])",
                f"y = m({call})", "(y * y).sum().backward()", "y = y.detach()",
                "grads = [p.grad for p in m.parameters()]",
            )  # fmt: skip


def test_embedding_bag_with_weights(comparison: Comparison) -> None:
    check(
        comparison, D, "w = torch.randn(5, 3, dtype=D).requires_grad_()",
        "s = torch.randn(6, dtype=D).requires_grad_()", "i = torch.tensor([1, 4, 4, 0, 1, 2])",
        "o = torch.tensor([0, 2, 2])",
        "y = F.embedding_bag(i, w, o, mode='sum', per_sample_weights=s, padding_idx=4)",
        "(y * y).sum().backward()", "y = y.detach()",
        "m = nn.EmbeddingBag.from_pretrained(w.detach())", "frozen = m.weight.requires_grad",
        "z = m(i.int(), o.int())", "low = torch.embedding_bag(w.detach(), i, o, mode=2)",
    )  # fmt: skip


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling(rank: int, comparison: Comparison) -> None:
    size = (5, 6, 4)[:rank]
    for window in ("2", "3, 2, 1", "2, 1"):
        for batch in ("2, 3", "3"):
            check(
                comparison, D, f"x = torch.randn({batch}, *{size}, dtype=D).requires_grad_()",
                f"p = nn.MaxPool{rank}d({window}, return_indices=True)", "y, i = p(x)",
                f"m = nn.MaxUnpool{rank}d({window})", "text = repr(m)",
                "z = m(y, i, x.shape)" if batch == "2, 3" else f"z = m(y, i, {size})",
                "(z * z).sum().backward()", "y, z = y.detach(), z.detach()",
            )  # fmt: skip


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fractional_pooling(rank: int, dtype: str, comparison: Comparison) -> None:
    shape = (7, 9, 8)[:rank]
    for option in ("output_size=3", "output_ratio=0.6", f"output_size={(2, 4, 3)[:rank]}"):
        for batch in ("2, 3", "2"):
            check(
                comparison, f"x = torch.randn({batch}, *{shape}).to(torch.{dtype})"
                ".requires_grad_()",
                f"m = nn.FractionalMaxPool{rank}d(2, {option}, return_indices=True)",
                "y, i = m(x)", "(y * y).sum().backward()", "y = y.detach()", STATE,
            )  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc(reduction: str, comparison: Comparison) -> None:
    for targets, lengths in (
        ("[[1, 2, 2], [1, 3, 0], [4, 4, 4]]", "(7, 5, 4), (3, 2, 3)"),
        ("[1, 2, 2, 1, 3, 4, 4, 4]", "torch.tensor([7, 5, 4]), torch.tensor([3, 2, 3])"),
        ("[1, 2]", "(7, 7, 7), (2, 0, 0)"),
    ):
        for option in ("", ", zero_infinity=True"):
            check(
                comparison, D, "x = torch.randn(7, 3, 5, dtype=D).requires_grad_()",
                f"t = torch.tensor({targets})",
                f"y = F.ctc_loss(x.log_softmax(2), t, {lengths}, reduction={reduction!r}{option})",
                "y.sum().backward()", "y = y.detach()",
            )  # fmt: skip
    check(
        comparison, "x = torch.randn(6, 5).requires_grad_()",
        f"m = nn.CTCLoss(4, {reduction!r})", "text = repr(m)",
        "y = m(x.log_softmax(1), torch.tensor([1, 2]), torch.tensor(6), torch.tensor(2))",
        "y.backward()", "y = y.detach()",
    )  # fmt: skip


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin_loss(reduction: str, comparison: Comparison) -> None:
    check(
        comparison, D, "x = torch.randn(2, 4, dtype=D).requires_grad_()",
        "t = torch.tensor([[3, 0, -1, 1], [2, 1, 0, 3]])",
        f"m = nn.MultiLabelMarginLoss(reduction={reduction!r})", "text = repr(m)",
        "y = m(x, t)", "y.sum().backward()", "y = y.detach()", "z = m(x[0], t[0]).detach()",
    )  # fmt: skip


LOW_LEVEL = [
    "poisson_nll_loss(x, u * 4, True, True, 1e-8, r)", "kl_div(x, u, r)",
    "kl_div(x, x.detach() * 2, r, log_target=True)", "hinge_embedding_loss(x, s, 0.5, r)",
    "margin_ranking_loss(x, u, s, 0.2, r)", "triplet_margin_loss(x, u, s, 1.5, 3, 1e-5, True, r)",
    "cosine_embedding_loss(x, u, s[:, 0], 0.1, r)",
]  # fmt: skip


@pytest.mark.parametrize("loss", LOW_LEVEL)
def test_low_level_losses(loss: str, comparison: Comparison) -> None:
    for reduction in range(3):
        check(
            comparison, D, "x = torch.randn(4, 3, dtype=D).requires_grad_()",
            "u = torch.rand(4, 3, dtype=D)", "s = torch.sign(torch.rand(4, 3, dtype=D) - 0.5)",
            f"r = {reduction}", f"y = torch.{loss}", "y.sum().backward()", "y = y.detach()",
        )  # fmt: skip


def test_low_level_convolutions(comparison: Comparison) -> None:
    check(
        comparison, D, "x = torch.randn(2, 4, 5, 6, dtype=D)",
        "w = torch.randn(4, 2, 3, 2, dtype=D)",
        "y = torch.convolution(x, w, None, [2, 1], [1, 0], [1, 1], False, [0, 0], 2)",
        "z = torch.convolution(x, w, None, [2, 1], [1, 0], [1, 1], True, [1, 0], 2)",
        "t = torch.randn(7, 2, 3, dtype=D).requires_grad_()",
        "k = torch.randn(3, 3, 4, dtype=D).requires_grad_()", "b = torch.randn(4, dtype=D)",
        "v = torch.conv_tbc(t, k, b, 1)", "(v * v).sum().backward()", "v = v.detach() + 0",
    )  # fmt: skip


def test_adaptive_log_softmax(comparison: Comparison) -> None:
    for option in ("", ", 2.0, True"):
        check(
            comparison, f"m = nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10]{option})",
            "text = repr(m)", "start = dict(m.state_dict())", STATE, "m = m.double()",
            "x = torch.randn(6, 16, dtype=torch.float64).requires_grad_()",
            "t = torch.tensor([0, 3, 4, 12, 19, 9])", "y, loss = m(x, t)", "loss.backward()",
            "y, loss = y.detach(), loss.detach()", "p = m.log_prob(x).detach()",
            "c = m.predict(x)", "grads = [p.grad for p in m.parameters()]",
            "one = m(x[0], t[0])[0].detach()",
        )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "U(r(1, 1, 2, 2), z(1, 1, 2, 2), 2)", "U(r(1, 1, 2, 2), z(1, 1, 2, 2).long() + 100, 2)",
        "U(r(1, 1, 2, 2), z(1, 1, 2, 2).long(), 2, output_size=(9, 9))",
        "U(r(1, 1, 2, 2), z(1, 1, 2, 2).long(), 2, output_size=(9,))",
        "U(r(1, 1, 2, 2), z(1, 1, 2, 3).long(), 2)", "P(x, 2)",
        "P(x, 2, output_ratio=(0.5, 1.5))", "P(x, 2, output_size=5)", "nn.FractionalMaxPool2d(2)",
        "nn.FractionalMaxPool2d(2, output_ratio=2)",
        "nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5)", "B(i, w)",
        "B(i.view(1, 2), w, i[:1])", "B(i, w, i[:1])", "B(i, w, torch.tensor([0, 5]))",
        "B(i + 3, w, i[:1] * 0)", "B(i, w, i[:1] * 0, mode='x')",
        "B(i, w, i[:1] * 0, mode='max', per_sample_weights=r(2))",
        "B(i, w, i[:1] * 0, mode='mean', per_sample_weights=r(2))",
        "B(i, w, i[:1] * 0, mode='sum', per_sample_weights=r(3))",
        "B(i, w, i[:1] * 0, mode='max', scale_grad_by_freq=True)", "B(i.float(), w, i[:1] * 0)",
        "B(i.view(1, 1, 2), w)", "C(lp, torch.tensor([1, 2, 3]), (5, 4), (2, 2))",
        "C(lp, torch.tensor([1, 2, 3]), (6, 4), (2, 1))",
        "C(lp, torch.tensor([1, 2, 3]), (5,), (2, 1))",
        "C(lp, torch.tensor([1, 2, 3]), (5, 4), (2, 1), blank=7)",
        "C(lp.half(), torch.tensor([1, 2, 3]), (5, 4), (2, 1))",
        "C(lp, torch.tensor([[1, 2], [1, 3]]), (5, 4), (3, 1))",
        "F.multilabel_margin_loss(r(2, 3), torch.tensor([[0, -1], [1, 2]]))",
        "F.multilabel_margin_loss(r(2, 3), torch.tensor([[0, -1, 5], [1, 2, 7]]))",
        "F.multilabel_margin_loss(r(2, 3), z(2, 3))", "F.pdist(r(3, 2, 2))", "F.pdist(r(3, 2), -1)",
        "nn.AdaptiveLogSoftmaxWithLoss(8, 20, [])", "nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 3])",
        "nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])(r(2, 8), torch.tensor([1, 20]))",
    ],
)  # fmt: skip
def test_errors(statement: str, comparison: Comparison) -> None:
    check(
        comparison,
        "r, z, U, P = torch.randn, torch.zeros, F.max_unpool2d, F.fractional_max_pool2d",
        "B, C, x, w = F.embedding_bag, F.ctc_loss, r(1, 2, 4, 4), r(3, 2)",
        "i, lp = torch.tensor([1, 2]), r(5, 2, 4).log_softmax(2)", statement,
    )  # fmt: skip
