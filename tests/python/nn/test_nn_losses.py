"""Losses against NumPy, with every reduction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3))
Y = RNG.standard_normal((4, 3))
UNIT = RNG.uniform(0.05, 0.95, (4, 3))
CLASSES = np.array([0, 2, 1, 2])
SIGNS = np.array([1.0, -1.0, 1.0, -1.0])
LOG_SOFTMAX = X - np.log(np.exp(X).sum(1, keepdims=True))
PICKED = -LOG_SOFTMAX[np.arange(4), CLASSES]


def t(values: Any) -> torch.Tensor:
    return torch.tensor(values.tolist(), dtype=torch.float64 if values.dtype.kind == "f" else None)


def softplus(x: Any) -> Any:
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


LOSSES: dict[str, tuple[Any, tuple[Any, ...], Any]] = {
    "CrossEntropyLoss": (nn.CrossEntropyLoss, (X, CLASSES), PICKED),
    "NLLLoss": (nn.NLLLoss, (X, CLASSES), -X[np.arange(4), CLASSES]),
    "MSELoss": (nn.MSELoss, (X, Y), (X - Y) ** 2),
    "L1Loss": (nn.L1Loss, (X, Y), np.abs(X - Y)),
    "SmoothL1Loss": (
        nn.SmoothL1Loss, (X, Y),
        np.where(np.abs(X - Y) < 1, (X - Y) ** 2 / 2, np.abs(X - Y) - 0.5),
    ),
    "HuberLoss": (
        lambda reduction: nn.HuberLoss(reduction, 0.5), (X, Y),
        np.where(np.abs(X - Y) < 0.5, (X - Y) ** 2 / 2, 0.5 * (np.abs(X - Y) - 0.25)),
    ),
    "BCELoss": (nn.BCELoss, (UNIT, UNIT[::-1]),
                -(UNIT[::-1] * np.log(UNIT) + (1 - UNIT[::-1]) * np.log(1 - UNIT))),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, (X, UNIT), softplus(X) - X * UNIT),
    "KLDivLoss": (nn.KLDivLoss, (X, UNIT), UNIT * (np.log(UNIT) - X)),
    "SoftMarginLoss": (nn.SoftMarginLoss, (X, np.sign(Y)), np.log1p(np.exp(-np.sign(Y) * X))),
    "HingeEmbeddingLoss": (
        nn.HingeEmbeddingLoss, (X, np.sign(Y)),
        np.where(Y > 0, X, np.maximum(1 - X, 0)),
    ),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, (X, UNIT), np.exp(X) - UNIT * X),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (X, Y, UNIT),
                        0.5 * (np.log(UNIT) + (X - Y) ** 2 / UNIT)),
    "MarginRankingLoss": (
        lambda reduction: nn.MarginRankingLoss(0.2, reduction=reduction), (X, Y, np.sign(Y)),
        np.maximum(-np.sign(Y) * (X - Y) + 0.2, 0),
    ),
    "CosineEmbeddingLoss": (
        nn.CosineEmbeddingLoss, (X, Y, SIGNS),
        np.where(
            SIGNS > 0,
            1 - (X * Y).sum(1) / np.sqrt((X * X).sum(1) * (Y * Y).sum(1)),
            np.maximum((X * Y).sum(1) / np.sqrt((X * X).sum(1) * (Y * Y).sum(1)), 0),
        ),
    ),
    "MultiLabelSoftMarginLoss": (
        nn.MultiLabelSoftMarginLoss, (X, UNIT),
        (UNIT * softplus(-X) + (1 - UNIT) * softplus(X)).mean(1),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction:UserWarning")
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, reduction: str) -> None:
    make, arguments, want = LOSSES[name]
    got = make(reduction=reduction)(*[t(np.ascontiguousarray(a)) for a in arguments])
    want = {"none": np.asarray, "mean": np.mean, "sum": np.sum}[reduction](want)
    assert np.allclose(got.numpy(), want, rtol=1e-6, atol=1e-9)


def test_cross_entropy_options() -> None:
    weight = np.array([1.0, 2.0, 0.5])
    got = F.cross_entropy(t(X), t(CLASSES), t(weight))
    assert np.allclose(got.item(), (PICKED * weight[CLASSES]).sum() / weight[CLASSES].sum())
    got = F.cross_entropy(t(X), t(CLASSES), ignore_index=2)
    assert np.allclose(got.item(), PICKED[CLASSES != 2].mean())
    got = F.cross_entropy(t(X), t(CLASSES), label_smoothing=0.3)
    assert np.allclose(got.item(), 0.7 * PICKED.mean() - 0.3 * LOG_SOFTMAX.mean())
    got = F.cross_entropy(t(X), t(UNIT))
    assert np.allclose(got.item(), -(UNIT * LOG_SOFTMAX).sum(1).mean())


def test_cross_entropy_of_images_and_of_one_sample() -> None:
    images = RNG.standard_normal((2, 3, 4, 5))
    classes = RNG.integers(0, 3, (2, 4, 5))
    logs = images - np.log(np.exp(images).sum(1, keepdims=True))
    want = -np.take_along_axis(logs, classes[:, None], 1).mean()
    assert np.allclose(F.cross_entropy(t(images), t(classes)).item(), want)
    assert np.allclose(F.cross_entropy(t(X[1]), torch.tensor(2)).item(), PICKED[1])


def test_smoothed_cross_entropy_is_that_against_smoothed_chances() -> None:
    logits = torch.randn(6, 37, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([3, 36, -100, 0, 5, -100])
    used = target >= 0
    for smoothing in (0.1, 1.0):
        chances = torch.full((6, 37), smoothing / 37, dtype=torch.float64)
        chances[used, target[used]] += 1 - smoothing
        each = -(chances * logits.log_softmax(1)).sum(1) * used
        for reduction, want in (("none", each), ("sum", each.sum()), ("mean", each.sum() / 4)):
            got = F.cross_entropy(logits, target, reduction=reduction, label_smoothing=smoothing)
            torch.testing.assert_close(got, want)
            ours, theirs = (
                torch.autograd.grad(y.sum(), logits, retain_graph=True)[0] for y in (got, want)
            )
            torch.testing.assert_close(ours, theirs)
        assert torch.autograd.gradgradcheck(
            lambda x, s=smoothing: F.cross_entropy(x, target, label_smoothing=s), logits
        )


def test_gradient_of_cross_entropy() -> None:
    x = t(X).requires_grad_()
    F.cross_entropy(x, t(CLASSES)).backward()
    want = (np.exp(LOG_SOFTMAX) - np.eye(3)[CLASSES]) / 4
    assert np.allclose(x.grad.numpy(), want)


def test_triplet_and_multi_margin() -> None:
    anchor, positive, negative = X, Y, UNIT
    near = np.linalg.norm(anchor - positive + 1e-6, axis=1)
    far = np.linalg.norm(anchor - negative + 1e-6, axis=1)
    want = np.maximum(near - far + 1, 0).mean()
    assert np.allclose(nn.TripletMarginLoss()(t(anchor), t(positive), t(negative)).item(), want)
    margins = np.maximum(1 - X[np.arange(4), CLASSES][:, None] + X, 0)
    margins[np.arange(4), CLASSES] = 0
    want = margins.mean(1).mean()
    assert np.allclose(nn.MultiMarginLoss()(t(X), t(CLASSES)).item(), want)


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="wrong is not a valid value for reduction"):
        F.mse_loss(t(X), t(Y), reduction="wrong")
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy_with_logits(t(X), t(UNIT[:2]))
    with pytest.raises(ValueError, match="different to the input size"):
        F.binary_cross_entropy(t(UNIT), t(UNIT[:2]))
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(t(X), t(Y[:1]))
    with pytest.raises(ValueError, match="margin must be greater than 0"):
        F.triplet_margin_loss(t(X), t(X), t(X), margin=-1)
    with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated"):
        assert F.mse_loss(t(X), t(Y), size_average=False).item() == pytest.approx(
            ((X - Y) ** 2).sum()
        )


def test_multi_margin_loss_wants_a_class_for_each_row():
    scores = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="multi_margin_loss: target tensor should be 1-D"):
        torch.nn.functional.multi_margin_loss(scores, torch.tensor([1]))
    one = torch.nn.functional.multi_margin_loss(scores[0], torch.tensor([1]), reduction="none")
    assert one.shape == (1,)


def test_binary_cross_entropy_wants_targets_of_its_dtype() -> None:
    p = torch.rand(3)
    for dtype, name in ((torch.int64, "Long"), (torch.bool, "Bool"), (torch.float64, "Double")):
        with pytest.raises(RuntimeError, match=f"Found dtype {name} but expected Float"):
            F.binary_cross_entropy(p, torch.ones(3, dtype=dtype))
    weighted = F.binary_cross_entropy(p, p, weight=torch.ones(3, dtype=torch.float64))
    assert weighted.dtype == torch.float32


def test_losses_of_mixed_dtypes_have_the_dtype_of_one_argument() -> None:
    x, y = torch.rand(3, dtype=torch.float64), torch.rand(3)
    assert F.binary_cross_entropy_with_logits(x, y).dtype == torch.float32
    assert F.binary_cross_entropy_with_logits(x, y, weight=x).dtype == torch.float32
    assert F.huber_loss(x, y).dtype == torch.float64
    assert F.huber_loss(y, x).dtype == torch.float32
    assert F.soft_margin_loss(y, x).dtype == torch.float32
    assert F.soft_margin_loss(y, torch.ones(3, dtype=torch.bool)).dtype == torch.float32


def test_losses_refuse_dtypes_that_their_result_cannot_have() -> None:
    x, whole = torch.rand(3), torch.ones(3, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        F.binary_cross_entropy_with_logits(x, whole)
    with pytest.raises(NotImplementedError, match="'Long'"):
        F.binary_cross_entropy_with_logits(whole, x)
    with pytest.raises(NotImplementedError, match="two bool tensors"):
        F.binary_cross_entropy_with_logits(x, whole.bool())
    for loss in (F.huber_loss, F.soft_margin_loss):
        with pytest.raises(RuntimeError, match="can't be cast"):
            loss(whole, x)


@pytest.mark.parametrize("loss", [F.multi_margin_loss, F.multilabel_margin_loss])
def test_margins_between_no_classes_are_refused(loss: Any) -> None:
    for shape in ((0,), (4, 0)):
        with pytest.raises(RuntimeError, match="Expected non-empty vector or matrix"):
            loss(torch.rand(shape), torch.ones(shape, dtype=torch.int64))
    assert loss(
        torch.rand(0, 4), torch.ones((0, 4) if "label" in loss.__name__ else 0).long()
    ).isnan()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_no_class_can_be_right_where_there_are_none(reduction: str, smoothing: float) -> None:
    x, options = torch.zeros(2, 0), {"reduction": reduction, "label_smoothing": smoothing}
    with pytest.raises(IndexError, match="out of bounds"):
        F.cross_entropy(x, torch.tensor([1, 0]), **options)
    nothing = F.cross_entropy(x, torch.tensor([-100, -100]), reduction=reduction)
    torch.testing.assert_close(
        nothing, F.nll_loss(x, torch.tensor([-100, -100]), reduction=reduction), equal_nan=True
    )


def test_soft_margins_have_the_shape_of_their_input():
    with pytest.raises(RuntimeError, match="broadcast shape"):
        F.soft_margin_loss(torch.tensor(0.5), torch.ones(2))
    assert F.soft_margin_loss(torch.ones(2), torch.tensor(1.0), reduction="none").shape == (2,)


def test_classes_are_counted_along_the_last_dimension_of_the_input():
    losses = F.multilabel_soft_margin_loss(torch.zeros(2), torch.ones(3, 2), reduction="none")
    np.testing.assert_allclose(losses.numpy(), [3 * np.log(2) / 2] * 2, 1e-6)


@pytest.mark.parametrize("scale", [1.0, 20.0, 100.0, 1e4])
def test_logits_that_lie_far_apart(scale: float) -> None:
    generator = np.random.default_rng(1)
    x = torch.from_numpy(generator.standard_normal((20, 3001)) * scale)
    x[3, 100:], x[4, :200], x[5, 7] = -np.inf, -np.inf, x[5, 9] + 90
    classes = x.argmax(1)
    classes[::2] = torch.from_numpy(generator.integers(0, 50, 10))
    found = F.cross_entropy(x.float(), classes, reduction="none")
    exact = F.cross_entropy(x.float().double(), classes, reduction="none").float()
    torch.testing.assert_close(found, exact)
