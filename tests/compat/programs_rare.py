"""Rarer statements of random programs: many more ops, memory and data exchanged under a tensor,
functions with contexts, passes with weights, outputs of several results.

Each is a template. In it `x` is some variable, `y` one that broadcasts with it, `n` a dimension of
x, `i` an index vector into that dimension, `s` a number; a template with a shape after it tells the
shape of its result in terms of x's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from programs_base import Statements

if TYPE_CHECKING:
    from programs import Variable

# Results of x's shape.
SAME_SHAPE = (
    "torch.logaddexp(x, y)", "torch.xlogy(x, y)", "torch.nan_to_num(x)", "x.heaviside(y)",
    "torch.nextafter(x, y)", "torch.fmax(x, y)", "torch.fmin(x, y)", "torch.lerp(x, y, 0.3)",
    "torch.addcdiv(x, y, y + 3)", "torch.where(x > y, x, y)", "torch.where(x > 0, x, 0)",
    "x.clamp(min=s)", "x.clamp(max=y)", "x.tril(1)", "x.cumsum(n, dtype=torch.float64)",
    "x.index_fill(n, i, s)", "x.index_copy(n, i, x.index_select(n, i))", "x.float()", "x.bool()",
    "x.index_add(n, i, x.index_select(n, i), alpha=2)", "x.masked_fill(x > 0, s)", "x.long()",
    "x.put(torch.tensor([0]), x.reshape(-1)[:1])", "x.scatter(n, torch.zeros_like(x).long(), y)",
    "x.scatter_add(n, torch.zeros_like(x).long(), x)", "x.take_along_dim(x.argsort(n), n)",
    "x.scatter_reduce(n, torch.zeros_like(x).long(), x, 'amax')", "x.renorm(2, n, 1.0)",
    "x.roll(1, n)", "x.flip(n)", "x.rot90(2)", "torch.nn.functional.gelu(x)", "x.positive()",
    "torch.nn.functional.silu(x)", "torch.nn.functional.softplus(x)", "x.relu().sqrt()",
    "torch.nn.functional.leaky_relu(x, 0.1)", "torch.nn.functional.elu(x)", "x.expm1()",
    "torch.nn.functional.hardtanh(x)", "torch.nn.functional.logsigmoid(x)", "x.log2()",
    "torch.nn.functional.normalize(x, dim=n)", "x.div(y, rounding_mode='floor')", "x.rad2deg()",
    "x.div(2, rounding_mode='trunc')", "x.float_power(2)", "x.pow(3)", "2 ** x", "x.frac()",
    "x.round(decimals=1)", "x.bitwise_not()", "x.bitwise_xor(y)", "x.logical_xor(y)", "x.angle()",
    "x.sgn()", "x.lgamma()", "x.digamma()", "x.erfinv()", "x.sinc()", "x.logit(0.1)", "x.acos()",
    "x.isclose(y)", "x.isfinite()", "x.signbit()", "x.softmin(n)", "x.new_zeros(x.shape)",
    "x.new_tensor([1.0]) + x", "torch.empty_like(x).copy_(x)", "x.cumprod(n)", "x.ceil()",
    "torch.rand_like(x.double())", "torch.nn.functional.dropout(x, 0.0)", "x.msort()",
    "torch.nn.functional.layer_norm(x, x.shape[-1:])", "x.conj_physical()", "x.type_as(y)",
    "torch.nn.functional.relu(x, inplace=True)", "torch.celu(x)", "x.contiguous().view(x.shape)",
    "x.clone(memory_format=torch.contiguous_format)",
    "torch.diff(x, dim=n, prepend=x.narrow(n, 0, 1))", "torch.cummax(x, n)[0]", "x.asinh()",
    "torch.stack((x, x), -1).select(-1, 1)", "torch.stack((x, x))[1]", "x.addcmul(y, y, value=s)",
    "torch.nn.functional.pad(x, (1, 1)).narrow(-1, 1, x.shape[-1])", "x.to(y.dtype)",
    "x.view_as(x).requires_grad_()", "torch.nn.Parameter(x)", "torch.as_tensor(x)", "+x", "-x",
    "~x", "abs(x)", "x.double().half().double()", "x.unsqueeze(0).squeeze(0)", "x.detach() + x",
    "torch.broadcast_tensors(x, y)[0].clone()", "x.data", "x.add(y, alpha=2)", "x.rsub(y)",
    "torch.where(x > 0)[0].new_ones(x.shape)", "x.fill(s)", "x.sub(y, alpha=0.5)", "x.hypot(y)",
)  # fmt: skip
# Results of other shapes, which are only compared, not used further.
OTHER_SHAPE = (
    "x.var_mean(n)", "torch.var_mean(x, n)", "torch.std_mean(x)", "x.nansum(n)", "x.nanmean(n)",
    "x.quantile(0.5)", "x.kthvalue(1, n)[0]", "x.mode(n)[0]", "x.aminmax()", "x.diff(dim=n)",
    "x.aminmax(dim=n)", "x.masked_select(x > 0)", "x.repeat_interleave(2, n)", "x.tile(2)",
    "torch.tensordot(x, x, 0)", "torch.outer(x.reshape(-1), y.reshape(-1))", "x.unique()",
    "torch.dot(x.reshape(-1), x.reshape(-1))", "torch.diag(x)", "torch.kron(x, y)", "x.trace()",
    "x.diag_embed()", "torch.bmm(x, x.mT)", "x @ x.mT", "torch.einsum('...i,...i->...', x, x)",
    "torch.hstack([x, x])", "torch.vstack([x, x])", "torch.dstack([x, x])", "x.argwhere()",
    "torch.block_diag(x, x)", "torch.cdist(x, x)", "torch.nn.functional.one_hot(x)",
    "torch.nn.functional.linear(x, x)", "torch.addmm(y, x, x.t())", "torch.trapezoid(x, dim=n)",
    "torch.searchsorted(x.reshape(-1).sort()[0], y.contiguous())", "torch.bincount(x)",
    "x.dist(y)", "x.norm(1)", "x.norm(p=3, dim=n)", "x.std(n, unbiased=False)", "x.var(n)",
    "x.prod(n)", "x.sum((0, -1))", "x.mean(n, keepdim=True)", "x.amax((0, 1))",
    "x.logsumexp((0, -1))", "torch.linalg.vector_norm(x, 2, n)", "x.all(n)", "x.any((0,))",
    "x.argmax(n)", "x.nonzero()", "x.unfold(n, 1, 1)", "x.view(torch.int32).shape",
    "x.view(torch.uint8).shape", "torch.view_as_real(x)", "x.split(1, n)", "x.chunk(2, n)",
    "x.unbind(n)", "x.tensor_split(2, n)", "x.hsplit(1)",
    "torch.meshgrid(x.reshape(-1), y.reshape(-1), indexing='ij')", "torch.equal(x, y)",
    "torch.allclose(x, y)", "x.median()", "x.median(n)", "x.topk(1, n)[0]", "x.sort(n)[0]",
    "torch.nn.functional.mse_loss(x, y)", "torch.nn.functional.l1_loss(x, y, reduction='sum')",
    "torch.nn.functional.smooth_l1_loss(x, y)", "torch.nn.functional.cosine_similarity(x, y, n)",
    "torch.nn.functional.embedding(i, x)", "torch.nn.functional.glu(x, n)", "x.cov()",
    "x.float().std()", "torch.nn.functional.unfold(x, 1)", "torch.nn.functional.avg_pool1d(x, 1)",
    "x.corrcoef()", "torch.nn.functional.max_pool1d(x, 1)",
    "torch.nn.functional.cross_entropy(x, i)", "x.is_set_to(y)",
    "torch.nn.functional.conv1d(x, x)", "torch.nn.functional.pad(x, (1, 2), mode='replicate')",
    "torch.nn.functional.pad(x, (1, -1))",
    "torch.nn.functional.softmax(x, n, dtype=torch.float64)", "torch.result_type(x, y)",
    "torch.promote_types(x.dtype, y.dtype)", "x.dim(), x.stride(), x.is_contiguous()",
    "x.storage_offset(), x.data_ptr() == y.data_ptr()", "x._version >= 0",
    "x.output_nr, x.is_leaf", "(x.grad_fn is None, x.requires_grad)",
    "x._is_view(), x._base is None", "len(x), list(x.shape)", "bool(x)", "int(x)", "float(x)",
    "s in x", "x.tolist()", "torch.histc(x.float(), 3)", "x.H",
    "torch.autograd.grad(x.sum(), y, allow_unused=True)", "x.to(torch.bool).any()", "x.mT", "x.mH",
    "torch.autograd.functional.vjp(torch.square, x)[1]",
    "torch.func.grad(lambda t: t.sin().sum())(x)", "x.expand(2, *x.shape).sum_to_size(x.shape)",
    "x.broadcast_to((2, *x.shape))", "x.adjoint()",
)  # fmt: skip
# What changes x or its surroundings.
EFFECTS = (
    "x.resize_(x.numel() // 2)", "x.resize_(x.numel())", "x.resize_as_(x.t())", "x.set_(y)",
    "x.set_()", "x.set_(y.detach().clone())", "x.data = y", "x.data = x.data.clone()",
    "x.data = y.detach()", "x.data[...] = s", "x.detach().add_(1)", "x.data.view(-1)[0] = s",
    "x.grad = torch.ones_like(x)", "x.grad = y", "x.requires_grad_()", "x.requires_grad = False",
    "x.retain_grad()", "x.detach_()", "with torch.no_grad(): x.copy_(y)",
    "with torch.no_grad(): x.resize_(x.numel())", "with torch.inference_mode(): x.add_(1)",
    "with torch.no_grad(): x.set_(y)",
    "x.index_reduce_(n, i, x.index_select(n, i).clone(), 'amax')", "x.renorm_(2, n, 1.0)",
    "x.scatter_reduce_(n, torch.zeros_like(x).long(), y, 'prod')", "x.bernoulli_(0.5)",
    "x.uniform_(0, 1)", "x.normal_()", "x.random_(5)", "x.swapdims_(0, -1)", "x.squeeze_(n)",
    "x.unsqueeze_(n)", "x.as_strided_((2,), (1,))", "x.addcdiv_(y, y)", "x.fmod_(2)",
    "x.cumprod_(n)", "x.remainder_(y)", "x.logical_or_(y)", "x.clamp_max_(s)", "x.hypot_(y)",
    "x.erf_()", "x.frac_()", "x.round_()", "x.exponential_()", "x.where(x > 0, y).add_(1)",
    "x.bitwise_or_(y)", "x.nan_to_num_()", "x.masked_fill_(x > 0, s)", "x.index_fill_(n, i, y)",
    "x[x > 0] = s", "x[x > 0] *= 2", "x[i] += y", "x[..., 0] += 1", "x[0] = x[-1].clone()",
    "x.select(n, 0).mul_(s)", "x.narrow(n, 0, 1).zero_()", "x.unbind(n)[0].add_(1)",
    "x.view(-1)[::2].mul_(s)", "x.t().add_(1)", "x.diagonal().fill_(s)", "x.flatten().add_(1)",
    "x.reshape(-1).neg_()", "x.expand(2, *x.shape).add_(1)", "x.real.add_(1)", "x.imag.mul_(s)",
    "x.conj().mul_(s)", "x.T.mul_(2)", "x.unfold(n, 1, 1).add_(1)", "x &= y", "x |= y", "x **= 2",
    "x //= 2", "x %= y", "x @= x", "x <<= 1", "x, y = y, x", "del x", "y.copy_(x)",
    "x.requires_grad_(False)", "torch.add(x, y, out=x)", "torch.mul(x, s, out=y)",
    "torch.sum(x.clone(), n, out=y)", "torch.exp(x, out=y)", "torch.cumsum(x, n, out=x)",
    "torch.clamp(x, 0, 1, out=y)", "torch.where(x > 0, x, y, out=x)", "torch.cat([x, x], out=y)",
    "torch.stack([x, x], out=y)", "torch.matmul(x, x, out=y)", "x.add_(x)",
    "torch.sort(x, n, out=(y, torch.empty(0, dtype=torch.int64)))",
    "torch.index_select(x, n, i, out=y)", "torch.sigmoid(x, out=torch.empty(0))",
    "torch.maximum(x, y, out=x[...])", "torch.neg(x, out=x.t())",
    "x.register_hook(lambda g: g.mul_(2))", "x.register_hook(lambda g: None)", "x.grad.add_(1)",
    "x.register_post_accumulate_grad_hook(lambda t: t.grad.zero_())",
    "x.grad_fn.register_prehook(lambda g: None)", "x.backward()",
    "x.sum().backward(create_graph=True)", "x.square().sum().backward(retain_graph=True)",
    "x.backward(gradient=y)", "torch.autograd.backward(x.sum(), inputs=y)", "x.grad.detach_()",
)  # fmt: skip
# Functions with a context; the worker runs it first.
RARE_PRELUDE = """
class Split(torch.autograd.Function):
    @staticmethod
    def forward(x, dim):
        half = x.shape[dim] // 2
        return x.narrow(dim, 0, half).clone(), x.narrow(dim, half, x.shape[dim] - half).clone()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.dim = inputs[1]
        ctx.save_for_backward(*output)
    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        return torch.cat([g * a, h * b], ctx.dim), None

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, factor=2):
        ctx.set_materialize_grads(False)
        ctx.factor = factor
        ctx.save_for_backward(x, y)
        return x * y * factor, y.view_as(y)
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        if g is None:
            return None, h, None
        return g * y * ctx.factor, g * x * ctx.factor if ctx.needs_input_grad[1] else None, None

