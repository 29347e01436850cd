"""Statements of random programs as people write them around models: modules and nn.functional,
losses, training steps and state dicts, einsum, linear algebra, Fourier transforms, sparse tensors,
autocast, checkpoints, derivatives forward and mapped over samples.

Templates as in programs_mixed.py, which tells what their letters stand for.
"""

from __future__ import annotations

from programs_base import Statements

# Functions that statements call; the worker runs it first.
MODEL_PRELUDE = """
import copy, io, pickle
F, nn, ad, P = torch.nn.functional, torch.nn, torch.autograd.forward_ad, torch.nn.utils.parametrize

def network(x, hidden=4):
    layers = nn.Linear(x.shape[-1], hidden), nn.Tanh(), nn.Linear(hidden, 1)
    return nn.Sequential(*layers).to(x.dtype)

def train(kind, x, scheduler=None, clip=None, again=False, **options):
    model = network(x)
    optimizer = kind(model.parameters(), **options)
    schedule = scheduler and scheduler(optimizer)
    losses = []
    for step in range(4):
        if again and step == 2:
            kept = copy.deepcopy(optimizer.state_dict())
            optimizer = kind(model.parameters(), **options)
            optimizer.load_state_dict(kept)
        def closure():
            optimizer.zero_grad()
            loss = model(x.detach()).square().mean()
            loss.backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            return loss
        losses.append(optimizer.step(closure).detach())
        if schedule:
            schedule.step()
    return losses + [p.detach() for p in model.parameters()] + [optimizer.param_groups[0]['lr']]

def copied(module, x, how):
    if how == 'deepcopy':
        other = copy.deepcopy(module)
    elif how == 'save':
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        other = copy.deepcopy(module)
        for p in other.parameters():
            p.data.zero_()
        other.load_state_dict(torch.load(file))
    else:
        other = pickle.loads(pickle.dumps(module))
    return other(x), [(k, v.detach().clone()) for k, v in other.state_dict().items()]

def dual(f, x, t):
    with ad.dual_level():
        primal, tangent = ad.unpack_dual(f(ad.make_dual(x, t)))
        return primal, tangent if tangent is None else tangent.contiguous()
def gradient(f, x):
    return torch.autograd.grad(f(x.detach().requires_grad_()).sum(), x)
"""

