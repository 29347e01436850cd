"""nn, optim and utils.data give PyTorch's numbers, names and order of draws."""

from __future__ import annotations

import pytest
from compare import Comparison

BOTH = [
    "nn, optim, F, init = torch.nn, torch.optim, torch.nn.functional, torch.nn.init",
    "import importlib; data = importlib.import_module(torch.__name__ + '.utils.data')",
]
SEED = "torch.manual_seed(3)"
STATE = "drawn_after = torch.rand(2)"


def check(comparison: Comparison, *statements: str) -> None:
    program = [*BOTH, SEED, *statements]
    text = comparison.difference(program)
    assert text is None, "\n".join([*program, f"# {text}"])


LAYERS = {
    "Linear(5, 7)": "(2, 5)",
    "Linear(3, 2, bias=False)": "(4, 3)",
    "Bilinear(3, 4, 5)": None,
    "Conv1d(2, 4, 3)": "(2, 2, 9)",
    "Conv2d(4, 6, 3, groups=2, padding=1)": "(2, 4, 6, 6)",
    "Conv2d(2, 4, 3, stride=2, padding=1, padding_mode='circular')": "(1, 2, 7, 7)",
    "Conv3d(1, 2, (1, 2, 3))": "(1, 1, 4, 4, 4)",
    "BatchNorm1d(3)": "(4, 3)",
    "BatchNorm2d(3, momentum=None)": "(4, 3, 2, 2)",
    "LayerNorm((3, 4))": "(2, 3, 4)",
    "MaxPool2d(3, 2, 1, ceil_mode=True)": "(1, 2, 6, 6)",
    "AvgPool2d(3, 2, 1, count_include_pad=False)": "(1, 2, 5, 5)",
    "AdaptiveAvgPool2d((None, 2))": "(1, 2, 7, 5)",
    "PReLU(3)": "(2, 3, 4)",
    "Dropout(0.3)": "(5, 7)",
    "GELU('tanh')": "(5, 7)",
    "Softplus(2, 1)": "(5, 7)",
    "LogSoftmax(1)": "(5, 7)",
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_start_equal_and_compute_the_same(layer: str, comparison: Comparison) -> None:
    shape = LAYERS[layer]
    statements = [f"m = nn.{layer}", "text = repr(m)", "start = dict(m.state_dict())", STATE]
    if shape is not None:
        statements += [
            f"x = torch.randn({shape}, dtype=torch.float64).float().requires_grad_()",
            "y = m(x)", "(y * y).sum().backward()", "after = dict(m.state_dict())",
            "grads = [p.grad for p in m.parameters()]",
        ]  # fmt: skip
    check(comparison, *statements)


@pytest.mark.parametrize(
    "fill",
    [
        "uniform_(w, -1, 2)", "normal_(w, 1, 2)",
        "trunc_normal_(w)", "trunc_normal_(w, 0, 1, 1, 2)",
        "trunc_normal_(w, 0, 0.02)", "xavier_uniform_(w, 2)", "xavier_normal_(w)",
        "kaiming_uniform_(w, 0.1, 'fan_out', 'relu')", "kaiming_normal_(w, nonlinearity='tanh')",
        "sparse_(w, 0.4)", "eye_(w)",
    ],
)  # fmt: skip
def test_initial_values(fill: str, nearly: Comparison) -> None:
    check(nearly, "w = torch.empty(12, 9)", f"init.{fill}", STATE, "w = w + 0")


REDUCTIONS = ("mean", "sum", "none")
LOSSES = [
    "cross_entropy(x, c, reduction=r)",
    "cross_entropy(x, c, w, ignore_index=2, reduction=r)",
    "cross_entropy(x, c, w, label_smoothing=0.2, reduction=r)",
    "cross_entropy(x, u, label_smoothing=0.2, reduction=r)",
    "nll_loss(x, c, w, reduction=r)",
    "mse_loss(x, u, reduction=r)",
    "l1_loss(x, u, reduction=r)",
    "smooth_l1_loss(x, u, reduction=r, beta=0.3)",
    "huber_loss(x, u, reduction=r, delta=0.4)",
    "binary_cross_entropy(x.sigmoid(), u, w, reduction=r)",
    "binary_cross_entropy_with_logits(x, u, w, reduction=r, pos_weight=w)",
    "kl_div(x, u, reduction=r)",
    "poisson_nll_loss(x, u * 5, full=True, reduction=r)",
    "gaussian_nll_loss(x, u, u + 1, full=True, reduction=r)",
    "hinge_embedding_loss(x, s, reduction=r)",
    "soft_margin_loss(x, s, reduction=r)",
    "multilabel_soft_margin_loss(x, u, w, reduction=r)",
    "multi_margin_loss(x, c, 2, 0.5, w, reduction=r)",
    "cosine_embedding_loss(x, u, s[:, 0], 0.1, reduction=r)",
    "margin_ranking_loss(x, u, s, 0.2, reduction=r)",
    "triplet_margin_loss(x, u, s, swap=True, reduction=r)",
]


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(loss: str, comparison: Comparison) -> None:
    for reduction in REDUCTIONS:
        check(
            comparison,
            "x = torch.randn(4, 3, dtype=torch.float64).requires_grad_()",
            "u = torch.rand(4, 3, dtype=torch.float64)",
            "s = torch.sign(torch.rand(4, 3, dtype=torch.float64) - 0.5)",
            "c = torch.tensor([0, 2, 1, 1])",
            "w = torch.tensor([1.0, 2.0, 0.5], dtype=torch.float64)",
            f"r = {reduction!r}",
            f"loss = F.{loss}",
            "loss.sum().backward()",
            "loss = loss.detach() + 0",
        )


OPTIMIZERS = [
    "SGD([a, b], lr=0.1)", "SGD([a, b], lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)",
    "SGD([a, b], lr=0.1, momentum=0.5, dampening=0.2, maximize=True)",
    "Adam([a, b], lr=0.1)", "Adam([a, b], lr=0.1, amsgrad=True, weight_decay=0.1)",
    "Adam([a, b], maximize=True, betas=(0.5, 0.6))", "AdamW([a, b], lr=0.1, weight_decay=0.3)",
    "RMSprop([a, b], momentum=0.3, centered=True)", "Adagrad([a, b], lr_decay=0.1)",
    "Adadelta([a, b], rho=0.5, weight_decay=0.1)", "Adamax([a, b])", "NAdam([a, b])",
    "RAdam([a, b], betas=(0.8, 0.9))", "Rprop([a, b])", "ASGD([a, b], t0=2, lambd=0.01)",
    "Adafactor([a, b])",
]  # fmt: skip
TRAIN = """
for _ in range(6):
    o.zero_grad()
    ((a - 1).pow(4).sum() + (a * b).sum() ** 2).backward()
    o.step()
"""


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(optimizer: str, comparison: Comparison) -> None:
    check(
        comparison,
        "a = nn.Parameter(torch.randn(3, 2, dtype=torch.float64))",
        "b = nn.Parameter(torch.randn(3, 2, dtype=torch.float64))",
        f"o = optim.{optimizer}",
        TRAIN,
        "state = o.state_dict()['state']",
        "options = {k: v for k, v in o.param_groups[0].items() if k != 'params'}",
        "text = repr(o)",
        # In-place writes are counted by how a step is split into operations.
        "a, b = a.detach().clone(), b.detach().clone()",
        "state = {k: {n: v + 0 for n, v in s.items()} for k, s in state.items()}",
    )


SCHEDULES = [
    "StepLR(o, 3)", "MultiStepLR(o, [2, 5, 5], 0.3)", "ExponentialLR(o, 0.8)",
    "CosineAnnealingLR(o, 4, 0.01)", "LambdaLR(o, [lambda e: 0.9**e, lambda e: e + 1])",
    "MultiplicativeLR(o, lambda e: 0.5 + e * 0.1)", "LinearLR(o, 0.2, 0.9, 6)",
    "ConstantLR(o, 0.4, 4)", "PolynomialLR(o, 7, 2.0)",
    "CosineAnnealingWarmRestarts(o, 2, 2, 0.001)",
    "CyclicLR(o, 0.1, [0.4, 0.6], 3, 4, mode='exp_range', gamma=0.9)",
    "OneCycleLR(o, [0.5, 0.7], total_steps=15)",
    "OneCycleLR(o, 0.5, epochs=3, steps_per_epoch=5, three_phase=True, anneal_strategy='linear')",
    "SequentialLR(o, [L.LinearLR(o, 0.1, 1.0, 4), L.CosineAnnealingLR(o, 5)], [4])",
    "ChainedScheduler([L.ConstantLR(o, 0.1, 4), L.ExponentialLR(o, 0.9)])",
]  # fmt: skip
RUN = """
rates = []
for _ in range(12):
    o.step()
    s.step()
    rates.append([[g['lr'], g['momentum']] for g in o.param_groups])
    rates.append(s.get_last_lr())
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_schedules(schedule: str, comparison: Comparison) -> None:
    check(
        comparison,
        "L = optim.lr_scheduler",
        "p = [{'params': [nn.Parameter(torch.ones(2))], 'lr': r} for r in (0.1, 0.5)]",
        "o = optim.SGD(p, momentum=0.9)",
        f"s = L.{schedule}",
        RUN,
        "state = s.state_dict()",
        "del p, L",
    )


@pytest.mark.parametrize(
    "options",
    [
        "batch_size=3, shuffle=True", "batch_size=4, drop_last=True, shuffle=True", "batch_size=3",
        "batch_size=None, shuffle=True",
        "sampler=data.SubsetRandomSampler([1, 3, 5]), batch_size=2",
        "sampler=data.RandomSampler(d, replacement=True, num_samples=70), batch_size=9",
        "sampler=data.RandomSampler(d, num_samples=23), batch_size=8",
        "sampler=data.WeightedRandomSampler([0.1] * 5 + [0.9] * 5, 6), batch_size=6",
        "batch_size=3, shuffle=True, generator=torch.Generator().manual_seed(5)",
    ],
)  # fmt: skip
def test_data_loaders_give_the_same_batches(options: str, exact: Comparison) -> None:
    check(
        exact,
        "d = data.TensorDataset(torch.arange(10), torch.arange(10) * 2.0)",
        f"loader = data.DataLoader(d, {options})",
        "size = len(loader)",
        "batches = [[x + 0 for x in b] for _ in range(2) for b in loader]",
        "parts = [s.indices for s in data.random_split(d, [0.25, 0.35, 0.4])]",
        STATE,
    )