class Exp_(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x
    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]
"""
CUSTOM = (
    "Split.apply(x, n)[0]", "Split.apply(x, n)[1].mul_(2)", "Scaled.apply(x, y)[0]",
    "Scaled.apply(x, y)[1]", "Scaled.apply(x, x, 3)[0]", "Exp_.apply(x)", "Exp_.apply(x.clone())",
    "Exp_.apply(x.view_as(x))", "Scaled.apply(x.detach(), y)[1].add_(1)",
    "torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)",
)  # fmt: skip


class RareStatements(Statements):
    """Mixed into the generator, which chooses variables and numbers."""

    def _filled(self, templates: tuple[str, ...]) -> tuple[str, Variable]:
        x = self.pick()
        y = self.pick_with(x.shape) if self.rng.random() < 0.8 else self.pick()
        n = self.dim(x)
        size = x.shape[n] if x.shape else 1
        index = [self.rng.randrange(max(size, 1)) for _ in range(min(size, 3))]
        words = {
            "x": x.name, "y": y.name, "n": str(n), "s": self.scalar(),
            "i": f"torch.tensor({index}, dtype=torch.int64)",
        }  # fmt: skip
        template = self.rng.choice(templates)
        text = re.sub(r"(?<![\w.'])[xynsi]\b(?!=)", lambda m: words[m.group()], template)
        return text, x

    def rare_result(self) -> None:
        text, x = self._filled(SAME_SHAPE)
        self.new(text, x.shape)

    def rare_question(self) -> None:
        text, _ = self._filled(OTHER_SHAPE)
        self.statements.append(f"q{len(self.statements)} = {text}")

    def rare_effect(self) -> None:
        text, _ = self._filled(EFFECTS)
        self.statements.append(text)

    def rare_function(self) -> None:
        text, x = self._filled(CUSTOM)
        self.new(text, x.shape)
