"""Parametrizations, norms on weights, pruning, fusion and lazy modules against PyTorch."""

from __future__ import annotations

import pytest
from compare import Comparison
from test_nn_and_optim import STATE, check

IMPORTS = [
    "_ = [importlib.import_module(torch.__name__ + '.nn.' + n) for n in"
    " ('utils.prune', 'utils.parametrize', 'utils.parametrizations', 'attention.bias')]",
    "U, P, Q = nn.utils, nn.utils.parametrize, nn.utils.parametrizations",
    "R, A = nn.utils.prune, nn.attention",
    "exec('''class Symmetric(nn.Module):\n  def forward(self, x): return x.triu() + x.triu(1).T\n"
    "  def right_inverse(self, x): return x.triu()\n"
    "class Rank(nn.Module):\n  def forward(self, a, b): return a @ b\n"
    "  def right_inverse(self, x): return x[:, :1].clone(), x[:1].clone()\n"
    "class First(nn.Module):\n  def forward(self, x): return x[:1]\n"
    "class Number(nn.Module):\n  def forward(self, x): return 3\n''')",
]


def run(comparison: Comparison, *statements: str) -> None:
    check(comparison, *IMPORTS, *statements)


NORMS = [
    "U.weight_norm(m)", "U.weight_norm(m, dim=None)", "U.spectral_norm(m)",
    "U.spectral_norm(m, n_power_iterations=3)", "Q.weight_norm(m)", "Q.weight_norm(m, dim=1)",
    "Q.spectral_norm(m)", "Q.orthogonal(m)", "Q.orthogonal(m, orthogonal_map='cayley')",
    "Q.orthogonal(m, orthogonal_map='householder')",
    "Q.orthogonal(m, orthogonal_map='matrix_exp')",
]  # fmt: skip


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "layer", ["Linear(4, 3)", "Linear(3, 3)", "Linear(2, 4)", "ConvTranspose2d(2, 3, 2)"]
)
def test_norms_of_weights(norm: str, layer: str, comparison: Comparison) -> None:
    if "orthogonal" in norm and "Conv" in layer:
        return
    size = "(2, 2, 5, 5)" if "Conv" in layer else "(5, m.in_features)"
    run(
        comparison, f"m = nn.{layer}.double()", f"m = {norm}", "text = repr(m)",
        "start = {k: v.clone() for k, v in m.state_dict().items()}", STATE,
        f"x = torch.randn({size}, dtype=torch.float64)", "y = m(x)", "(y * y).sum().backward()",
        "grads = {k: p.grad for k, p in m.named_parameters()}",
        "after = {k: v.clone() for k, v in m.state_dict().items()}", "m.eval()",
        "z = m(x).detach()", "y, w = y.detach(), m.weight.detach() + 0",
    )  # fmt: skip


def test_norms_can_be_removed(comparison: Comparison) -> None:
    for norm, remove in (
        ("U.weight_norm", "U.remove_weight_norm(m)"),
        ("U.spectral_norm", "U.remove_spectral_norm(m)"),
        ("Q.weight_norm", "P.remove_parametrizations(m, 'weight')"),
        ("Q.spectral_norm", "P.remove_parametrizations(m, 'weight', False)"),
    ):
        run(
            comparison, f"m = {norm}(nn.Linear(4, 3))", "y = m(torch.randn(2, 4)).detach()",
            remove, "state = dict(m.state_dict())", "text = repr(m)", "kind = type(m).__name__",
            "hooks = len(m._forward_pre_hooks)",
        )  # fmt: skip


def test_parametrizations(comparison: Comparison) -> None:
    run(
        comparison, "m = nn.Linear(3, 3)",
        "m = P.register_parametrization(m, 'weight', Symmetric())",
        "text = repr(m)", "names = [n for n, _ in m.named_parameters()]", "w = m.weight.detach()",
        "kinds = [type(m).__name__, P.type_before_parametrizations(m).__name__]",
        "tests = [P.is_parametrized(x) for x in (m, nn.ReLU())] + [P.is_parametrized(m, 'bias')]",
        "m.weight = torch.ones(3, 3)", "set = m.parametrizations.weight.original.detach() + 0",
        "with P.cached(): same = m.weight is m.weight", "differ = m.weight is not m.weight",
        "n = P.register_parametrization(nn.Linear(3, 3), 'weight', Rank())",
        "keys = list(n.state_dict())", "count = n.parametrizations.weight.ntensors",
        "v = n.weight.detach()", "n.weight = torch.ones(3, 3)", "v2 = n.weight.detach()",
        "P.remove_parametrizations(n, 'weight')", "plain = dict(n.state_dict())",
        "import copy; c = copy.deepcopy(m)", "copied = (c.weight == m.weight).all().item()",
        "t = P.transfer_parametrizations_and_params(m, nn.Linear(3, 3))", "moved = repr(t)",
        "buffer = P.register_parametrization(nn.BatchNorm1d(3), 'running_mean', nn.ReLU())",
        "held = list(buffer.state_dict())",
    )  # fmt: skip


