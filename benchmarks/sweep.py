"""What the ops that ops.py leaves out cost, from a hundred elements on: Flambeau beside PyTorch.

    python benchmarks/sweep.py [--oracle /path/to/python-with-torch] [--threads 2] [--only sort]

A group is a list of statements that are timed at some sizes and dtypes. Only the rows that are
slower than PyTorch by more than a tenth are printed, and at the end the geometric mean; `--all`
prints every row. `--sizes 100,10k` takes some of the sizes.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from side_by_side import Worker, main, measure, parser

SIZES = {"100": 10, "10k": 100, "1M": 1000}  # the side of the square x
ALL = tuple(SIZES)
SMALL = ("100", "10k")
FLOATS = ("float32",)
MANY = ("float32", "float64", "bfloat16", "int64", "int32", "uint8", "bool")
NUMBERS = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64")
PRODUCTS = ("float32", "float64", "bfloat16", "int64", "complex64")

# The names that statements use are made by `names`: x, y: squares of the dtype; v: a row; flat: all
# of x; m: a mask; i, j, k: positions; c: x as three dimensions; g: a leaf that wants a gradient.
INDEXING = """
x[:, i]  x[i, j]  x[i]  x[i, 0]  x[:, 0]  x[2:5, ::2].clone()  x[..., None, i]  x[i[:, None], j]
x[mrow]  x[:, mrow]  x[m]  c[:, i3]  c[mc2]  x.clone().index_put_((i, j), v)
x.clone().index_put_((i, j), v, accumulate=True)  x.clone().index_put_((i,), x, accumulate=True)
x.clone().index_copy_(0, perm, y)  x.clone().index_copy_(1, perm, y)
x.clone().index_fill_(0, i, 1)  x.clone().index_fill_(1, i, 1)  x.clone().index_add_(1, i, y)
x.index_select(1, i)  x.take(lin)  x.clone().put_(lin, y)  x.clone().put_(lin, y, accumulate=True)
torch.take_along_dim(x, order, 1)  torch.take_along_dim(x, order, 0)  x.gather(0, order)
x.clone().scatter_(1, order, y)  x.clone().scatter_(0, order, y)  x.clone().scatter_(1, order, 1)
x.clone().scatter_add_(0, order, y)  x.clone().scatter_reduce_(1, order, y, 'amax')
x.clone().scatter_reduce_(0, order, y, 'prod')  x.clone().scatter_reduce_(1, order, y, 'mean')
x.clone().index_reduce_(0, i, y, 'amax')  x.clone().masked_scatter_(m, y)
x.clone().__setitem__(m, 1)  x.clone().__setitem__(m, y[m])
x.clone().__setitem__((slice(None), i), y)  x.clone().__setitem__((i, j), 1)
x.clone().__setitem__(i, y)  x.clone().__setitem__((slice(1, 5), 2), 1)  x.repeat_interleave(2)
x.repeat_interleave(3, 1)  x.repeat_interleave(reps, 0)  x.nonzero()  x.nonzero(as_tuple=True)
torch.where(m)  torch.argwhere(m)  torch.count_nonzero(x)  torch.count_nonzero(x, 1)
torch.index_select(flat, 0, lin.flatten())  torch.diagonal(x).clone()  torch.diag(x)
torch.diag(v)  torch.diag_embed(x[:10])  torch.diagonal_scatter(x, v)
torch.select_scatter(x, v, 0, 1)  torch.slice_scatter(x, y[:2], 0, 1, 3)
torch.unravel_index(lin, (side, side))  x.masked_fill(mrow, 1)  torch.where(m, x, 1)
torch.where(mrow, x, y)  functional.embedding(i, x)  functional.embedding(order, x[:, :8])
"""
POSITIONS = """
functional.one_hot(i, side)  functional.one_hot(order[:10], side)  torch.tril_indices(side, side)
torch.triu_indices(side, side)  torch.bucketize(x, edges)  torch.searchsorted(edges, x)
torch.searchsorted(rows_sorted, x)  torch.bincount(lin.flatten())  torch.bincount(i, v)
torch.bincount(lin.flatten(), flat)  torch.histc(x, 20)  torch.histogram(x, 20)
torch.histogram(x, edges)
"""
SORTING = """
x.sort(0)  x.sort(1)  flat.sort()  flat.sort(descending=True)  flat.sort(stable=True)
x.argsort(0)  x.argsort(1, True)  flat.argsort()  torch.msort(x)  x.topk(1)  x.topk(3, 0)
x.topk(10, 1, False)  flat.topk(10)  flat.topk(side)  x.kthvalue(3)  x.kthvalue(3, 0)
flat.kthvalue(side)  x.mode()  x.mode(0)  x.median()  x.median(0)  x.median(1)  x.unique()
x.unique(return_inverse=True)  x.unique(return_counts=True)  x.unique(dim=0)
x.unique_consecutive()  x.unique_consecutive(return_inverse=True)  torch.isin(x, y[0])
torch.isin(x, y[0, :5])  torch.sort(few)  torch.unique(few)
"""
QUANTILES = """
torch.quantile(v, 0.3)  torch.quantile(x, 0.3, 1)  torch.quantile(x, 0.3, 0)
torch.quantile(x, edges5, 1)  torch.nanquantile(x, 0.3, 1)  torch.nanmedian(x)
torch.nanmedian(x, 1)  torch.nanmean(x)  torch.nanmean(x, 1)  torch.nansum(x, 1)
torch.logcumsumexp(x, 0)  torch.logcumsumexp(x, 1)  torch.var_mean(x)  torch.var_mean(x, 1)
torch.var_mean(x, 0)  torch.std_mean(x, 1)  torch.var(c, (0, 2))  torch.std(c, (1, 2))
torch.norm(x)  torch.norm(x, 1)  torch.norm(x, 3, 1)  torch.norm(x, float('inf'), 1)
torch.norm(x, 0, 1)  torch.norm(x, 2, 0)  torch.norm(x, dim=(0, 1))
torch.linalg.vector_norm(c, 2, (0, 2))  torch.linalg.norm(x)  torch.linalg.norm(x, 1)
torch.linalg.norm(x, float('inf'))  torch.dist(x, y)  torch.dist(x, y, 1)
torch.logsumexp(c, (0, 2))  torch.renorm(x, 2, 0, 1)  functional.normalize(x, dim=1)
functional.normalize(x, dim=0)  functional.cosine_similarity(x, y)
functional.pairwise_distance(x, y)  torch.cdist(x[:200], y[:200])
torch.cdist(x[:200], y[:200], 1)  torch.cdist(x[:200], y[:200], 3)
torch.cdist(x[:200], y[:200], float('inf'))  torch.cdist(x[:, :3], y[:, :3])
torch.cdist(x[:, :3], y[:, :3], 1)  torch.pdist(x[:200])  torch.pdist(x[:200], 1)
torch.pdist(x[:, :3])  torch.cov(x)  torch.corrcoef(x)  torch.cov(x[:5])  torch.trapezoid(x)
torch.trapezoid(x, y)  torch.cumulative_trapezoid(x)  torch.gradient(x)  torch.gradient(v)
torch.cumprod(c, 1)
"""
REDUCING = """
x.sum()  x.sum(0)  x.sum(1)  c.sum(1)  c.sum((0, 2))  c.sum((0, 1))  x.t().sum(0)  x[:, ::2].sum()
x.prod()  x.prod(0)  x.prod(1)  c.prod(1)  x.mean(0, dtype=wide)  x.count_nonzero(0)  x.all()
x.any()  x.all(1)  x.any(1)  x.all(0)  x.any(0)  c.any((0, 2))  x.cumsum(0)  x.cumsum(1)
flat.cumsum(0)  x.cumprod(1)  x.trace()  x.sum(1, keepdim=True)
"""
ORDERED = """
x.max()  x.min()  x.max(0)  x.max(1)  c.max(1)  x.amax()  x.amax(0)  x.amax(1)  c.amax((0, 2))
x.aminmax()  x.aminmax(dim=0)  x.aminmax(dim=1)  x.argmax()  x.argmax(0)  x.argmax(1)  c.argmax(1)
x.cummax(0)  x.cummin(1)
"""
SHAPING = """
x.clone()  x.t().contiguous()  c.transpose(0, 1).contiguous()  c.permute(2, 0, 1).contiguous()
x.roll(3)  x.roll(1, 0)  x.roll((1, 2), (0, 1))  x.rot90()  x.rot90(2)  x.flip(0, 1)  x.flip(1)
x.fliplr()  x.repeat(2, 3)  x.repeat(3, 1, 1)  x.tile(2)  x[:1].expand(side, side).contiguous()
x[:, :1].expand(side, side).contiguous()  x.unfold(1, 3, 1).contiguous()  torch.cat([x, y], 1)
torch.cat([x] * 5)  torch.cat(list(chunks))  torch.stack(chunks)  torch.stack(chunks, 1)
torch.stack([x, y], 2)  torch.hstack([x, y])  torch.hstack(chunks)  torch.vstack(chunks)
torch.dstack([x, y])  torch.column_stack(chunks)  x.split(2)  x.chunk(5, 1)  x.unbind()
x.tensor_split(3)  torch.meshgrid(v, v, indexing='ij')  torch.block_diag(x, y)
torch.block_diag(*squares)  torch.cartesian_prod(v, v)  torch.combinations(v[:60])  torch.tril(x)
torch.triu(x, 1)  x.triu_()  torch.diff(x)  torch.diff(x, dim=0)  functional.pad(x, (1, 1))
functional.pad(x, (1, 2, 3, 4), value=1)  functional.pad(x, (-1, 1))  x.fill_(1)  x.zero_()
torch.zeros_like(x)  torch.ones_like(x)  torch.full_like(x, 1)  x.new_zeros(side)  x.copy_(y)
x.copy_(y.t())  x.equal(y)  torch.tensor(listed, dtype=dt)  v.tolist()  x[0, 0].item()
torch.from_numpy(v.numpy()) if dt != torch.bfloat16 else v  torch.atleast_2d(v)
torch.movedim(c, 0, 2).reshape(-1)  x.view(-1)  torch.broadcast_to(v, (side, side)).clone()
"""
CONVERTING = [
    f"x.to(torch.{name})"
    for name in (
        "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()
    )
]
PADDING = """
functional.pad(c, (1, 2), mode='reflect')  functional.pad(c, (1, 2), mode='replicate')
functional.pad(c, (1, 2), mode='circular')  functional.pad(c[None], (1, 2, 1, 1), mode='reflect')
functional.pad(c[None], (1, 2, 1, 1), mode='replicate')
functional.pad(c[None], (1, 2, 1, 1), mode='circular')  torch.vander(v[:50])  torch.vander(v, N=4)
functional.unfold(c[None], 3)  functional.pixel_shuffle(c[None, :4], 2)
functional.channel_shuffle(c[None, :4], 2)
"""
CREATING = """
torch.arange(n)  torch.arange(n, dtype=torch.float32)  torch.arange(n, dtype=torch.float64)
torch.arange(n, dtype=torch.int32)  torch.arange(0, 1, 1 / n)
torch.arange(n, dtype=torch.bfloat16)  torch.linspace(0, 1, n)
torch.linspace(0, 1, n, dtype=torch.float64)  torch.logspace(0, 1, n)
torch.full((side, side), 2.0)  torch.full((side, side), 2)  torch.full((side, side), True)
torch.eye(side)  torch.eye(side, dtype=torch.int64)  torch.ones(n)
torch.ones(side, side, dtype=torch.bool)  torch.empty(n)
torch.zeros(side, side, dtype=torch.int64)  torch.zeros(side, side, dtype=torch.bfloat16)
torch.randint(0, 10, (n,))  torch.randint(0, 1 << 40, (n,))
torch.randint(0, 10, (n,), dtype=torch.int32)  torch.rand(n, dtype=torch.float64)
torch.randn(n, dtype=torch.float64)  torch.rand(n, dtype=torch.bfloat16)
torch.randn(n, dtype=torch.bfloat16)  torch.normal(0.0, 1.0, (n,))  torch.normal(p, p)
torch.normal(p, 1.0)  torch.bernoulli(p)  torch.empty(n).bernoulli_(0.3)
torch.empty(n).uniform_(-1, 1)  torch.empty(n).normal_()  torch.empty(n).exponential_()
torch.empty(n).cauchy_()  torch.empty(n).log_normal_()  torch.empty(n).geometric_(0.3)
torch.empty(n).random_(10)  torch.empty(n).random_()  torch.poisson(p)  torch.poisson(p * 20)
torch.multinomial(p, 5)  torch.multinomial(p, 5, replacement=True)
torch.multinomial(p[0], side, replacement=True)  torch.randperm(side)  torch.randperm(n)
torch.rand_like(p)  torch.randn_like(p)  torch.randint_like(p, 10)  torch.complex(p, p)
torch.polar(p, p)  torch.hann_window(n)  torch.hamming_window(n)  torch.kaiser_window(n)
torch.blackman_window(n)  torch.bartlett_window(n)  torch.distributions.Normal(p, p).sample()
torch.distributions.Categorical(p).sample()  torch.distributions.Gamma(p + 1, p).sample()
torch.binomial(count, p)  torch._standard_gamma(p + 1)
"""
PRODUCT = """
x @ y  x @ v  v @ x  v @ v  x.t() @ y  x @ y.t()  x.t() @ y.t()  x[:1] @ y  x @ y[:, :1]
x[:3] @ y  x @ y[:, :3]  x[:, :3] @ y[:3]  x[:, :1] @ y[:1]  torch.dot(v, v)  torch.vdot(v, v)
torch.inner(x, y)  torch.outer(v, v)  torch.mv(x, v)  torch.addmm(x, x, y)  torch.addmm(v, x, y)
torch.addmv(v, x, v)  torch.addr(x, v, v)  b @ b  b2 @ b2  b3 @ b3  b4 @ b4  b16 @ b16  b32 @ b32
b4 @ b4.mT  b16 @ b16[0]  b16[0] @ b16  b16 @ b16[:, :1].mT  (b16[:, None] @ b16[:2])
torch.bmm(b32, b32)  torch.baddbmm(b16, b16, b16)  torch.baddbmm(b32, b32, b32, beta=0)
torch.addbmm(b16[0], b16, b16)  torch.einsum('ij,jk->ik', x, y)  torch.einsum('ij,ij->i', x, y)
torch.einsum('ij,ij->', x, y)  torch.einsum('i,j->ij', v, v)  torch.einsum('ii->i', x).clone()
torch.einsum('ii', x)  torch.einsum('bij,bjk->bik', b16, b16)
torch.einsum('bij,kj->bik', b16, b16[0])  torch.einsum('bij,bkj->bik', b16, b16)
torch.einsum('bij,bij->b', b16, b16)  torch.einsum('ij->ji', x).contiguous()
torch.einsum('bij->b', b16)  torch.einsum('bi,ij,bj->b', x, y, x)  torch.tensordot(x, y, 1)
torch.tensordot(b16, b16, ([0, 1], [0, 1]))  torch.kron(x[:10, :10], y[:10, :10])
torch.cross(t3, t3, 1)  torch.linalg.multi_dot([x, y, x])  torch.linalg.matrix_power(b16, 3)
torch.linalg.vecdot(x, y)  torch.chain_matmul(x, y)  functional.linear(x, y)
functional.linear(x, y, v)  functional.linear(b16, b16[0])
functional.bilinear(x[:, :8], y[:, :8], c8)
"""
LINALG = """
torch.linalg.det({0})  torch.linalg.slogdet({0})  torch.linalg.inv({0})
torch.linalg.solve({0}, {0})  torch.linalg.solve({0}, {0}[..., :1])
torch.linalg.solve_triangular({0}.triu(), {0}, upper=True)  torch.linalg.cholesky({1})
torch.cholesky_solve({0}, {1})  torch.cholesky_inverse({1})  torch.linalg.qr({0})
torch.linalg.eigh({1})  torch.linalg.eigvalsh({1})  torch.linalg.eig({0})
torch.linalg.eigvals({0})  torch.linalg.svd({0})  torch.linalg.svd({0}, full_matrices=False)
torch.linalg.svdvals({0})  torch.linalg.lu({0})  torch.linalg.lu_factor({0})
torch.linalg.ldl_factor({1})  torch.linalg.lstsq({0}, {0})  torch.linalg.pinv({0})
torch.linalg.matrix_exp({0})  torch.linalg.matrix_power({0}, 5)
torch.linalg.matrix_power({0}, -2)  torch.linalg.matrix_rank({0})  torch.linalg.matrix_norm({0})
torch.linalg.matrix_norm({0}, 'nuc')  torch.linalg.matrix_norm({0}, 2)
torch.linalg.matrix_norm({0}, 1)  torch.linalg.cond({0})  torch.linalg.cond({0}, 1)
torch.linalg.tensorinv({0}[0].reshape({0}.shape[-1], 1, -1), 1)  torch.logdet({1})
torch.trace({0}[0])  torch.pinverse({0}[0])  torch.linalg.householder_product({0}, {0}[..., 0])
torch.geqrf({0})
"""
MATRICES = {
    "100": ("s2 a2", "s3 a3", "s5 a5"),
    "10k": ("s2 a2", "s3 a3", "s4 a4", "s8 a8", "s16 a16", "s32 a32"),
    "1M": ("s64 a64", "s256 a256", "s512 a512"),
}
TRANSFORMS = """
torch.fft.fft({0})  torch.fft.ifft({0})  torch.fft.rfft({0})  torch.fft.irfft({0})
torch.fft.hfft({0})  torch.fft.fft({0}, dim=0)  torch.fft.rfft({0}, dim=0)  torch.fft.fft2({0})
torch.fft.rfft2({0})  torch.fft.irfft2({0})  torch.fft.ifft2({0})  torch.fft.fftn({0})
torch.fft.fftshift({0})
"""
SIGNALS = {
    "100": ("w10", "w7"),
    "10k": ("w128", "w100", "w101", "w97x"),
    "1M": ("w1024", "w1000", "w1009", "w64", "w17"),
}
LONG = """
torch.fft.fft(flat)  torch.fft.rfft(flat)  torch.fft.fftfreq(n)
torch.stft(flat, nfft, window=box, return_complex=True)
torch.stft(flat, nfft, window=window, return_complex=True)  torch.istft(spectrum, nfft, window=box)
"""
COMPLEX = """
torch.view_as_real(z)  torch.view_as_complex(zr)  z.abs()  z.angle()  z * z  z + z  z / z  z * 2
z.conj().resolve_conj()  z.conj() * z  z @ z  z.real + 1  z.imag.clone()  z.exp()  z.log()
z.sqrt()  z.sin()  z.tanh()  z.reciprocal()  z ** 2  z.pow(z)  z.sum()  z.sum(0)  z.mean(1)
z.prod(1)  z == z  z.t().contiguous()  z.H @ z  z.sgn()  z.isfinite()  z.norm()  z.norm(dim=1)
z.square()  torch.view_as_real(z * z).sum()  z.clone().mul_(2)  z.cumsum(0)  z.sigmoid()  z.neg()
"""
INTEGERS = """
x << 1  x >> 1  x << q  x >> q  x // 3  x % 3  x // q  x % q  x * 3  x + 1  x & 1  ~x  -x  x.abs()
x == 3  x > y  x / 2  x / y  x.float() / 2  x ** 2  x.clamp(1, 5)  x.clamp_min(2)
torch.maximum(x, y)  torch.minimum(x, y)  torch.lcm(x, q)  torch.gcd(x, q)  x.sign()
torch.div(x, q, rounding_mode='floor')  torch.div(x, q, rounding_mode='trunc')  torch.fmod(x, q)
torch.remainder(x, q)  x.logical_and(y)  x.logical_not()  torch.bitwise_not(x)  x != 0
x.add(y, alpha=2)  torch.where(x > 3, x, 0)  x.cumsum(1)
"""
SPARSE = """
torch.sparse.mm(coo, x)  coo @ x  csr @ x  csr @ v  coo @ v  coo.to_dense()  csr.to_dense()
coo.coalesce()  torch.sparse_coo_tensor(positions, values, (side, side)).coalesce()  x.to_sparse()
x.to_sparse_csr()  coo.t()  coo + coo  coo * 2  coo * coo  torch.sparse.sum(coo)
torch.sparse.sum(coo, 0)  torch.sparse.softmax(coo, 1)  torch.sparse.addmm(x, coo, y)
coo.to_sparse_csr()  csr.to_sparse_coo()  coo.sparse_mask(coo)  x.sparse_mask(coo)  coo @ coo
coo.index_select(0, i)
"""
FOREACH = """
torch._foreach_add(chunks, 1)  torch._foreach_add(chunks, chunks)
torch._foreach_add_(chunks, chunks, alpha=0.0)  torch._foreach_mul(chunks, 2.0)
torch._foreach_mul_(chunks, 1.0)  torch._foreach_addcmul(chunks, chunks, chunks, 0.5)
torch._foreach_addcdiv(chunks, chunks, chunks, 0.5)  torch._foreach_sqrt(chunks)
torch._foreach_exp(chunks)  torch._foreach_norm(chunks)  torch._foreach_lerp(chunks, chunks, 0.5)
torch._foreach_zero_(others)  torch._foreach_copy_(others, chunks)  torch._foreach_neg(chunks)
torch._foreach_maximum(chunks, chunks)  torch.nn.utils.parameters_to_vector(chunks)
torch._foreach_div(chunks, 2.0)  torch._foreach_pow(chunks, 2)
torch._foreach_clamp_min(chunks, 0)  torch._foreach_max(chunks)
"""
BACKWARD = """
grad(g[:, i].sum(), g)  grad(g[i, j].sum(), g)  grad(g[i].sum(), g)  grad(g[m].sum(), g)
grad(g[2:5].sum(), g)  grad(g[:, 0].sum(), g)  grad(g.gather(1, order).sum(), g)
grad(g.take(lin).sum(), g)  grad(g.index_select(1, i).sum(), g)  grad(g.cumsum(0).sum(), g)
grad(g.cumsum(1).sum(), g)  grad(g.cumprod(1).sum(), g)  grad(g.sort(1)[0].sum(), g)
grad(g.sort(0)[0].sum(), g)  grad(g.flatten().sort()[0].sum(), g)  grad(g.topk(5)[0].sum(), g)
grad(g.prod(), g)  grad(g.prod(1).sum(), g)  grad(g.norm(), g)  grad(g.norm(dim=1).sum(), g)
grad(g.norm(1), g)  grad(g.std(), g)  grad(g.std(1).sum(), g)  grad(g.var(0).sum(), g)
grad(g.max(), g)  grad(g.max(1)[0].sum(), g)  grad(g.amax(1).sum(), g)  grad(g.amax((0, 1)), g)
grad(g.median(), g)  grad(g.median(1)[0].sum(), g)  grad(g.logsumexp(1).sum(), g)
grad(g.mean(0).sum(), g)  grad(g.sum(), g)  grad((g * g).sum(), g)  grad((g @ g).sum(), g)
grad((g @ v).sum(), g)  grad(torch.einsum('ij,kj->ik', g, g).sum(), g)
grad(torch.einsum('ij,ij->i', g, g).sum(), g)
grad(torch.einsum('ij,jk,kl->il', g, g, g).sum(), g)  grad(torch.cat([g, g], 1).sum(), g)
grad(torch.stack([g, g]).sum(), g)  grad(torch.where(m, g, 0).sum(), g)
grad(g.masked_fill(m, 0).sum(), g)  grad(torch.clamp(g, 0, 1).sum(), g)
grad(g.roll(1, 0).sum(), g)  grad(g.flip(0).sum(), g)  grad(g.repeat(2, 2).sum(), g)
grad(g.repeat_interleave(2, 0).sum(), g)  grad(g.expand(3, -1, -1).sum(), g)
grad(functional.pad(g, (1, 1)).sum(), g)
grad(functional.pad(g[None], (1, 1), mode='reflect').sum(), g)  grad(g.t().contiguous().sum(), g)
grad(g.tril().sum(), g)  grad(torch.diag(g).sum(), g)  grad(g.diagonal().sum(), g)
grad(torch.cdist(g[:100], x[:100]).sum(), g)  grad(torch.pdist(g[:100]).sum(), g)
grad(torch.cov(g).sum(), g)  grad(functional.normalize(g).sum(), g)
grad(functional.cosine_similarity(g, x).sum(), g)
grad(functional.embedding(order[:10], g).sum(), g)
grad(torch.zeros_like(x).index_add(0, i, g).sum(), g)
grad(torch.zeros_like(x).scatter_add(1, order, g).sum(), g)
grad(torch.zeros_like(x).scatter_reduce(1, order, g, 'amax').sum(), g)
grad(torch.logcumsumexp(g, 1).sum(), g)  grad(torch.fft.rfft(g).abs().sum(), g)
grad(g.unfold(1, 3, 1).sum(), g)  grad(torch.outer(g[0], g[1]).sum(), g)
grad(torch.trapezoid(g).sum(), g)  grad(torch.diff(g).sum(), g)
grad(torch.softmax(g, 1).max(1)[0].sum(), g)  grad(g.unbind()[0].sum(), g)
grad(sum(t.sum() for t in g.split(5)), g)  grad(sum(t.sum() for t in g.chunk(3, 1)), g)
grad(g.reshape(-1)[i].sum(), g)  grad((g ** 2).sum(), g)
grad((g - g.mean(1, keepdim=True)).pow(2).sum(), g)  grad(g.index_put((i, j), v).sum(), g)
grad(g.renorm(2, 0, 1).sum(), g)  grad(torch.linalg.det(h), h)  grad(torch.linalg.inv(h).sum(), h)
grad(torch.linalg.solve(h, h.detach()).sum(), h)  grad(torch.linalg.svd(h)[1].sum(), h)
grad(torch.linalg.eigh(h @ h.T)[0].sum(), h)  grad(torch.linalg.cholesky(h @ h.T + eye8).sum(), h)
grad(torch.linalg.qr(h)[0].sum(), h)  grad(torch.linalg.matrix_exp(h).sum(), h)
"""

Group = tuple[str, str | list[str], tuple[str, ...], tuple[str, ...]]
GROUPS: list[Group] = [
    ("indexing", INDEXING, ("float32", "int64", "bfloat16", "bool"), ALL),
    ("positions", POSITIONS, FLOATS, ALL),
    ("sorting", SORTING, MANY, ALL),
    ("quantiles", QUANTILES, ("float32", "float64"), ALL),
    ("reducing", REDUCING, NUMBERS, ALL),
    ("ordered", ORDERED, tuple(d for d in NUMBERS if d != "complex64"), ALL),
    ("shaping", SHAPING, ("float32", "bfloat16", "uint8"), ALL),
    ("converting", CONVERTING, (*MANY, "float16", "int16", "complex64"), ALL),
    ("padding", PADDING, FLOATS, ALL),
    ("creating", CREATING, FLOATS, ALL),
    ("product", PRODUCT, PRODUCTS, ALL),
    ("complex", COMPLEX, ("complex64", "complex128"), ALL),
    ("integers", INTEGERS, ("int64", "int32", "uint8"), ALL),
    ("sparse", SPARSE, FLOATS, ALL),
    ("foreach", FOREACH, FLOATS, ALL),
    ("backward", BACKWARD, FLOATS, ALL),
    ("long", LONG, ("float32", "float64"), ALL),
]


def split(statements: str) -> list[str]:
    """The statements of a group, which stand in lines, two spaces apart."""
    return re.split(r"  |\n", statements.strip())


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Group, statement, size and dtype of every row."""
    for size in ALL:
        for group, statements, dtypes, sizes in GROUPS:
            lines = split(statements) if isinstance(statements, str) else statements
            for dtype in dtypes if size in sizes else ():
                for line in lines:
                    yield group, line, size, dtype
        for dtype in ("float32", "float64"):
            for pair in MATRICES[size]:
                for line in split(LINALG):
                    yield "linalg", line.format(*pair.split()), size, dtype
            for signal in SIGNALS[size]:
                for line in split(TRANSFORMS):
                    yield "fft", line.format(signal), size, dtype


