"""Statements of random programs that mix what is usually apart: masks of several dimensions beside
other indices, numbers of every kind and tensors without dimensions, chains of views written to,
results into out=, derivatives of higher order, modes within modes, complex and half precision.

Templates as in programs_rare.py. In them `x` is some variable, `y` one that broadcasts with it, `n`
a dimension of x, `i` an index vector into it, `m` a mask over the first dimensions of x, `f` a mask
of x's shape, `s` a number, `k` a number of any kind or a tensor without dimensions, `d` a dtype.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from programs_base import Statements

if TYPE_CHECKING:
    from programs import Shape, Variable

# Results of x's shape.
RESULTS = (
    "x + k", "k - x", "x * k", "k / x", "x // k", "x % k", "x ** k", "k ** x", "x == k", "k < x",
    "torch.add(x, k)", "torch.mul(k, x)", "torch.sub(x, k, alpha=2)", "torch.true_divide(x, k)",
    "torch.where(f, x, k)", "torch.where(f, k, x)", "torch.where(x > 0, k, 0)", "x.add(k, alpha=s)",
    "torch.maximum(x, torch.as_tensor(k))", "torch.pow(x, k)", "torch.remainder(x, k)",
    "torch.fmod(x, k)", "torch.floor_divide(x, k)", "x.clamp(min=k)", "x.clamp(max=k)",
    "x.masked_fill(f, k)", "torch.full_like(x, k)", "x.logical_and(torch.as_tensor(k))",
    "torch.lerp(x, y, k)", "x.addcmul(y, y, value=k)", "torch.atan2(x, torch.as_tensor(k))",
    "x.to(d) + y", "x.to(d).sum(n, keepdim=True) + x", "x.to(d) * k", "x.to(d).cumsum(n)",
    "x.softmax(n, dtype=torch.float32)", "x.to(d).exp().to(torch.float64)", "x.sum().to(d) * x",
    "torch.nn.functional.gelu(x)", "torch.nn.functional.silu(x)", "torch.nn.functional.mish(x)",
    "torch.nn.functional.leaky_relu(x, 0.1)", "torch.nn.functional.softplus(x)",
    "torch.func.grad(lambda t: (t * t * t).sum())(x)",
    "torch.func.vmap(lambda t: t * 2)(x)", "torch.func.jvp(torch.sin, (x,), (x,))[1]",
    "x.scatter(n, torch.zeros_like(x).long(), k)", "x.index_put((i,), torch.as_tensor(k))",
    "x.index_put((m,), torch.as_tensor(k, dtype=x.dtype))", "x.masked_scatter(f, x.flatten())",
    "x.select_scatter(x.select(n, 0) * 2, n, 0)", "x.slice_scatter(x.narrow(n, 0, 1), n, 0, 1)",
    "x.clone().index_add_(n, i, x.index_select(n, i))", "torch.zeros_like(x).copy_(y)",
)  # fmt: skip
# The same, of complex numbers.
COMPLEX = (
    "torch.complex(x.double(), x.double())", "torch.complex(x.double(), y.double() + x).abs()",
    "torch.polar(x.double().abs(), x.double()).real", "(x * 1j).imag", "(x * 1j).conj().real",
    "torch.view_as_real(x * 1j)[..., 1]", "(x * (1 + 2j)).abs()", "(x + 1j).angle()",
    "(x + 1j).reciprocal().real", "(x + 1j).exp().imag", "(x + 2j).log().abs()",
    "((x + 1j) * (y - 1j)).real", "((x + 1j) / (y - 2j)).imag", "((x + 1j) ** 2).imag",
    "(x + 1j).sqrt().real", "(x * 1j).sgn().imag", "(x + 1j).sum(n, keepdim=True).abs() + x",
    "(x + 1j).sum().imag + x", "(x + 0.5j).tanh().real", "(x + 0.5j).sin().imag",
)  # fmt: skip
# Results of other shapes, which are only compared.
QUESTIONS = (
    "x[m]", "x[m, ...]", "x[m, None]", "x[..., None][m]", "x[f]", "x[f, None]", "x[m].sum()",
    "x[m, i]", "x[m, 0]", "x[m, 1:]", "x[m, ::2]", "x[m, ..., i]", "x[None, m]", "x[:, m]",
    "x[i, None]", "x[i[:, None], i]", "x[i, i]", "x[i, ..., None]", "x[..., i]", "x[i, :, i]",
    "x[:, i]", "x[:, None, i]", "x[i.bool()]", "x[True, m]", "x[m, True]", "x[True]", "x[False]",
    "x[[True] * len(x)]", "x[range(len(x))]", "x[(i,)]", "x[i.int()]", "x[..., f]", "x[x > k]",
    "x[torch.tensor(0)]", "x[torch.tensor(True)]", "x[i.tolist()]", "x[i.tolist(), ...]",
    "torch.result_type(x, k)", "torch.can_cast(x.dtype, d)", "(x + k).dtype", "(x * k).dtype",
    "(x / k).dtype", "(x // k).dtype", "(x ** k).dtype", "torch.where(f, x, k).dtype",
    "torch.cat([x.to(d), y]).dtype", "torch.stack([x, x.to(d)]).dtype", "(x.sum() * k).dtype",
    "x.sum(dtype=d)", "x.mean(dtype=torch.float64)", "x.prod(n, dtype=d)", "x.to(d).mean(n)",
    "x.to(d).var(n)", "x.to(d).norm()", "x.to(d) @ x.to(d).mT", "x.to(d).logsumexp(n)",
    "x.to(d).std()", "x.to(d).max(n)[0]", "x.to(d).sort(n)[0]", "x.to(d).amax(n)",
    "torch.func.hessian(lambda t: (t ** 3).sum())(x.flatten()[:3])",
    "torch.func.jacrev(lambda t: t.sin() * t)(x.flatten()[:3])",
    "torch.func.jacfwd(lambda t: t.cumsum(0))(x.flatten()[:3])",
    "torch.autograd.functional.hvp(lambda t: (t ** 3).sum(), x.detach(), x.detach())[1]",
    "torch.autograd.functional.jacobian(torch.sin, x.detach().flatten()[:3])",
    "torch.func.vmap(torch.dot, (0, 0))(x, x)", "torch.func.vmap(lambda t: t.sum(0))(x)",
    "torch.func.vjp(lambda t: t * t, x)[1](x)[0]", "torch.linalg.norm(x)", "x.is_complex()",
    "torch.stack((x, x), n).grad_fn is None", "torch.is_grad_enabled(), torch.is_nonzero(k + x)",
)  # fmt: skip
# What changes x or its surroundings.
CHANGES = (
    "x[m] = k", "x[m] += k", "x[m] *= 2", "x[m] = y[m]", "x[f] = k", "x[f] = x[f] * 2",
    "x[f] = y.expand(x.shape)[f]", "x[m, i] = k", "x[m, ...] = k", "x[m, None] = k", "x[i] = k",
    "x[i] = y", "x[i] *= k", "x[i, ...] = x[i].clone()", "x[i, None] = k", "x[..., i] = k",
    "x[i[:, None], i] = k", "x[i, i] = k", "x[:, i] = k", "x[None, i] = k", "x[...] = k",
    "x[...] = y", "x[:] = y", "x[0] = k", "x[-1, ...] = y", "x[..., 0] = k", "x[::2] = k",
    "x[..., ::2] += k", "x[1:] = x[:-1].clone()", "x[True] = k", "x[False] = k", "x[()] = k",
    "x[None] = y", "x[x > k] = 0", "x[x == x] = k", "x[f] = f.sum()", "x[m] = x.sum()",
    "x[0:1].t()[0].mul_(2)", "x.t()[0:1].add_(k)", "x.view(-1)[1:].mul_(2)", "x.mT[0].neg_()",
    "x[0].unsqueeze(0)[0].add_(1)", "x.unsqueeze(-1).squeeze(-1)[0].mul_(3)", "x[:, 0][0:1] = k",
    "x.transpose(0, -1)[0].copy_(x.transpose(0, -1)[-1].clone())", "x[..., None][0] = k",
    "x.flatten()[::2].zero_()", "x.diagonal()[0:1].mul_(2)", "x[1:][:1].add_(k)", "x[0][0] += 1",
    "x.expand_as(x)[0].mul_(2)", "x.narrow(n, 0, 1).transpose(0, -1).add_(k)", "x.T[0] -= 1",
    "x.unfold(n, 1, 1).select(n, 0).mul_(2)", "x.movedim(0, -1)[..., 0].exp_()",
    "x.as_strided(x.shape, x.stride())[0] = k", "x.split(1, n)[0].mul_(2)", "x[0].view(-1)[0] = k",
    "x.add_(k)", "x.mul_(k)", "x.sub_(k)", "x.div_(k)", "x.pow_(k)", "x.fill_(k)", "x += k",
    "x -= k", "x *= k", "x /= k", "x //= k", "x %= k", "x **= k", "x.clamp_(min=k)", "x.copy_(k)",
    "x.masked_fill_(f, k)", "x.masked_fill_(m, k)", "x.index_fill_(n, i, k)", "x.lerp_(y, k)",
    "x.index_put_((m,), torch.as_tensor(k, dtype=x.dtype), accumulate=True)",
    "x.index_put_((i, i), torch.as_tensor(k, dtype=x.dtype), accumulate=True)",
    "x.scatter_(n, torch.zeros_like(x).long(), k)", "x.addcdiv_(y, y + 5, value=k)",
    "torch.add(x, k, out=y)", "torch.mul(y, y, out=x)", "torch.sub(x, y, out=torch.empty(0))",
    "torch.sum(x, n, out=torch.empty(0, dtype=d))", "torch.mean(x, n, out=torch.empty(0, dtype=d))",
    "torch.add(x, y, out=torch.empty(0, dtype=d))", "torch.div(x, y, out=torch.empty(0, dtype=d))",
    "torch.eq(x, y, out=torch.empty(0, dtype=d))", "torch.sqrt(x, out=torch.empty(0, dtype=d))",
    "torch.cumsum(x, n, out=torch.empty(0, dtype=d))", "torch.amax(x, n, out=torch.empty(0))",
    "torch.prod(x, n, out=torch.empty(0, dtype=d))", "torch.pow(x, 2, out=torch.empty(0, dtype=d))",
    "torch.matmul(x, x.mT, out=torch.empty(0, dtype=x.dtype))",
    "torch.gather(x, n, torch.zeros_like(x).long(), out=torch.empty(0, dtype=x.dtype))",
    "torch.where(f, x, y, out=torch.empty(0, dtype=x.dtype))", "torch.abs(x, out=x[...])",
    "torch.max(x, n, out=(torch.empty(0, dtype=x.dtype), torch.empty(0, dtype=torch.int64)))",
    "with torch.no_grad(): x[m] = k", "with torch.no_grad(): x[0].mul_(2)", "x.data[m] = k",
    "with torch.inference_mode(): x[0] = k", "with torch.inference_mode(): x.clone().add_(k)",
    "with torch.set_grad_enabled(False): x *= 2", "with torch.enable_grad(): x.mul_(2)",
    "x = x.detach().requires_grad_()", "x.requires_grad_().mul(2).sum().backward()",
    "torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)[0].sum().backward()",
    "torch.autograd.grad(x.sum(), x, torch.ones_like(x.sum()))", "x.sum().backward(inputs=[x])",
    "torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)[0].pow(2).sum().backward()",
    "x.register_hook(lambda g: g.clone())", "x.register_hook(lambda g: g[...] * 2)",
    "x.register_hook(lambda g: torch.zeros_like(g))", "x.register_hook(lambda g: g.t())",
    "x.register_hook(lambda g: seen.append(g.sum()))",
    "torch.autograd.graph.register_multi_grad_hook((x, y), lambda gs: seen.append(len(gs)))",
    "x.register_post_accumulate_grad_hook(lambda t: t.data.sub_(t.grad))",
)  # fmt: skip
COMPLEX_CHANGES = (
    "x.real = k", "x.imag = k", "torch.view_as_real(x)[..., 0] = k", "x.real.mul_(2)",
    "x.imag += 1", "torch.view_as_complex(x[..., :2]).mul_(1j)", "x.conj()[0] = k",
    "x.conj().add_(k)",
)  # fmt: skip
NUMBERS = ("True", "False", "0", "1", "-2", "3", "2 ** 40", "0.5", "-1.5", "2.0", "1e-3", "inf",
           "-inf", "nan", "1e300")  # fmt: skip
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
          "bool")  # fmt: skip


class MixedStatements(Statements):
    """Mixed into the generator, which chooses variables and numbers."""

    def _any_dtype(self) -> str:
        chosen = ("complex64", "complex128", *DTYPES[:2], *DTYPES[4:]) if self.complex else DTYPES
        return self.rng.choice(chosen)

    def _any_number(self) -> str:
        """A number of some kind, or a tensor without dimensions that holds one."""
        if self.rng.random() < 0.5:
            return self.rng.choice((*NUMBERS, "1j", "2 - 1j") if self.complex else NUMBERS)
        value = self.rng.choice(("0", "1", "-2", "3", "0.5", "-1.5"))
        return f"torch.tensor({value}).to(torch.{self._any_dtype()})"

    def _mask(self, shape: Shape) -> str:
        count = 1
        for n in shape:
            count *= n
        values = [self.rng.random() < 0.5 for _ in range(count)]
        return f"torch.tensor({values}, dtype=torch.bool).reshape({list(shape)})"

    def _mixed(self, templates: tuple[str, ...]) -> tuple[str, Variable]:
        x = self.pick()
        y = self.pick_with(x.shape) if self.rng.random() < 0.8 else self.pick()
        n = self.dim(x)
        size = x.shape[n] if x.shape else 1
        index = [self.rng.randrange(-size, size) for _ in range(min(size, 3))] if size else []
        covered = self.rng.randint(min(1, len(x.shape)), len(x.shape))
        words = {
            "x": x.name, "y": y.name, "n": str(n), "s": self.scalar(), "k": self._any_number(),
            "i": f"torch.tensor({index}, dtype=torch.int64)", "d": f"torch.{self._any_dtype()}",
            "m": self._mask(x.shape[:covered]), "f": self._mask(x.shape),
        }  # fmt: skip
        template = self.rng.choice(templates)
        pattern = r"(?<![\w.'])[xynsikdmf]\b(?!=)"
        return re.sub(pattern, lambda found: words[found.group()], template), x

    def mixed_result(self) -> None:
        text, x = self._mixed(RESULTS + COMPLEX if self.complex else RESULTS)
        self.new(text, x.shape)

    def mixed_question(self) -> None:
        text, _ = self._mixed(QUESTIONS)
        self.statements.append(f"q{len(self.statements)} = {text}")

    def mixed_change(self) -> None:
        text, _ = self._mixed(CHANGES + COMPLEX_CHANGES if self.complex else CHANGES)
        self.statements.append(text)