# Results of x's shape.
MODEL_RESULTS = (
    "F.elu(x, 0.5)", "F.selu(x)", "F.celu(x, 2.0)", "F.hardswish(x)", "F.hardsigmoid(x)",
    "F.softshrink(x, 0.3)", "F.hardshrink(x, 0.3)", "F.tanhshrink(x)", "F.softsign(x)",
    "F.threshold(x, 0.5, s)", "F.relu6(x)", "F.rrelu(x)", "F.prelu(x, torch.full((1,), 0.25))",
    "F.gelu(x, approximate='tanh')", "F.mish(x)", "F.leaky_relu_(x, 0.2)", "F.elu_(x)",
    "F.hardtanh(x, -0.5, 0.5)", "F.softplus(x, 2, 1)", "F.logsigmoid(x)", "F.softmin(x, n)",
    "F.gumbel_softmax(x.detach(), hard=True).relu() + x", "F.softmax(x, n)",
    "F.silu(x, inplace=True)", "F.normalize(x, 1, n)", "F.layer_norm(x, x.shape[-2:])",
    "F.rms_norm(x, x.shape[-1:])", "F.group_norm(x, 1)", "F.instance_norm(x)",
    "F.batch_norm(x, None, None, training=True)", "F.local_response_norm(x, 2)",
    "F.dropout(x, 0.5)", "F.dropout(x, 0.3, training=False)", "F.alpha_dropout(x, 0.2, True)",
    "F.dropout1d(x, 0.5)", "F.feature_dropout(x, 0.5)",
    "nn.Linear(x.shape[-1], x.shape[-1], dtype=x.dtype)(x)", "nn.LayerNorm(x.shape[-1])(x)",
    "nn.BatchNorm1d(x.shape[1], dtype=x.dtype)(x)", "nn.BatchNorm2d(x.shape[1]).eval()(x)",
    "nn.PReLU(dtype=x.dtype)(x)", "nn.GroupNorm(1, x.shape[1], dtype=x.dtype)(x)",
    "nn.InstanceNorm1d(x.shape[1], affine=True, dtype=x.dtype)(x)", "nn.Softmax(n)(x)",
    "nn.Sequential(nn.Linear(x.shape[-1], 3), nn.ReLU(), nn.Linear(3, x.shape[-1]))(x)",
    "torch.utils.checkpoint.checkpoint(lambda t: t.sin() * t, x, use_reentrant=False)",
    "torch.utils.checkpoint.checkpoint(lambda t: t.sin() * t, x, use_reentrant=True)",
    "torch.utils.checkpoint.checkpoint(lambda t, u: t * u, x, y, use_reentrant=False)",
    "torch.utils.checkpoint.checkpoint_sequential([torch.sin, torch.exp], 2, x, "
    "use_reentrant=False)",
    "torch.einsum('...i,...i->...i', x, y)", "torch.einsum('...->...', x)",
    "torch.einsum('i...,i...->i...', x, x)", "torch.einsum('...i->...', x).unsqueeze(-1) + x",
    "torch.fft.ifft(torch.fft.fft(x, dim=n), dim=n).real", "torch.fft.fftshift(x, n)",
    "torch.fft.irfft(torch.fft.rfft(x, dim=n), x.shape[n], n)", "torch.fft.ifftshift(x)",
    "torch.fft.fft2(x).real", "torch.fft.fftn(x).imag", "torch.fft.ifft(x).abs()",
    "torch.fft.fft(x, norm='ortho').real", "torch.fft.hfft(x, x.shape[-1])",
    "torch.linalg.solve(x @ x.mT + 9 * torch.eye(x.shape[-2], dtype=x.dtype), x)",
    "torch.linalg.inv(x @ x.mT + 9 * torch.eye(x.shape[-2])) @ x", "torch.linalg.pinv(x).mT",
    "torch.linalg.matrix_norm(x, keepdim=True) + x", "torch.linalg.matrix_power(x, 2)",
    "torch.linalg.vector_norm(x, 3, n, keepdim=True) * x", "torch.linalg.matrix_exp(x)",
    "torch.linalg.cholesky(x @ x.mT + 9 * torch.eye(x.shape[-2], dtype=x.dtype)) @ x",
    "torch.linalg.multi_dot([x, x.mT, x])", "torch.linalg.cross(x, y, dim=n)", "x.matmul(x.mT) @ x",
    "torch.linalg.lstsq(x @ x.mT + 9 * torch.eye(x.shape[-2], dtype=x.dtype), x).solution",
    "torch.linalg.solve_triangular(x.tril() + 5 * torch.eye(x.shape[-1]), x, upper=False)",
    "F.scaled_dot_product_attention(x, x, x)", "F.scaled_dot_product_attention(x, x, y)",
    "F.scaled_dot_product_attention(x, x, x, is_causal=True)", "F.interpolate(x, scale_factor=1)",
    "F.conv1d(x, torch.ones(x.shape[1], 1, 1, dtype=x.dtype), groups=x.shape[1])",
    "F.conv2d(x, torch.ones(x.shape[1], 1, 3, 3, dtype=x.dtype), padding=1, groups=x.shape[1])",
    "F.max_pool1d(x, 3, 1, 1)", "F.avg_pool2d(x, 3, 1, 1)", "F.adaptive_avg_pool1d(x, x.shape[-1])",
    "F.max_pool2d(x, 3, 1, 1)", "F.lp_pool1d(x, 2, 1)", "F.pad(x, (1, 1), value=s)[..., 1:-1]",
    "torch.func.jvp(lambda t: t.exp() * t, (x,), (torch.ones_like(x),))[1]",
    "torch.func.vmap(lambda t: t.softmax(0))(x)",
    "torch.func.vmap(torch.outer)(x, x).diagonal(0, -2, -1)",
    "torch.func.vmap(torch.func.grad(lambda t: t.sin().sum()))(x)",
    "torch.func.vmap(torch.mul)(x, y)",
    "torch.func.vmap(lambda t: t.cumsum(0), in_dims=-1, out_dims=-1)(x)",
    "torch.func.vmap(lambda t: t.where(t > 0, t * 2))(x)",

    "torch.func.vmap(lambda t, u: t + u, (0, None))(x, s)",
    "torch.func.grad(lambda t: F.gelu(t).sum())(x)",
    "torch.func.functionalize(lambda t: t.clone().add_(1))(x)",
    "dual(torch.tanh, x, torch.ones_like(x))[1]", "dual(lambda t: t * y, x, x)[1]",
    "dual(lambda t: t.clone().mul_(t), x, torch.ones_like(x))[1]",
    "dual(lambda t: t.view(t.shape) / (t * t + 1), x, x)[1]", "x.to_sparse().to_dense()",
    "(x.to_sparse() * 2).to_dense()", "(x.to_sparse() + x.to_sparse()).to_dense()",
    "x.to_sparse().mul(x.to_sparse()).coalesce().to_dense()",
    "torch.sparse.mm(torch.eye(len(x), dtype=x.dtype).to_sparse(), x)",
    "torch.atleast_2d(x).to_sparse_csr().to_dense()",
    "torch.ops.aten.sin(x)", "torch.special.expit(x)",
    "torch.special.entr(x)", "torch.special.xlog1py(x, y)", "torch.special.logit(x, 0.2)",
    "torch.special.i0(x)", "torch.special.ndtr(x)", "torch.special.erfcx(x)",
    "torch.special.log_ndtr(x)", "torch.special.zeta(x.abs() + 2, 1.0)", "x.logaddexp2(y)",
    "torch.clip(x, s)", "torch.square(x)", "torch.sub(x, y)", "torch.special.gammaln(x)",
    "torch.special.sinc(x)", "torch.logcumsumexp(x, n)",
    "torch.cumulative_trapezoid(F.pad(x, (1, 0)), dim=-1)", "x.sigmoid_().logit()",
    "torch.nn.utils.parametrizations.weight_norm(nn.Linear(x.shape[-1], x.shape[-1], "
    "dtype=x.dtype))(x)",
)  # fmt: skip
# Results of other shapes, which are only compared.
MODEL_QUESTIONS = (
    "F.linear(x, torch.ones(2, x.shape[-1], dtype=x.dtype), torch.ones(2, dtype=x.dtype))",
    "F.bilinear(x, x, torch.ones(2, x.shape[-1], x.shape[-1]))",
    "F.cross_entropy(x, i, label_smoothing=0.1)", "F.cross_entropy(x, x.softmax(1))",
    "F.cross_entropy(x, i, reduction='none')", "F.cross_entropy(x, i, ignore_index=0)",
    "F.cross_entropy(x, i, torch.rand(x.shape[1]), reduction='sum')",
    "F.nll_loss(x.log_softmax(1), i)",
    "F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction='batchmean')",
    "F.kl_div(x, y, log_target=True)", "F.binary_cross_entropy(x.sigmoid(), x.sigmoid().detach())",
    "F.binary_cross_entropy_with_logits(x, y)",
    "F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(2.0), reduction='none')",
    "F.huber_loss(x, y)", "F.huber_loss(x, y, delta=0.3, reduction='sum')",
    "F.smooth_l1_loss(x, y, beta=0.5)", "F.mse_loss(x, y, reduction='none')",
    "F.poisson_nll_loss(x, y)", "F.gaussian_nll_loss(x, y, torch.ones_like(x))",
    "F.hinge_embedding_loss(x, torch.ones_like(x))", "F.l1_loss(x, y)", "F.soft_margin_loss(x, y)",
    "F.cosine_embedding_loss(x, x, torch.ones(len(x)))", "F.triplet_margin_loss(x, x * 2, x * 3)",
    "F.multi_margin_loss(x, i)", "F.margin_ranking_loss(x, y, torch.ones_like(x))",
    "F.multilabel_soft_margin_loss(x, (y > 0).to(x.dtype))", "F.pairwise_distance(x, y)",
    "F.pdist(x)", "F.ctc_loss(x.log_softmax(-1), i, (len(x),), (1,))",
    "F.multilabel_margin_loss(x, torch.zeros_like(x).long())", "torch.nn.functional.one_hot(i, 9)",
    "F.embedding(i, x, padding_idx=0)", "F.embedding_bag(i, x, torch.tensor([0]))",
    "F.embedding(i.abs(), x, max_norm=1.0)", "nn.Embedding(5, 2)(i)",
    "nn.EmbeddingBag.from_pretrained(x)(i[None])", "F.unfold(x, 2)",
    "F.fold(F.unfold(x, 1), x.shape[-2:], 1)", "F.pixel_shuffle(x, 1)", "F.pixel_unshuffle(x, 1)",
    "F.channel_shuffle(x, 1)", "F.glu(x, n)", "F.interpolate(x, scale_factor=2)",
    "F.interpolate(x, size=3, mode='linear')",
    "F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=True)",
    "F.interpolate(x, 3, mode='nearest-exact')", "F.interpolate(x, scale_factor=2, mode='bicubic')",
    "F.interpolate(x, scale_factor=0.5, mode='area')",
    "F.interpolate(x, scale_factor=0.7, mode='bilinear', antialias=True)",
    "F.grid_sample(x, torch.zeros(len(x), 2, 2, 2, dtype=x.dtype))",
    "F.affine_grid(torch.eye(2, 3, dtype=torch.float64)[None], [1, 1, 2, 3])", "F.max_pool1d(x, 2)",
    "F.max_pool2d(x, 2, return_indices=True)", "F.avg_pool1d(x, 2, ceil_mode=True)",
    "F.adaptive_max_pool1d(x, 2)", "F.adaptive_avg_pool2d(x, 1)",
    "F.max_unpool1d(*F.max_pool1d(x, 1, return_indices=True), 1)",
    "F.avg_pool2d(x, 2, divisor_override=3)", "F.lp_pool2d(x, 2, 2)",
    "F.fractional_max_pool2d(x, 1, output_size=1)",
    "F.adaptive_max_pool2d(x, (1, 2), return_indices=True)", "F.pad(x, (1, 1), 'reflect')",
    "F.pad(x, (1, 2), 'circular')", "F.pad(x, (2, 1, 1, 0), 'replicate')",
    "F.pad(x, (-1, 2), value=s)", "F.pad(x, (1, 1, 1, 1), 'constant', 2)", "F.conv1d(x, x)",
    "F.conv1d(x, torch.ones(2, x.shape[1], 2, dtype=x.dtype), stride=2, padding=1)",
    "F.conv2d(x, torch.ones(2, x.shape[1], 2, 2, dtype=x.dtype), dilation=2, padding=2)",

    "F.conv_transpose1d(x, torch.ones(x.shape[1], 2, 2, dtype=x.dtype), stride=2)",
    "F.conv_transpose2d(x, torch.ones(x.shape[1], 1, 2, 2, dtype=x.dtype), output_padding=0)",
    "F.conv3d(x[None], torch.ones(1, len(x), 1, 1, 1, dtype=x.dtype))",
    "nn.Conv1d(x.shape[-2], 2, 1, dtype=x.dtype)(x)",
    "nn.Conv2d(x.shape[-3], 2, 2, padding=1, dtype=x.dtype)(x)",
    "nn.ConvTranspose1d(x.shape[-2], 2, 2, dtype=x.dtype)(x)",
    "nn.Conv1d(x.shape[1], 2, 3, padding=1, padding_mode='circular')(x)",
    "nn.LSTM(x.shape[-1], 2, dtype=x.dtype)(x)",
    "nn.GRU(x.shape[-1], 2, 2, bidirectional=True, dtype=x.dtype)(x)[0]",
    "nn.RNN(x.shape[-1], 2, batch_first=True, dtype=x.dtype)(x)[1]",
    "nn.LSTMCell(x.shape[-1], 2, dtype=x.dtype)(x)",
    "nn.LSTM(x.shape[-1], 3, proj_size=2, dtype=x.dtype)(x)[0]", "nn.GRUCell(x.shape[-1], 2)(x)",
    "nn.MultiheadAttention(x.shape[-1], 1, dtype=x.dtype)(x, x, x)",
    "nn.MultiheadAttention(x.shape[-1], 1, batch_first=True)(x, x, x, need_weights=False)[0]",
    "nn.TransformerEncoderLayer(x.shape[-1], 1, 4, 0.0, dtype=x.dtype)(x)",
    "nn.TransformerEncoderLayer(x.shape[-1], 1, 4, batch_first=True, norm_first=True).eval()(x)",
    "nn.TransformerDecoderLayer(x.shape[-1], 1, 4, 0.0, dtype=x.dtype)(x, x)",
    "nn.Bilinear(x.shape[-1], x.shape[-1], 2)(x, x)", "nn.Flatten()(x)",
    "nn.Unflatten(-1, (1, x.shape[-1]))(x)", "nn.CosineSimilarity(-1)(x, y)",
    "nn.PairwiseDistance()(x, x * 2)",
    "nn.AdaptiveLogSoftmaxWithLoss(x.shape[-1], 4, [2])(x, i).loss", "nn.CrossEntropyLoss()(x, i)",
    "nn.BCEWithLogitsLoss()(x, y)", "nn.MSELoss(reduction='sum')(x, y)", "nn.HuberLoss()(x, y)",
    "nn.Upsample(scale_factor=2)(x)", "nn.ZeroPad1d(1)(x)", "nn.ReflectionPad1d(1)(x)",
    "nn.Identity()(x) is x", "train(torch.optim.SGD, x, lr=0.1)",
    "train(torch.optim.SGD, x, lr=0.1, momentum=0.9)",
    "train(torch.optim.SGD, x, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)",
    "train(torch.optim.SGD, x, lr=0.1, momentum=0.5, dampening=0.1, maximize=True)",
    "train(torch.optim.Adam, x, lr=0.1)",
    "train(torch.optim.Adam, x, lr=0.1, amsgrad=True, weight_decay=0.1)",
    "train(torch.optim.AdamW, x, lr=0.1, again=True)",
    "train(torch.optim.Adam, x, lr=0.1, foreach=False, again=True)",
    "train(torch.optim.NAdam, x, decoupled_weight_decay=True)",
    "train(torch.optim.RMSprop, x, lr=0.1, momentum=0.9, centered=True)",
    "train(torch.optim.Adagrad, x, lr=0.1, lr_decay=0.1)", "train(torch.optim.Adadelta, x)",
    "train(torch.optim.Adamax, x)", "train(torch.optim.RAdam, x)", "train(torch.optim.ASGD, x)",
    "train(torch.optim.Rprop, x)", "train(torch.optim.LBFGS, x, max_iter=3)",
    "train(torch.optim.SGD, x, lr=-1.0)",
    "train(torch.optim.SGD, x, lambda o: torch.optim.lr_scheduler.StepLR(o, 2), lr=0.1)",
    "train(torch.optim.SGD, x, lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 3), "
    "lr=0.1, clip=0.5)",
    "train(torch.optim.Adam, x, lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, "
    "total_steps=9), lr=0.1)",
    "train(torch.optim.SGD, x, lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda e: 0.9 ** "
    "e), lr=0.1)",
    "train(torch.optim.SGD, x, lambda o: torch.optim.lr_scheduler.SequentialLR(o, "
    "[torch.optim.lr_scheduler.ConstantLR(o), torch.optim.lr_scheduler.ExponentialLR(o, "
    "0.5)], [2]), lr=0.1)",
    "train(torch.optim.AdamW, x, lambda o: torch.optim.lr_scheduler.LinearLR(o), lr=0.1, clip=1.0)",
    "copied(network(x), x, 'deepcopy')", "copied(network(x), x, 'save')",
    "copied(network(x), x, 'pickle')",
    "copied(nn.BatchNorm1d(x.shape[1], dtype=x.dtype), x, 'save')",
    "copied(nn.LSTM(x.shape[-1], 2, dtype=x.dtype), x, 'deepcopy')[1]",
    "network(x).load_state_dict(network(x, 5).state_dict())",
    "str(network(x).load_state_dict({}, strict=False))",
    "[(k, p.shape, p.dtype) for k, p in network(x).named_parameters()]",
    "nn.utils.parameters_to_vector(network(x).parameters())", "nn.utils.clip_grad_norm_([x], 0.5)",
    "nn.utils.clip_grad_value_([x], 0.1)", "repr(network(x))",
    "sum(p.numel() for p in network(x).parameters())",
    "network(x).half().state_dict()['0.weight'].dtype",
    "torch.func.functional_call(network(x), {'0.bias': torch.ones(4, dtype=x.dtype)}, (x,))",
    "nn.utils.rnn.pack_padded_sequence(x, [x.shape[0]] * x.shape[1]).data",
    "nn.utils.rnn.pad_sequence([x, x[:1]])",
    "nn.utils.rnn.pad_sequence(list(x[None]), batch_first=True)",
    "nn.init.orthogonal_(x.detach().clone())", "nn.init.xavier_uniform_(x.detach().clone())",
    "nn.init.kaiming_normal_(x.detach().clone())", "nn.init.trunc_normal_(x.detach().clone())",
    "nn.init.eye_(x.detach().clone())", "torch.einsum('ij,jk', x, x.mT)",
    "torch.einsum('...ij,...kj->...ik', x, y)", "torch.einsum('i,j->ij', x.flatten(), y.flatten())",
    "torch.einsum('ii', x)", "torch.einsum('bij,bjk->bik', x, x.mT)",
    "torch.einsum(x, [0, 1], [1, 0])", "torch.einsum('ij->j', x)",
    "torch.einsum('b...,b...->b', x, x)", "torch.tensordot(x, x, 1)",
    "torch.tensordot(x, y, ([0], [0]))", "torch.inner(x, x)",
    "torch.vdot(x.flatten(), x.flatten())", "torch.chain_matmul(x, x.mT, x)",
    "torch.baddbmm(x, x, x.mT)", "torch.addmv(y, x, x[0])", "torch.addr(x, y[0], y[0])",
    "torch.ger(x[0], x[0])", "torch.addbmm(x[0], x, x.mT)",
    "torch.linalg.det(x @ x.mT + torch.eye(x.shape[-2], dtype=x.dtype))",
    "torch.linalg.slogdet(x @ x.mT + torch.eye(x.shape[-2]))", "torch.linalg.svdvals(x)",
    "torch.linalg.eigvalsh(x @ x.mT)", "torch.linalg.qr(x)[1].abs()", "torch.linalg.matrix_rank(x)",
    "torch.linalg.cond(x)", "torch.linalg.norm(x, 'nuc')", "torch.linalg.norm(x, 1)",
    "torch.linalg.norm(x, inf)", "torch.linalg.vander(x)", "torch.linalg.tensorinv(x)",
    "torch.linalg.lu_factor(x @ x.mT + 5 * torch.eye(x.shape[-2], dtype=x.dtype))[0]",
    "torch.linalg.eigvals(x).abs().sum()", "torch.linalg.householder_product(x, y)",
    "torch.trace(x)", "torch.logdet(x @ x.mT + torch.eye(x.shape[-2], dtype=x.dtype))",
    "torch.cholesky_inverse(x @ x.mT + torch.eye(x.shape[-2], dtype=x.dtype))",
    "torch.lu(x @ x.mT)[1]", "torch.geqrf(x)[1].abs()", "torch.linalg.matrix_norm(x, 2)",
    "torch.linalg.svd(x)[1]", "torch.linalg.inv_ex(x)[1]",
    "torch.fft.rfft(x)", "torch.fft.rfft2(x)", "torch.fft.fft(x, 5, n)", "torch.fft.irfft(x)",
    "torch.fft.hfft(x)", "torch.fft.ihfft(x)", "torch.fft.rfftn(x, norm='forward')",
    "torch.fft.fftfreq(5)", "torch.stft(x.flatten(), 2, return_complex=True)",
    "torch.fft.ifftn(x, dim=n)", "torch.fft.irfftn(torch.fft.rfftn(x))", "x.to_sparse()._nnz()",
    "x.to_sparse().coalesce().indices()", "x.to_sparse().coalesce().values()",
    "torch.sparse.sum(x.to_sparse())", "torch.sparse.mm(x.to_sparse(), x.mT)",
    "x.to_sparse().sum(0).to_dense()", "(x.to_sparse() @ x.mT)", "x.to_sparse().t().to_dense()",
    "torch.sparse.softmax(x.to_sparse(), 0).to_dense()",
    "torch.sparse_coo_tensor(i[None], x).to_dense()", "torch.atleast_2d(x).to_sparse_csr() @ x.mT",
    "torch.atleast_2d(x).to_sparse_csr().crow_indices()",
    "torch.sparse.addmm(y, x.to_sparse(), x.mT)",
    "x.relu().to_sparse().is_coalesced()", "x.sparse_mask(x.to_sparse()).to_dense()",
    "x.to_sparse().requires_grad", "x.to_sparse(1).to_dense()",
    "torch.hspmm(x.to_sparse(), x.mT).to_dense()", "torch.func.vmap(torch.dot)(x, x)",
    "torch.func.vmap(lambda t: t @ t)(x)", "torch.func.vmap(torch.linalg.norm)(x)",
    "torch.func.vmap(lambda t: t[0])(x)", "torch.func.vmap(lambda t: t.sort(0)[0])(x)",
    "torch.func.vmap(lambda t: F.layer_norm(t, t.shape))(x)",
    "torch.func.vmap(lambda t: t.mean(), in_dims=n)(x)",
    "torch.func.vmap(torch.func.vmap(torch.sin))(x)",
    "torch.func.vmap(lambda t: torch.stack([t, t]), out_dims=1)(x)",
    "torch.func.vmap(lambda t: t.sum(), chunk_size=1)(x)", "torch.func.vmap(lambda t: t.item())(x)",

    "torch.func.vmap(lambda t: t.index_select(0, i * 0))(x)",
    "torch.func.vmap(lambda t: t.masked_fill(t > 0, 0.0))(x)",
    "torch.func.vmap(lambda t: F.linear(t, torch.ones(2, t.shape[-1], dtype=t.dtype)))(x)",
    "torch.func.vmap(lambda t: torch.einsum('i,i->', t, t))(x)",
    "torch.func.vmap(lambda t: t.add_(1))(x.clone())",
    "torch.func.vmap(F.softmax, (0, None))(x, 0)", "torch.func.vmap(lambda t: (t, t.sum()))(x)",
    "torch.func.vmap(F.conv1d, (0, None))(x, torch.ones(1, 1, 1))",
    "torch.func.vmap(torch.linalg.det)(x)", "torch.func.vmap(lambda t: t.max(0))(x)",
    "torch.func.vmap(lambda t: t.reshape(-1)[:1])(x)",
    "torch.func.jacrev(lambda t: t.cumsum(0), chunk_size=1)(x.flatten()[:3])",
    "torch.func.hessian(lambda t: t.exp().sum())(x.flatten()[:2])",
    "torch.func.jacfwd(torch.func.jacrev(lambda t: (t ** 3).sum()))(x.flatten()[:2])",
    "torch.func.grad_and_value(lambda t: t.square().sum())(x)",
    "torch.func.grad(lambda t, u: (t * u).sum(), argnums=(0, 1))(x, y)",
    "torch.func.vjp(torch.matmul, x, x.mT)[0]",
    "torch.autograd.functional.jvp(torch.sin, x.detach(), x.detach())[1]",
    "torch.autograd.functional.vhp(lambda t: t.square().sum(), x.detach(), x.detach())",
    "torch.autograd.functional.hessian(lambda t: t.exp().sum(), x.detach().flatten()[:2])",
    "torch.autograd.functional.jacobian(lambda t: t.sum(0), x.detach(), vectorize=True) + 0",
    "dual(lambda t: t.sum(n), x, x)", "dual(lambda t: t @ t.mT, x, x)",
    "dual(lambda t: t.max(n)[0], x, x)", "dual(lambda t: F.softmax(t, n), x, torch.ones_like(x))",
    "dual(lambda t: t.pow(3).mean(), x, x)", "dual(lambda t: torch.cat([t, t * 2]), x, x)",
    "dual(lambda t: t[0], x, x)", "dual(torch.linalg.inv, x, x)",
    "dual(lambda t: F.layer_norm(t, t.shape[-1:]), x.detach(), y.detach())",
    "dual(lambda t: t.detach(), x, x)",
    "dual(lambda t: t.norm(), x, x)", "dual(lambda t: F.conv1d(t, t.detach()), x, x)",
    "dual(lambda t: t.index_select(n, i), x, x)", "dual(lambda t: t.std(n), x, x)",
    "gradient(lambda t: t.sin(), x)",
    "torch.autograd.gradcheck(lambda t: t.sin(), x.detach().double().requires_grad_())",
    "torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]))",
    "torch.histogram(x.detach().float(), 3)[0]", "torch.unique_consecutive(x, return_counts=True)",
    "torch.combinations(x.flatten()[:3])", "torch.cartesian_prod(x.flatten()[:2], y.flatten()[:2])",
    "torch.nanmedian(x)", "torch.nanquantile(x, 0.3)",
    "torch.quantile(x, torch.tensor([0.1, 0.9], dtype=x.dtype), dim=n)", "torch.cdist(x, y, p=1)",
    "torch.isin(x, y)", "torch.segment_reduce(x, 'sum', lengths=torch.tensor([len(x)]))",
    "torch.gradient(x)", "torch.multinomial(x.detach().abs() + 1, 1)",
    "torch.bernoulli(x.detach().sigmoid())", "torch.poisson(x.detach().abs())",
    "torch.normal(x.detach(), 1.0)", "torch.randperm(5)", "torch.rand(2, dtype=x.dtype)",
    "torch.randint_like(x, 5)", "torch.distributions.Normal(x, 1.0).log_prob(y)",
    "torch.distributions.Categorical(logits=x).entropy()",
    "torch.distributions.kl_divergence(torch.distributions.Normal(x, 1.0), "
    "torch.distributions.Normal(0.0, 2.0))",
    "torch.distributions.Beta(x.abs() + 1, 2.0).mean",
    "torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.ones(2))",
    "torch.distributions.Gamma(x.abs() + 1, 1.0).log_prob(y.abs() + 1)",
    "torch._foreach_add([x.detach()], 1.0)", "torch._foreach_norm([x])",
    "torch.utils.data.default_collate([x, x])",
    "next(iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x), 2)))",
    "torch.nested.nested_tensor([x.detach(), x.detach()]).to_padded_tensor(0.0)",
    "torch.take_along_dim(x, x.argmin(n, keepdim=True), n)", "torch.finfo(x.dtype).eps", "str(x)",
    "f'{x.sum():.3f}'", "x.element_size(), x.nbytes, x.itemsize", "copy.deepcopy(x.detach())",
    "pickle.loads(pickle.dumps(x.detach()))", "x.numpy(force=True).shape",
    "torch.from_numpy(x.detach().numpy()) is x", "x.grad_fn.name() if x.grad_fn else None",
    "str(x.grad_fn).split(' ')[0]",
)  # fmt: skip
# What changes x or its surroundings.
MODEL_CHANGES = (
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = x @ x.mT",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = F.linear(x, torch.ones(2, x.shape[-1]))",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = (x @ x.mT).softmax(-1)",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = nn.Linear(x.shape[-1], 2)(x).sum(0)",
    "with torch.autocast('cpu', dtype=torch.bfloat16, enabled=False): x = x * 2",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = F.conv1d(x, x) + 1",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = F.mse_loss(x.bfloat16(), y)",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = torch.einsum('...i,...i->...', x, x)",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = F.layer_norm(x, x.shape[-1:])",
    "with torch.autocast('cpu', dtype=torch.bfloat16): x = torch.cat([x.bfloat16(), y])",
    "with torch.autocast('cpu', dtype=torch.float16): x = x.mm(x.mT)",
    "x = nn.Parameter(x.detach()); x.square().sum().backward()",
    "x.grad = None; (x * 2).sum().backward()", "nn.init.uniform_(x, -1, 1)",
    "nn.init.constant_(x, s)", "nn.init.zeros_(x)", "nn.init.normal_(x)", "x = x.to(d, copy=True)",
    "x = x.to_dense()", "x.share_memory_()",
    "torch.manual_seed(3); x = x + torch.rand_like(x.double())", "x.requires_grad_(False).add_(1)",
    "torch.nn.utils.vector_to_parameters(torch.ones(x.numel()), [x])",
    "torch._foreach_mul_([x], 2.0)", "torch._foreach_add_([x, y], 1.0)",
    "x.untyped_storage().resize_(x.untyped_storage().nbytes())",
    "x = x.contiguous(memory_format=torch.channels_last)",
    "x = x.to(memory_format=torch.channels_last) * 2", "F.relu_(x)",
    "F.dropout(x, 0.0, True, inplace=True)", "torch.optim.SGD([x], lr=0.1).step()",
    "x.sum().backward(); torch.optim.SGD([x], lr=0.1).step(); x.grad = None",
    "x.square().sum().backward(); torch.optim.Adam([x], lr=0.1).step()",
    "with torch.no_grad(): x -= 0.1 * x.grad",
    "with torch.autograd.set_detect_anomaly(True): x.sqrt().sum().backward()",
    "with torch.autograd.graph.save_on_cpu(): x = x * x",
    "with torch.autograd.profiler.record_function('a'): x = x + 1",
    "torch.autograd.backward([x.sum(), x.mean()])",
    "x = torch.utils.checkpoint.checkpoint(lambda t: t.clone().mul_(2), x, use_reentrant=False)",
    "x = torch.tensor(x.tolist())", "x = copy.deepcopy(x)", "x = copy.copy(x)", "x = nn.Buffer(x)",
    "P_ = nn.ParameterList([x]); x = P_[0]",
    "x = torch.nn.utils.stateless.functional_call(nn.Identity(), {}, (x,))",
)  # fmt: skip


class ModelStatements(Statements):
    """Mixed into the generator, which chooses variables and numbers."""

    def model_result(self) -> None:
        text, x = self._mixed(MODEL_RESULTS)
        self.new(text, x.shape)

    def model_question(self) -> None:
        text, _ = self._mixed(MODEL_QUESTIONS)
        self.statements.append(f"q{len(self.statements)} = {text}")

    def model_change(self) -> None:
        text, _ = self._mixed(MODEL_CHANGES)
        self.statements.append(text)
