"""More statements of random programs: hooks, passes in the middle, modes, views of other dtypes,
writes at given indices, results into out=, custom functions.

They are many and each is rare; what a statement gives is told only as far as the rest needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from programs_base import Statements

if TYPE_CHECKING:
    from programs import Shape

# Available to every program; the worker runs it first.
PRELUDE = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]

class Double_(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)
    @staticmethod
    def backward(ctx, g):
        return g * 2

class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_non_differentiable(second := x.sign())
        return x + y, second
    @staticmethod
    def backward(ctx, g, _):
        return g, g

class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)
    @staticmethod
    def backward(ctx, g):
        return g * 3

seen = []
def watch(g):
    seen.append(g.detach().clone())
def triple(g):
    return g * 3
def keep(t):
    return t.detach().clone()
def same(t):
    return t
"""


class MoreStatements(Statements):
    """Mixed into the generator, which chooses variables and numbers."""

    def do(self, *choices: str) -> None:
        self.statements.append(self.rng.choice(choices))

    def hook(self) -> None:
        x = self.pick().name
        self.do(
            f"{x}.register_hook(watch)", f"{x}.register_hook(triple)", f"{x}.retain_grad()",
            f"h = {x}.register_hook(triple); h.remove()",
            f"{x}.register_post_accumulate_grad_hook(lambda t: watch(t.grad))",
            f"{x}.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))",
            f"{x}.grad_fn.register_hook(lambda a, b: watch(b[0]))",
        )  # fmt: skip

    def backward(self) -> None:
        """A pass in the middle of the program."""
        x, y = self.pick().name, self.pick().name
        keep = self.rng.choice(("", "", "retain_graph=True"))
        self.do(
            f"{x}.sum().backward({keep})",
            f"{x}.abs().sum().backward({keep})",
            f"g{len(self.statements)} = torch.autograd.grad({x}.abs().sum(), [{y}], "
            f"allow_unused=True{', ' if keep else ''}{keep})",
            f"g{len(self.statements)} = torch.autograd.grad({x}.abs().sum(), [{y}], "
            "create_graph=True)[0]",
            f"torch.autograd.backward([{x}, {y}], [torch.ones_like({x}), torch.ones_like({y})])",
            f"{x}.backward(torch.ones_like({x}), inputs=[{y}])",
            f"{x}.grad = None",
            f"{x}.grad.zero_()",
        )  # fmt: skip

    def mode(self) -> None:
        """Views and results made where nothing is recorded, and history cut off."""
        x = self.pick()
        where = self.rng.choice(("no_grad", "no_grad", "enable_grad", "inference_mode"))
        name = f"m{len(self.statements)}"
        made = self.rng.choice(
            ("{}.view({})", "{}[...]", "{} * 2", "{}.detach()", "{}.unbind()[0]")
        )
        text = made.format(x.name, list(x.shape))
        self.statements.append(f"with torch.{where}(): {name} = {text}")
        self.do(
            f"{name}.mul_(2)",
            f"with torch.no_grad(): {name}.add_(1)",
            f"{name}[...] = {self.pick_with(x.shape).name}",
            f"{name}2 = {name} + {x.name}",
            f"{x.name}.mul_(2)",
            f"{x.name}.detach_()",
            f"{x.name}.requires_grad_(False)",
            f"{x.name}.data.mul_(2)",
            f"{x.name}.data = {x.name}.data * 2",
            f"{name}2 = {name}.requires_grad, {name}.is_leaf, {name}.is_inference()",
        )  # fmt: skip

    def other_view(self) -> None:
        x = self.pick()
        n = len(x.shape)
        flat: Shape = (int(_count(x.shape)),)
        choices: list[tuple[str, Shape]] = [
            (".unflatten(0, (1, -1))", (1, *x.shape) if x.shape else x.shape),
            (".swapaxes(0, -1)", x.shape if n < 2 else (x.shape[-1], *x.shape[1:-1], x.shape[0])),
            (".as_strided((2,), (1,))", (2,)),
            (".as_strided((2, 2), (1, 1))", (2, 2)),
            (".tensor_split(2)[0]", x.shape),
            (".flip(0)", x.shape),
            (".ravel()", flat),
            (".view_as(" + x.name + ")", x.shape),
            (".expand_as(" + x.name + ")", x.shape),
            (".t().t()", x.shape),
            (".real", x.shape),
        ]
        if self.complex:
            choices += [
                (".conj()", x.shape), (".conj()", x.shape), (".imag", x.shape),
                (".resolve_conj()", x.shape), (".mH", x.shape),
                (".mul(1j).conj_physical()", x.shape),
                (".conj().conj()", x.shape), (".conj().imag", x.shape), (".is_conj()", ()),
            ]  # fmt: skip
        expression, shape = self.rng.choice(choices)
        if expression.endswith("is_conj()"):
            self.statements.append(f"c{len(self.statements)} = {x.name}{expression}")
        else:
            self.new(f"{x.name}{expression}", shape)

    def named_write(self) -> None:
        """In-place ops that take indices, or change shapes."""
        x = self.pick()
        y = self.pick_with(x.shape).name
        n = x.shape[0] if x.shape else 1
        index = [self.rng.randint(0, max(n - 1, 0)) for _ in range(2)]
        mask = [self.rng.random() < 0.5 for _ in range(x.shape[-1] if x.shape else 1)]
        value = self.rng.choice((self.scalar(), f"{self.pick().name}"))
        guard = "with torch.no_grad(): " if self.rng.random() < 0.15 else ""
        self.statements.append(guard + self.rng.choice((
            f"{x.name}.index_fill_(0, torch.tensor({index}), {value})",
            f"{x.name}.index_add_(0, torch.tensor({index}), {y}[{index}])",
            f"{x.name}.index_copy_(0, torch.tensor({index}), {y}[{index}])",
            f"{x.name}.masked_fill_(torch.tensor({mask}), {value})",
            f"{x.name}.masked_scatter_(torch.tensor({mask}), {y}.clone())",
            f"{x.name}.scatter_(0, torch.zeros({list(x.shape)}, dtype=torch.int64), {y})",
            f"{x.name}.scatter_add_(0, torch.zeros({list(x.shape)}, dtype=torch.int64), {y})",
            f"{x.name}.clamp_(-1, 1)", f"{x.name}.clamp_(min={y})", f"{x.name}.cumsum_(0)",
            f"{x.name}.addcmul_({y}, {y}, value=0.5)", f"{x.name}.lerp_({y}, 0.25)",
            f"{x.name}.add_({y}, alpha=2)", f"{x.name}.sub_({y}, alpha=0.5)",
            f"{x.name}.fill_({value})", f"{x.name}.zero_()", f"{x.name}.cos_()",
            f"{x.name}.unsqueeze_(0)", f"{x.name}.squeeze_()", f"{x.name}.transpose_(0, -1)",
            f"{x.name}.triu_()", f"{x.name}.put_(torch.tensor({index}), torch.zeros(2))",
            f"{x.name}.index_put_((torch.tensor({index}),), {y}[{index}], accumulate=True)",
            f"{x.name}.logical_and_({y})", f"{x.name}.lt_({y})", f"{x.name}.trunc_()",
            f"{x.name}.neg_().add_(1)", f"{x.name} += {y}", f"{x.name} *= {self.scalar()}",
            f"{x.name} -= {x.name}", f"{x.name} /= {y}", f"{x.name}.copy_({x.name}.flip(0))",
            f"{x.name}.t_()", f"{x.name}.swapaxes_(0, -1)", f"{x.name}.fill_diagonal_(1)",
        )))  # fmt: skip

    def out_form(self) -> None:
        x, y = self.pick(), self.pick()
        out = self.pick().name if self.rng.random() < 0.5 else "torch.empty(0)"
        name = self.rng.choice(("add", "mul", "maximum", "eq", "atan2", "div"))
        self.statements.append(
            f"o{len(self.statements)} = torch.{name}({x.name}, {y.name}, out={out})"
        )

    def custom(self) -> None:
        x = self.pick()
        y = self.pick_with(x.shape).name
        expression = self.rng.choice((
            f"Square.apply({x.name})", f"Double_.apply({x.name})", f"Pair.apply({x.name}, {y})[0]",
            f"Same.apply({x.name})", f"Pair.apply({x.name}, {y})[1]",
        ))  # fmt: skip
        self.new(expression, x.shape)

    def saved_hooks(self) -> None:
        x = self.pick()
        name = f"s{len(self.statements)}"
        self.statements.append(
            f"with torch.autograd.graph.saved_tensors_hooks(keep, same): "
            f"{name} = {x.name}.exp() * {x.name}.sin()"
        )
        self.new(f"{name} + 1", x.shape)


def _count(shape: Shape) -> int:
    count = 1
    for n in shape:
        count *= n
    return count
