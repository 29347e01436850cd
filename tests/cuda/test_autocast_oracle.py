"""Under autocast on CUDA ops compute in the dtypes of PyTorch, where it is installed: each
expression is asked with inputs of single and of half precision and with one of each."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

EXPRESSIONS = [
    text.strip()
    for line in """
x @ y | torch.mm(x, y) | torch.matmul(a, b) | torch.bmm(a, b) | torch.addmm(x, x, y)
torch.mv(x, v) | torch.addmv(v, x, w) | torch.addr(x, v, w) | torch.baddbmm(a, a, b)
torch.addbmm(x, a, b) | torch.chain_matmul(x, y) | torch.linalg.multi_dot([x, y])
torch.einsum('ij,jk', x, y) | torch.dot(v, w) | torch.vdot(v, w) | torch.inner(v, w)
torch.outer(v, w) | torch.tensordot(x, y, 1) | torch.linalg.vecdot(v, w) | torch.kron(x, y)
torch.cross(c, d, dim=-1) | torch.bilinear(x, y, e, None) | F.bilinear(x, y, e) | F.linear(x, y)
F.linear(x, y, v) | F.conv1d(s, t) | F.conv2d(i, k) | F.conv_transpose2d(i, k)
F.conv_transpose1d(s, t) | F.prelu(x, v[:1]) | F.scaled_dot_product_attention(a, b, b)
torch.pow(x, 2) | x ** 2 | 2 ** x | x.__rtruediv__(1) | 1 / x | x / y | x * y | torch.pow(x, y)
x + y | x - y | torch.exp(x) | torch.expm1(x) | torch.log(p) | torch.log2(p) | torch.log10(p)
torch.log1p(p) | torch.acos(p) | torch.asin(p) | torch.atan(p) | torch.cosh(x) | torch.sinh(x)
torch.tanh(x) | torch.tan(x) | torch.sin(x) | torch.erf(x) | torch.erfinv(p) | torch.rsqrt(p)
torch.sqrt(p) | torch.reciprocal(p) | torch.sigmoid(x) | torch.abs(x) | torch.softmax(x, 1)
F.softmax(x, 1) | F.softmin(x, 1) | F.log_softmax(x, 1) | F.gumbel_softmax(x)
torch.logsumexp(x, 1) | F.softplus(x) | F.gelu(x) | F.silu(x) | F.relu(x) | F.elu(x) | F.mish(x)
F.hardswish(x) | F.leaky_relu(x) | F.glu(x) | F.celu(x) | F.selu(x) | F.logsigmoid(x)
F.threshold(x, 0, 0) | F.dropout(x, .5) | F.layer_norm(x, (4,)) | F.group_norm(i, 2)
F.batch_norm(i, None, None, training=True) | F.instance_norm(i) | F.rms_norm(x, (4,))
F.local_response_norm(i, 2) | F.normalize(x) | F.cosine_similarity(x, y)
F.pairwise_distance(x, y) | torch.cdist(x, y) | F.pdist(x) | torch.dist(x, y) | torch.norm(x)
x.norm(dim=1) | torch.linalg.norm(x) | torch.linalg.vector_norm(x) | torch.linalg.matrix_norm(x)
torch.renorm(x, 2, 0, 1) | torch.sum(x) | x.sum(1) | x.mean() | x.mean(1) | torch.prod(x)
x.prod(1) | torch.cumsum(x, 0) | torch.cumprod(x, 0) | torch.cummax(x, 0).values
torch.logcumsumexp(x, 0) | x.var() | x.std() | x.max() | x.amax(0) | torch.trace(x) | x.nansum()
x.median() | F.mse_loss(x, y) | F.l1_loss(x, y) | F.smooth_l1_loss(x, y) | F.huber_loss(x, y)
F.cross_entropy(x, n) | F.nll_loss(x, n) | F.kl_div(x, p)
F.binary_cross_entropy_with_logits(x, p) | F.binary_cross_entropy(p, p)
F.poisson_nll_loss(x, y) | F.soft_margin_loss(x, y) | F.hinge_embedding_loss(x, y)
F.cosine_embedding_loss(x, y, u) | F.margin_ranking_loss(v, w, u) | F.multi_margin_loss(x, n)
F.multilabel_margin_loss(x, m) | F.multilabel_soft_margin_loss(x, p)
F.triplet_margin_loss(x, y, x) | F.gaussian_nll_loss(x, y, p)
F.ctc_loss(F.log_softmax(a, 2), torch.ones(4, 2, dtype=torch.long), (4,) * 4, (2,) * 4)
torch.addcdiv(x, y, p) | torch.addcmul(x, y, p) | torch.atan2(x, y) | torch.hypot(x, y)
torch.cat([x, y]) | torch.stack([x, y]) | torch.hstack([x, y]) | torch.where(x > 0, x, y)
torch.lerp(x, y, .5) | torch.index_put(x, (n,), y) | x.index_put((n,), y)
torch.scatter_add(x, 0, o, y) | x.scatter_add(0, o, y) | x.index_add(0, n, y)
x.index_copy(0, n, y) | torch.scatter(x, 0, o, y) | torch.gather(x, 0, o)
F.grid_sample(i, g, align_corners=False) | F.affine_grid(h, (2, 4, 4, 4), align_corners=False)
F.interpolate(i, scale_factor=2) | F.interpolate(i, scale_factor=2, mode='bilinear')
F.interpolate(i, scale_factor=2, mode='bicubic')
F.interpolate(s, scale_factor=2, mode='linear')
F.interpolate(i[None], scale_factor=2, mode='trilinear')
F.interpolate(i, 3, mode='nearest-exact') | F.interpolate(i, scale_factor=2, mode='area')
F.avg_pool2d(i, 2) | F.max_pool2d(i, 2) | F.adaptive_avg_pool2d(i, 2) | F.lp_pool2d(i, 2, 2)
F.adaptive_max_pool2d(i, 2) | F.pad(i, (1, 1, 1, 1)) | F.pad(i, (1, 1, 1, 1), 'reflect')
F.pad(i, (1, 1, 1, 1), 'replicate') | F.unfold(i, 2) | F.embedding(n, x)
F.embedding_bag(n[None], x) | torch.clamp(x, 0, 1) | torch.maximum(x, y) | torch.fft.rfft(x)
torch.stft(v.repeat(8), 8, window=v.repeat(2), return_complex=True)
torch.linalg.inv(x @ x.t() + q) | torch.linalg.solve(q, y) | torch.linalg.det(q)
torch.linalg.svdvals(q) | torch.linalg.eigvalsh(q) | torch.linalg.cholesky(q)
torch.nn.LSTM(4, 4)(a)[0] | torch.nn.GRU(4, 4)(a)[0] | torch.nn.RNN(4, 4)(a)[0]
torch.nn.LSTMCell(4, 4)(x)[0] | torch.nn.GRUCell(4, 4)(x) | torch.nn.RNNCell(4, 4)(x)
torch.nn.MultiheadAttention(4, 2)(a, a, a)[0] | torch.nn.Linear(4, 4)(x)
torch.nn.Conv2d(4, 4, 3, padding=1)(i) | torch.nn.BatchNorm2d(4)(i) | torch.nn.LayerNorm(4)(x)
torch.nn.GroupNorm(2, 4)(i) | torch.nn.TransformerEncoderLayer(4, 2, 8)(a)
torch.nn.Embedding(4, 4)(n) | torch.nn.PReLU()(x) | x.mm(y) | x.matmul(y) | x.exp() | x.pow(3)
x.softmax(0) | x.log_softmax(0) | x.addmm(x, y) | x.cumsum(0) | x.rsqrt() | x.reciprocal()
x.atan2(y) | torch.square(x) | torch.arccos(p) | torch.arcsin(p) | x.sum_to_size(1, 4)
torch.inner(x, y) | torch.linalg.matrix_power(x, 2) | torch.cov(x) | torch.corrcoef(x)
""".strip().splitlines()
    for text in line.split(" | ")
]

PROGRAM = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
torch = importlib.import_module(sys.argv[1])
F = torch.nn.functional
torch.set_default_device("cuda")
answers = {}
half, single = torch.float16, torch.float32
for kinds in ((single, single), (half, half), (half, single)):
    torch.manual_seed(0)
    one, two = kinds
    x, y = torch.rand(4, 4).to(one), torch.rand(4, 4).to(two)
    p, q = torch.rand(4, 4).to(one), torch.eye(4)
    v, w, u = torch.rand(4).to(one), torch.rand(4).to(two), torch.ones(4)
    a, b = torch.rand(4, 4, 4).to(one), torch.rand(4, 4, 4).to(two)
    c, d = torch.rand(4, 3).to(one), torch.rand(4, 3).to(two)
    e = torch.rand(2, 4, 4).to(two)
    s, t = torch.rand(2, 4, 8).to(one), torch.rand(4, 4, 3).to(two)
    i, k = torch.rand(2, 4, 4, 4).to(one), torch.rand(4, 4, 3, 3).to(two)
    g, h = torch.rand(2, 3, 3, 2).to(two), torch.rand(2, 2, 3).to(one)
    n, m, o = torch.arange(4), torch.zeros(4, 4).long() - 1, torch.zeros(4, 4).long()
    for text in json.load(open(sys.argv[2])):
        with torch.autocast("cuda", half):
            try:
                answer = str(eval(text).dtype)
            except Exception as error:
                answer = type(error).__name__
        answers[f"{text} of {one} and {two}"] = answer
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    texts = tmp_path_factory.mktemp("autocast") / "texts.json"
    texts.write_text(json.dumps(EXPRESSIONS))
    found = []
    for library in ("flambeau", "torch"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, library, str(texts)],
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return found[0], found[1]


def test_every_op_computes_in_pytorchs_dtype(
    answers: tuple[dict[str, str], dict[str, str]],
) -> None:
    ours, theirs = answers
    differing = {
        text: f"{ours[text]}, PyTorch {theirs[text]}"
        for text in theirs
        if ours[text] != theirs[text]
    }
    assert not differing, "\n".join(f"{text}: {what}" for text, what in differing.items())
