"""Every module's first and second derivatives against finite differences in double, by its inputs
and by its parameters, for images in both memory formats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.func import functional_call

Make = Callable[[], nn.Module]

LINE, IMAGE, VOLUME = (2, 4, 5), (2, 4, 4, 4), (1, 4, 3, 3, 3)
SHAPES = {1: LINE, 2: IMAGE, 3: VOLUME}

POINTWISE = (
    "CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU LogSigmoid Mish "
    "PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Dropout "
    "AlphaDropout Flatten"
).split()


def cases() -> dict[str, tuple[Make, list[Any]]]:
    """How each module is made, and the shapes of its inputs; an input may be a tensor."""
    found: dict[str, tuple[Make, list[Any]]] = {n: (getattr(nn, n), [(3, 4)]) for n in POINTWISE}
    for d, shape in SHAPES.items():
        found |= dimensional_cases(d, shape)
    found |= {
        "GLU": (nn.GLU, [(3, 4)]),
        "Softmax": (lambda: nn.Softmax(1), [(3, 4)]),
        "Softmax2d": (nn.Softmax2d, [IMAGE]),
        "Softmin": (lambda: nn.Softmin(1), [(3, 4)]),
        "LogSoftmax": (lambda: nn.LogSoftmax(1), [(3, 4)]),
        "Threshold": (lambda: nn.Threshold(0.1, 0.5), [(3, 4)]),
        "Dropout1d": (nn.Dropout1d, [LINE]),
        "Dropout2d": (nn.Dropout2d, [IMAGE]),
        "Dropout3d": (nn.Dropout3d, [VOLUME]),
        "FeatureAlphaDropout": (nn.FeatureAlphaDropout, [IMAGE]),
        "Linear": (lambda: nn.Linear(4, 3), [(2, 4)]),
        "Bilinear": (lambda: nn.Bilinear(3, 2, 4), [(2, 3), (2, 2)]),
        "LayerNorm": (lambda: nn.LayerNorm(5), [LINE]),
        "RMSNorm": (lambda: nn.RMSNorm(5), [LINE]),
        "GroupNorm": (lambda: nn.GroupNorm(2, 4), [IMAGE]),
        "SyncBatchNorm": (lambda: nn.SyncBatchNorm(4).eval(), [IMAGE]),
        "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), [IMAGE]),
        "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(3), [IMAGE]),
        "ChannelShuffle": (lambda: nn.ChannelShuffle(2), [IMAGE]),
        "PixelShuffle": (lambda: nn.PixelShuffle(2), [IMAGE]),
        "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), [IMAGE]),
        "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), [(3, 4)]),
        "Fold": (lambda: nn.Fold((3, 3), 2), [(1, 8, 4)]),
        "Unfold": (lambda: nn.Unfold(2, padding=1), [(1, 2, 3, 3)]),
        "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), [IMAGE]),
        "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), [(1, 2, 3, 3)]),
        "Upsample": (lambda: nn.Upsample(scale_factor=1.5, mode="bicubic"), [(1, 2, 3, 3)]),
        "CosineSimilarity": (nn.CosineSimilarity, [(3, 4), (3, 4)]),
        "PairwiseDistance": (nn.PairwiseDistance, [(3, 4), (3, 4)]),
        "Embedding": (lambda: nn.Embedding(5, 3), [torch.tensor([[0, 2], [4, 2]])]),
        "EmbeddingBag": (
            lambda: nn.EmbeddingBag(5, 3, mode="sum"),
            [torch.tensor([[0, 2], [4, 2]])],
        ),
        "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=2), [IMAGE]),
        "FractionalMaxPool3d": (lambda: nn.FractionalMaxPool3d(2, output_size=2), [VOLUME]),
    }
    return found | recurrent_cases() | loss_cases()


def dimensional_cases(d: int, shape: tuple[int, ...]) -> dict[str, tuple[Make, list[Any]]]:
    def of(name: str, *args: Any, **kwargs: Any) -> Make:
        return lambda: getattr(nn, f"{name}{d}d")(*args, **kwargs)

    two = (1, 2, *((3,) * d))
    padding = (1, 2) * d
    found = {
        "Conv": (of("Conv", 2, 4, 2, stride=2, padding=1, groups=2), [two]),
        "ConvTranspose": (of("ConvTranspose", 2, 2, 2, stride=2, padding=1), [two]),
        "BatchNorm": (of("BatchNorm", 4), [shape]),
        "InstanceNorm": (of("InstanceNorm", 4, affine=True), [shape]),
        "MaxPool": (of("MaxPool", 2), [shape]),
        "AvgPool": (of("AvgPool", 2), [shape]),
        "AdaptiveMaxPool": (of("AdaptiveMaxPool", 2), [shape]),
        "AdaptiveAvgPool": (of("AdaptiveAvgPool", 2), [shape]),
        "LPPool": (of("LPPool", 3, 2), [torch.rand(shape, dtype=torch.float64) + 0.5]),
        "CircularPad": (of("CircularPad", padding), [two]),
        "ConstantPad": (of("ConstantPad", padding, 0.5), [two]),
        "ReflectionPad": (of("ReflectionPad", padding), [two]),
        "ReplicationPad": (of("ReplicationPad", padding), [two]),
        "ZeroPad": (of("ZeroPad", padding), [two]),
        "MaxUnpool": (of("MaxUnpool", 2), [(1, 2, *((2,) * d)), unpool_positions(d)]),
    }
    return {f"{name}{d}d": case for name, case in found.items()}


def unpool_positions(d: int) -> torch.Tensor:
    x = torch.rand(1, 2, *((4,) * d), dtype=torch.float64)
    pool = getattr(nn.functional, f"max_pool{d}d")
    return pool(x, 2, return_indices=True)[1]


def recurrent_cases() -> dict[str, tuple[Make, list[Any]]]:
    return {
        "RNN": (lambda: nn.RNN(2, 3), [(3, 2, 2)]),
        "LSTM": (lambda: nn.LSTM(2, 3, bidirectional=True), [(3, 2, 2)]),
        "GRU": (lambda: nn.GRU(2, 3, batch_first=True), [(2, 3, 2)]),
        "RNNCell": (lambda: nn.RNNCell(2, 3), [(2, 2), (2, 3)]),
        "LSTMCell": (lambda: nn.LSTMCell(2, 3), [(2, 2)]),
        "GRUCell": (lambda: nn.GRUCell(2, 3), [(2, 2), (2, 3)]),
        "MultiheadAttention": (
            lambda: nn.MultiheadAttention(4, 2),
            [(2, 1, 4), (3, 1, 4), (3, 1, 4)],
        ),
        "TransformerEncoderLayer": (
            lambda: nn.TransformerEncoderLayer(4, 2, 3, activation="gelu"),
            [(2, 1, 4)],
        ),
        "TransformerDecoderLayer": (
            lambda: nn.TransformerDecoderLayer(4, 2, 3, activation="gelu"),
            [(2, 1, 4), (2, 1, 4)],
        ),
        "TransformerEncoder": (
            lambda: nn.TransformerEncoder(
                nn.TransformerEncoderLayer(2, 1, 2, activation="gelu"),
                2,
                enable_nested_tensor=False,
            ),
            [(2, 1, 2)],
        ),
        "TransformerDecoder": (
            lambda: nn.TransformerDecoder(
                nn.TransformerDecoderLayer(2, 1, 2, activation="gelu"), 1
            ),
            [(2, 1, 2), (2, 1, 2)],
        ),
        "Transformer": (
            lambda: nn.Transformer(2, 1, 1, 1, 2, activation="gelu"),
            [(2, 1, 2), (2, 1, 2)],
        ),
    }


def loss_cases() -> dict[str, tuple[Make, list[Any]]]:
    classes = torch.tensor([1, 0, 2])
    signs = torch.tensor([1, -1, 1])
    chances = torch.tensor([[0.2, 0.7, 0.1]] * 3, dtype=torch.float64)
    bits = (chances > 0.15).double()
    lengths = torch.tensor([4, 4])
    found: dict[str, tuple[Make, list[Any]]] = {
        "NLLLoss2d": (nn.NLLLoss2d, [(1, 3, 2, 2), torch.tensor([[[0, 1], [2, 1]]])]),
        "CTCLoss": (
            lambda: LogProbabilities(nn.CTCLoss()),
            [(4, 2, 3), torch.tensor([[1, 2], [2, 1]]), lengths, torch.tensor([2, 1])],
        ),
        "AdaptiveLogSoftmaxWithLoss": (
            lambda: Loss(nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2, 4], div_value=2)),
            [(3, 4), torch.tensor([1, 3, 5])],
        ),
        "GaussianNLLLoss": (nn.GaussianNLLLoss, [(3, 2), (3, 2), chances[:, :2] + 0.5]),
        "BCELoss": (nn.BCELoss, [chances, bits]),
        "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, [(3, 4), (3, 4), signs]),
        "MarginRankingLoss": (lambda: nn.MarginRankingLoss(0.3), [(3,), (3,), signs]),
        "MultiLabelMarginLoss": (
            nn.MultiLabelMarginLoss,
            [(3, 3), torch.tensor([[0, -1, 1], [1, 2, -1], [2, 0, 1]])],
        ),
        "TripletMarginLoss": (nn.TripletMarginLoss, [(3, 4), (3, 4), (3, 4)]),
        "TripletMarginWithDistanceLoss": (
            nn.TripletMarginWithDistanceLoss,
            [(3, 4), (3, 4), (3, 4)],
        ),
        "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, [(3,), signs.double()]),
        "SoftMarginLoss": (nn.SoftMarginLoss, [(3,), signs.double()]),
        "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), [(3, 3), chances]),
        "PoissonNLLLoss": (nn.PoissonNLLLoss, [(3, 3), chances]),
        "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, [(3, 3), bits]),
        "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, [(3, 3), bits]),
    }
    for name in ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"):
        found[name] = (getattr(nn, name), [(3, 3), classes])
    found["LinearCrossEntropyLoss"] = (lambda: nn.LinearCrossEntropyLoss(3, 4), [(3, 3), classes])
    for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss"):
        found[name] = (getattr(nn, name), [(3, 3), (3, 3)])
    return found


class LogProbabilities(nn.Module):
    """A loss of logarithms of probabilities, which it makes itself."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return self.loss(x.log_softmax(-1), *others)