def matrices(torch: Any, size: str, dtype: Any) -> dict[str, Any]:
    """Batches of well conditioned matrices s, symmetric positive ones a, and signals w."""
    if dtype not in (torch.float32, torch.float64):
        return {}
    made: dict[str, Any] = {}
    for pair in MATRICES[size]:
        side = int(pair.split()[0][1:])
        count = max(1, {"100": 100, "10k": 10_000, "1M": 40_000}[size] // side**2)
        s = torch.randn(count, side, side, dtype=dtype) / side**0.5 + torch.eye(side, dtype=dtype)
        made |= {f"s{side}": s, f"a{side}": s @ s.mT + 0.1 * torch.eye(side, dtype=dtype)}
    for signal in SIGNALS[size]:
        width = int(signal.strip("wx"))
        made[signal] = torch.randn(SIZES[size] ** 2 // width, width, dtype=dtype)
    return made


def positions(torch: Any, x: Any, side: int) -> dict[str, Any]:
    indices = {"i": torch.randint(0, side, (side,)), "j": torch.randint(0, side, (side,))}
    indices |= {"lin": torch.randint(0, side * side, (side, side)), "perm": torch.randperm(side)}
    indices |= {"order": torch.randint(0, side, (side, side)), "i3": torch.tensor([0, 1])}
    indices |= {"m": torch.rand(side, side) < 0.4, "mrow": torch.rand(side) < 0.4}
    indices |= {"reps": torch.randint(0, 3, (side,)), "edges": torch.linspace(-2, 2, 40)}
    indices |= {"rows_sorted": torch.randn(side, side).sort(1)[0]}
    indices |= {"mc2": torch.rand(side // 10, 10) < 0.4}
    return indices


def sparse(torch: Any, x: Any, side: int) -> dict[str, Any]:
    dense = x.float() * (torch.rand(side, side) < 0.05)
    found = torch.randint(0, side, (2, side * 5))
    return {
        "coo": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "positions": found,
        "values": torch.randn(side * 5),
    }


def names(torch: Any, case: str) -> dict[str, Any]:
    """The tensors of one size and dtype."""
    size, dtype_name = case.split()
    side, dtype = SIZES[size], getattr(torch, dtype_name)
    torch.manual_seed(0)

    def made(*sizes: int) -> Any:
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(sizes, dtype=dtype)
        spread = {"bool": 2, "uint8": 250, "int16": 30_000}.get(dtype_name, 100_000)
        return torch.randint(0, spread, sizes).to(dtype)

    x, y, v = made(side, side), made(side, side), made(side)
    tensors = {"x": x, "y": y, "v": v, "flat": x.flatten(), "c": x.view(side // 10, 10, side)}
    tensors |= {"q": torch.randint(1, 6, (side, side)).to(dtype), "z": x}
    tensors |= {
        "few": torch.randint(0, 2 if dtype_name == "bool" else 100, (side * side,)).to(dtype)
    }
    tensors |= {"p": torch.rand(side, side), "count": torch.full((side, side), 10.0)}
    tensors |= {f"b{k}": made(max(1, side * side // k**2), k, k) for k in (2, 3, 4, 16, 32)}
    tensors |= {"b": made(10, side, max(1, side // 10)).mT[:, : side // 10, : side // 10]}
    tensors |= {"t3": made(side * side // 3, 3), "c8": made(8, 8, 8)}
    tensors |= {
        "chunks": [made(side) for _ in range(100)],
        "others": [made(side) for _ in range(100)],
    }
    tensors |= {"squares": [made(5, 5) for _ in range(20)], "listed": v.tolist()}
    tensors |= {
        "edges5": torch.tensor([0.1, 0.5, 0.9]).to(dtype) if dtype.is_floating_point else None
    }
    tensors |= {"g": torch.randn(side, side, requires_grad=True)}
    tensors |= {"h": torch.randn(8, 8, requires_grad=True), "eye8": torch.eye(8)}
    if dtype.is_complex:
        tensors["zr"] = torch.view_as_real(x)
    if dtype_name in ("float32", "float64"):
        nfft = {"100": 16, "10k": 400, "1M": 1024}[size]
        tensors |= {"nfft": nfft, "window": torch.hann_window(nfft, dtype=dtype)}
        box = torch.ones(nfft, dtype=dtype)
        tensors["spectrum"] = torch.stft(tensors["flat"], nfft, window=box, return_complex=True)
        tensors["box"] = box
    if dtype_name == "float32":
        tensors |= sparse(torch, x, side)
    tensors |= positions(torch, x, side) | matrices(torch, size, dtype)
    scope = {"torch": torch, "functional": torch.nn.functional, "grad": torch.autograd.grad}
    wide = {"complex64": torch.complex64}.get(dtype_name, torch.float64)
    return {**scope, "n": side * side, "side": side, "dt": dtype, "wide": wide, **tensors}


def run(arguments: argparse.Namespace, workers: list[Worker]) -> bool:
    sizes = arguments.sizes.split(",")
    chosen = [
        row for row in rows() if row[2] in sizes and re.search(arguments.only, " | ".join(row))
    ]
    if arguments.again:
        table = Path(arguments.again).read_text().split("\n")
        slow = {line[30:] for line in table if " | " in line and float(line[:6]) < 0.9}
        chosen = [row for row in chosen if " | ".join(row) in slow]
    timed = [(f"{size} {dtype}", statement) for _, statement, size, dtype in chosen]
    best = measure(workers, timed, arguments.rounds)
    ratios = []
    for row, (ours, *theirs) in zip(chosen, best, strict=True):
        ratio = theirs[0] / ours if theirs else float("nan")
        if 0 < ratio < math.inf:  # either library may lack the op for the dtype
            ratios.append(ratio)
        if arguments.all or ratio < 0.9:
            print(
                f"{ratio:6.2f} {ours:10.2f} {theirs[0] if theirs else 0:10.2f}  {' | '.join(row)}"
            )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        slow = sum(ratio < 0.9 for ratio in ratios)
        print(f"{len(ratios)} rows, geometric mean {mean:.2f} times PyTorch; {slow} below 0.9")
    return all(ratio >= 0.9 for ratio in ratios)


if __name__ == "__main__":
    made = parser(__doc__, rounds=2)
    made.add_argument("--all", action="store_true", help="print every row")
    made.add_argument("--again", help="only what was slow in the output that this file holds")
    made.add_argument("--sizes", default=",".join(ALL), help="of 100, 10k and 1M")
    sys.exit(main(made, __file__, names, run))