PRUNINGS = [
    "identity(m, 'weight')", "random_unstructured(m, 'weight', 0.3)",
    "l1_unstructured(m, 'weight', 5)", "l1_unstructured(m, 'bias', 0.5)",
    "random_structured(m, 'weight', 1, 0)", "ln_structured(m, 'weight', 0.4, 2, 1)",
    "ln_structured(m, 'weight', 1, float('inf'), -1)",
    "custom_from_mask(m, 'weight', torch.eye(4)[:3])",
    "l1_unstructured(m, 'weight', 3, importance_scores=torch.arange(12.0).view(3, 4))",
]  # fmt: skip


@pytest.mark.parametrize("pruning", PRUNINGS)
def test_pruning(pruning: str, comparison: Comparison) -> None:
    run(
        comparison, "m = nn.Linear(4, 3)", f"m = R.{pruning}", STATE,
        "state = {k: v.clone() for k, v in m.state_dict().items()}",
        "again = R.random_unstructured(m, 'weight', 2)",
        "more = R.ln_structured(m, 'weight', 1, 1, 0)",
        "y = m(torch.randn(2, 4))", "y.sum().backward()", "y = y.detach()",
        "grads = {k: p.grad for k, p in m.named_parameters()}", "pruned = R.is_pruned(m)",
        "R.remove(m, 'weight')", "left = dict(m.state_dict())", "del again, more",
    )  # fmt: skip


def test_global_pruning(comparison: Comparison) -> None:
    run(
        comparison, "m = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))",
        "where = [(m[0], 'weight'), (m[1], 'weight')]",
        "R.global_unstructured(where, R.L1Unstructured, amount=0.4)",
        "state = dict(m.state_dict())", "t = R.L1Unstructured(2).prune(torch.arange(6.0) - 2)",
        "del where",
    )  # fmt: skip


def test_fusion_and_memory_formats(comparison: Comparison) -> None:
    for conv in ("Conv2d(2, 3, 2)", "Conv2d(2, 3, 2, bias=False)", "ConvTranspose2d(2, 3, 2)"):
        run(
            comparison, f"c, b = nn.{conv}, nn.BatchNorm2d(3)",
            "b(torch.randn(4, 3, 2, 2) * 2 + 1)", "c.eval(), b.eval()",
            f"m = U.fuse_conv_bn_eval(c, b, {'Transpose' in conv})", "state = dict(m.state_dict())",
            "x = torch.randn(2, 2, 4, 4)", "y, z = m(x).detach(), b(c(x)).detach()",
            "k = U.convert_conv2d_weight_memory_format(c, torch.channels_last)",
            "laid = c.weight.stride()",
        )  # fmt: skip
    run(
        comparison, "l, b = nn.Linear(3, 4).eval(), nn.BatchNorm1d(4).eval()",
        "m = U.fuse_linear_bn_eval(l, b)", "state = dict(m.state_dict())",
    )  # fmt: skip


LAZY = {
    "LazyLinear(3)": "2, 5", "LazyLinear(3, False)": "5", "LazyConv1d(3, 2)": "2, 4, 6",
    "LazyConv2d(4, 2, padding=1, groups=2)": "2, 4, 5, 5",
    "LazyConv3d(2, 1, bias=False)": "1, 3, 2, 2, 2",
    "LazyConvTranspose1d(2, 3)": "2, 4, 6", "LazyConvTranspose2d(4, 2, groups=2)": "4, 3, 3",
    "LazyConvTranspose3d(2, 2)": "1, 2, 2, 2, 2", "LazyBatchNorm1d()": "4, 3",
    "LazyBatchNorm2d(momentum=None)": "2, 3, 2, 2",
    "LazyBatchNorm3d(affine=False)": "2, 3, 2, 2, 2",
    "LazyInstanceNorm1d()": "2, 3, 4", "LazyInstanceNorm2d(affine=False)": "2, 3, 4, 4",
    "LazyInstanceNorm3d(track_running_stats=False)": "2, 3, 2, 2, 2",
}  # fmt: skip