class Loss(nn.Module):
    """The loss out of a result that has more."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.module(*inputs).loss


CASES = cases()
# What, as in PyTorch, is not differentiable a second time.
ONCE = {"CTCLoss"}
# What only holds or wraps other modules, or becomes another module on its first call.
WITHOUT = set(
    "Container DataParallel Module ModuleDict ModuleList ParameterDict ParameterList RNNBase "
    "RNNCellBase Sequential".split()
)


def test_no_module_is_left_out():
    names = {
        name
        for name, value in vars(nn).items()
        if isinstance(value, type) and issubclass(value, nn.Module)
    }
    assert {n for n in names if not n.startswith("Lazy")} == set(CASES) | WITHOUT


def prepared(name: str, last: bool) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """A module as a function of everything that it is differentiated by, and values for that."""
    make, inputs = CASES[name]
    torch.manual_seed(3)
    module = make().double()
    names = [n for n, _ in module.named_parameters()]
    tensors = []
    for given in inputs:
        x = given if isinstance(given, torch.Tensor) else torch.randn(given, dtype=torch.float64)
        if last and x.dim() in (4, 5):
            layout = torch.channels_last if x.dim() == 4 else torch.channels_last_3d
            x = x.contiguous(memory_format=layout)
        tensors.append(x.clone().requires_grad_() if x.is_floating_point() else x)
    leaves = tensors + [p.detach().clone().requires_grad_() for p in module.parameters()]
    buffers = {n: b.clone() for n, b in module.named_buffers()}

    def function(*values: torch.Tensor) -> Any:
        torch.manual_seed(5)
        state = dict(zip(names, values[len(tensors) :]))
        state |= {n: b.clone() for n, b in buffers.items()}
        result = functional_call(module, state, values[: len(tensors)])
        flat = torch.utils._pytree.tree_leaves(result)
        return tuple(t for t in flat if isinstance(t, torch.Tensor) and t.requires_grad)

    return function, leaves


def formats(name: str) -> list[bool]:
    sizes = [len(s) if isinstance(s, tuple) else s.dim() for s in CASES[name][1]]
    return [False, True] if sizes[0] in (4, 5) else [False]


PAIRS = [(name, last) for name in CASES for last in formats(name)]
IDS = [f"{name}{'-channels_last' if last else ''}" for name, last in PAIRS]


@pytest.mark.parametrize(("name", "last"), PAIRS, ids=IDS)
def test_gradients_of_modules(name, last):
    function, leaves = prepared(name, last)
    assert gradcheck(function, leaves)


@pytest.mark.parametrize(("name", "last"), PAIRS, ids=IDS)
def test_second_gradients_of_modules(name, last):
    if name in ONCE:
        with pytest.raises(RuntimeError):
            gradgradcheck(*prepared(name, last))
        return
    function, leaves = prepared(name, last)
    assert gradgradcheck(function, leaves, fast_mode=True)


def test_running_statistics_have_no_gradient():
    mean, variance = torch.zeros(3, requires_grad=True), torch.ones(3)
    with pytest.raises(RuntimeError, match="with respect to argument 'running_mean'"):
        torch.nn.functional.batch_norm(torch.ones(2, 3), mean, variance)
    with pytest.raises(RuntimeError, match="with respect to argument 'running_var'"):
        torch.nn.functional.batch_norm(torch.ones(2, 3), variance, mean)
    with torch.no_grad():
        torch.nn.functional.batch_norm(torch.ones(2, 3), mean, variance)