@pytest.mark.parametrize("layer", LAZY)
def test_lazy_layers(layer: str, comparison: Comparison) -> None:
    run(
        comparison, f"m = nn.Sequential(nn.{layer}, nn.ReLU())", "text = repr(m)",
        "names = list(m.state_dict())", "lazy = m[0].has_uninitialized_params()",
        "hidden = repr(list(m[0].parameters()))",
        f"x = torch.randn({LAZY[layer]}).requires_grad_()", "y = m(x)", "y.sum().backward()",
        "y = y.detach()", "after = dict(m.state_dict())", "text2 = repr(m)", STATE,
        "kind = type(m[0]).__name__", "z = m(x).detach()",
    )  # fmt: skip


def test_lazy_layers_load_states(comparison: Comparison) -> None:
    run(
        comparison, "m = nn.LazyLinear(3)", "m.load_state_dict(nn.Linear(5, 3).state_dict())",
        "shape = m.weight.shape", "text = repr(m)", "y = m(torch.randn(2, 5)).detach()",
        "text2 = repr(m)", "n = nn.LazyBatchNorm1d()",
        "n.load_state_dict(nn.BatchNorm1d(4).state_dict())", "state = dict(n.state_dict())",
    )  # fmt: skip


def test_rare_modules(comparison: Comparison) -> None:
    run(
        comparison, "m = nn.SyncBatchNorm(3)", "text = repr(m)", "x = torch.randn(4, 3, 2)",
        "y = m(x).detach()", "state = dict(m.state_dict())",
        "c = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(2), nn.ReLU()))",
        "text2 = repr(c)", "l = nn.CrossMapLRN2d(3)", "text3 = repr(l)",
        "z = l(torch.randn(2, 5, 3, 3))", "d = nn.DataParallel(nn.Linear(3, 2))",
        "text4 = repr(d)", "w = d(torch.randn(4, 3)).detach()", "keys = list(d.state_dict())",
        "k = nn.Container(a=nn.Linear(2, 1))", "text5 = repr(k)",
        "q, kv = torch.randn(1, 1, 2, 4), torch.randn(1, 1, 3, 4)",
        "s = F.scaled_dot_product_attention(q, kv, kv, A.bias.causal_lower_right(2, 3))",
        "with A.sdpa_kernel(A.SDPBackend.MATH): s2 = F.scaled_dot_product_attention(q, kv, kv)",
        "backends = [str(b) for b in A.SDPBackend.__members__]",
    )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "P.register_parametrization(m, 'weight', First())",
        "P.register_parametrization(m, 'weight', Number())",
        "P.register_parametrization(m, 'foo', Symmetric())",
        "P.remove_parametrizations(m, 'weight')",
        "import pickle; pickle.dumps(P.register_parametrization(m, 'weight', Symmetric()))",
        "U.remove_weight_norm(m)", "U.remove_spectral_norm(m)", "U.weight_norm(U.weight_norm(m))",
        "U.spectral_norm(U.spectral_norm(m))", "U.spectral_norm(m, n_power_iterations=0)",
        "Q.spectral_norm(m, 'foo')", "Q.orthogonal(m, 'bias')",
        "Q.orthogonal(m, orthogonal_map='x')", "Q.weight_norm(m, 'x')", "R.remove(m, 'weight')",
        "R.l1_unstructured(m, 'weight', 50)", "R.l1_unstructured(m, 'weight', -1)",
        "R.l1_unstructured(m, 'weight', 1.5)", "R.l1_unstructured(m, 'weight', 'a')",
        "R.ln_structured(m, 'weight', 1, 2, 5)", "R.ln_structured(m, 'bias', 1, 2, 0)",
        "R.global_unstructured([(m, 'weight')], R.LnStructured, amount=1)",
        "R.global_unstructured(3, R.L1Unstructured, amount=1)",
        "R.custom_from_mask(m, 'weight', torch.ones(2, 2))", "nn.LazyLinear(3).weight.shape",
        "nn.LazyLinear(3).weight + 1", "torch.relu(nn.LazyLinear(3).weight)",
        "nn.LazyLinear(3).weight.numel()", "nn.LazyConv2d(4, 3)(torch.randn(2, 3))",
        "m.load_state_dict(nn.LazyLinear(3).state_dict())", "nn.LazyLinear(3).share_memory()",
        "nn.SyncBatchNorm(3)(torch.randn(3))",
        "U.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))",
    ],
)  # fmt: skip
def test_errors(statement: str, comparison: Comparison) -> None:
    run(comparison, "m = nn.Linear(3, 3)", statement)
