"""Random programs over tensors: text that means the same to Flambeau and to PyTorch.

A program makes a few leaves and then applies views, in-place writes, arithmetic between dtypes,
indexing, reductions and joins to what it has; at the end it differentiates. The generator follows
shapes with NumPy, so that most statements are valid; some are not, and must raise the same error.
It draws from a `random.Random`, which a seed or hypothesis provides.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from programs_mixed import MixedStatements
from programs_model import MODEL_PRELUDE, ModelStatements
from programs_more import PRELUDE, MoreStatements
from programs_rare import RARE_PRELUDE, RareStatements

Shape = tuple[int, ...]

FLOATS = ("float64", "float64", "float64", "float32", "float32", "float16", "bfloat16")
OTHERS = ("int64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex128", "complex64")
UNARY = ("neg", "abs", "exp", "sin", "cos", "tanh", "sigmoid", "relu", "square", "sqrt", "log1p",
         "clone", "contiguous", "detach", "sign", "floor", "reciprocal", "rsqrt", "erf", "atan",
         "logical_not", "isnan", "conj")  # fmt: skip
INPLACE_UNARY = ("neg_", "exp_", "sin_", "tanh_", "sigmoid_", "relu_", "square_", "abs_", "zero_",
                 "floor_", "reciprocal_")  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^")
COMMON_OPERATORS = ("+", "-", "*", "/")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "atan2", "fmod", "remainder", "pow",
          "logical_and", "logical_or", "eq", "lt", "floor_divide", "hypot", "copysign")  # fmt: skip
INPLACE_BINARY = ("add_", "sub_", "mul_", "div_", "copy_", "pow_", "atan2_", "remainder_", "eq_",
                  "floor_divide_", "bitwise_and_")  # fmt: skip
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin", "std",
              "var", "norm", "logsumexp", "max", "min", "count_nonzero", "median")  # fmt: skip
ALONG = ("cumsum", "cumprod", "softmax", "log_softmax", "sort", "argsort", "logcumsumexp",
         "cummax", "cummin")  # fmt: skip


@dataclass
class Variable:
    name: str
    shape: Shape
    dtype: str | None  # of leaves; results are not followed
    grad: bool = False


@dataclass
class Generator(MoreStatements, RareStatements, MixedStatements, ModelStatements):
    """Builds one program; with `history`, mostly writes into views of what carries gradients."""

    rng: random.Random
    history: bool = False
    wide: bool = False  # also the statements of programs_more.py
    rare: bool = False  # and those of programs_rare.py
    mixed: bool = False  # and those of programs_mixed.py
    model: bool = False  # and those of programs_model.py
    complex: bool = False  # complex numbers, or else half precision: together PyTorch has no dtype
    statements: list[str] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    count: int = 0

    def program(self, length: int) -> list[str]:
        for _ in range(self.rng.randint(1, 3)):
            self.leaf()
        kinds: list[tuple[int, Callable[[], None]]] = [
            (3, self.unary), (5, self.binary), (4, self.inplace), (7, self.view), (5, self.index),
            (4, self.write), (4, self.reduce), (2, self.along), (2, self.join), (2, self.convert),
            (2, self.product), (2, self.gathered), (1, self.leaf), (1, self.special),
            (1, self.invalid), (1, self.alias),
        ]  # fmt: skip
        if self.wide:
            kinds += [
                (2, self.hook), (2, self.backward), (2, self.mode), (4, self.other_view),
                (5, self.named_write), (1, self.out_form), (2, self.custom), (1, self.saved_hooks),
            ]  # fmt: skip
        if self.rare:
            kinds += [
                (7, self.rare_result), (5, self.rare_question), (7, self.rare_effect),
                (2, self.rare_function),
            ]  # fmt: skip
        if self.mixed:
            kinds += [
                (5, self.mixed_result), (5, self.mixed_question), (9, self.mixed_change),
            ]  # fmt: skip
        if self.model:
            kinds += [
                (9, self.model_result), (12, self.model_question), (6, self.model_change),
            ]  # fmt: skip
        if self.history:
            written = (self.view, self.inplace, self.write, self.alias, self.index)
            kinds = [(4 * weight if kind in written else weight, kind) for weight, kind in kinds]
        weights = [weight for weight, _ in kinds]
        for _ in range(length):
            self.rng.choices(kinds, weights)[0][1]()
        self.differentiate()
        return self.statements

    # Making and choosing variables

    def new(self, expression: str, shape: Shape, dtype: str | None = None) -> Variable:
        variable = Variable(f"v{self.count}", shape, dtype)
        self.count += 1
        self.statements.append(f"{variable.name} = {expression}")
        self.variables.append(variable)
        return variable

    def pick(self) -> Variable:
        """A variable, later ones more often."""
        low = max(0, len(self.variables) - 5) if self.rng.random() < 0.6 else 0
        return self.rng.choice(self.variables[low:])

    def pick_with(self, shape: Shape) -> Variable:
        """A variable that broadcasts with a shape; a new leaf when there is none."""
        fitting = [v for v in self.variables if _broadcast(v.shape, shape) is not None]
        if fitting and self.rng.random() < 0.8:
            return self.rng.choice(fitting)
        kept = [n if self.rng.random() < 0.7 else 1 for n in shape]
        return self.leaf(tuple(kept[self.rng.randint(0, len(kept)) :]))

    def shape(self) -> Shape:
        rank = self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))
        sizes = (1, 2, 2, 3, 3, 4) if self.rng.random() < 0.85 else (0, 1, 5)
        return tuple(self.rng.choice(sizes) for _ in range(rank))

    def leaf(self, shape: Shape | None = None, dtype: str | None = None) -> Variable:
        shape = self.shape() if shape is None else shape
        floats, others = (FLOATS[:5], OTHERS) if self.complex else (FLOATS, OTHERS[:7])
        kinds = (FLOATS[:5],) if self.history else (floats, floats, others)
        dtype = dtype or self.rng.choice(self.rng.choice(kinds))
        count = int(np.prod(shape))
        values = [self.number(dtype) for _ in range(count)]
        floating = "float" in dtype or "complex" in dtype
        grad = ", requires_grad=True" if floating and self.rng.random() < 0.6 else ""
        made = self.new(
            f"torch.tensor({_nested(values, shape)}, dtype=torch.{dtype}{grad})"
            if count else f"torch.zeros({list(shape)}, dtype=torch.{dtype}{grad})",
            shape, dtype,
        )  # fmt: skip
        made.grad = bool(grad)
        if grad and self.rng.random() < 0.6:  # a leaf cannot be written to, its copy can
            return self.new(f"{made.name}.clone()", shape, dtype)
        return made

    def number(self, dtype: str) -> object:
        if dtype == "bool":
            return self.rng.random() < 0.5
        if "complex" in dtype:
            return complex(round(self.rng.uniform(-2, 2), 3), round(self.rng.uniform(-2, 2), 3))
        if "float" in dtype:
            return round(self.rng.uniform(-3, 3), 3)
        return self.rng.randint(0 if dtype == "uint8" else -4, 5)

    def scalar(self) -> str:
        numbers = ("2", "-1", "3", "0.5", "-1.5", "True", "1", "2.0")
        return self.rng.choice((*numbers, "1j") if self.complex else numbers)

    def dim(self, variable: Variable) -> int:
        rank = max(len(variable.shape), 1)
        return self.rng.randint(-rank, rank - 1)

    # Statements

    def unary(self) -> None:
        x = self.pick()
        self.new(f"{x.name}.{self.rng.choice(UNARY)}()", x.shape)

    def binary(self) -> None:
        x = self.pick()
        symbol = self.rng.choice(COMMON_OPERATORS if self.rng.random() < 0.6 else OPERATORS)
        if self.rng.random() < 0.35:
            sides = [x.name, self.scalar()]
            self.rng.shuffle(sides)
            self.new(f"{sides[0]} {symbol} {sides[1]}", x.shape)
            return
        y = self.pick_with(x.shape)
        shape = _broadcast(x.shape, y.shape) or x.shape
        if self.rng.random() < 0.6:
            self.new(f"{x.name} {symbol} {y.name}", shape)
        else:
            self.new(f"torch.{self.rng.choice(BINARY)}({x.name}, {y.name})", shape)

    def inplace(self) -> None:
        x = self.pick()
        guard = "with torch.no_grad(): " if self.rng.random() < 0.15 else ""
        if self.rng.random() < 0.3:
            self.statements.append(f"{guard}{x.name}.{self.rng.choice(INPLACE_UNARY)}()")
        elif self.rng.random() < 0.4:
            name = self.rng.choice(INPLACE_BINARY[:4])
            self.statements.append(f"{guard}{x.name}.{name}({self.scalar()})")
        else:
            y = self.pick_with(x.shape)
            name = self.rng.choice(INPLACE_BINARY[:5] * 3 + INPLACE_BINARY)
            self.statements.append(f"{guard}{x.name}.{name}({y.name})")

    def view(self) -> None:
        x = self.pick()
        makers = (self._transposed, self._reshaped, self._sliced, self._sliced, self._expanded,
                  self._unsqueezed, self._squeezed, self._windowed, self._picked)  # fmt: skip
        expression, shape = self.rng.choice(makers)(x)
        self.new(f"{x.name}{expression}", shape)

    def _transposed(self, x: Variable) -> tuple[str, Shape]:
        rank = len(x.shape)
        order = list(range(rank))
        self.rng.shuffle(order)
        if rank == 2 and self.rng.random() < 0.5:
            return self.rng.choice((".t()", ".T", ".mT")), x.shape[::-1]
        if rank >= 2 and self.rng.random() < 0.3:
            shape = list(x.shape)
            shape[0], shape[-1] = shape[-1], shape[0]
            return ".transpose(0, -1)", tuple(shape)
        return f".permute({order})", tuple(x.shape[k] for k in order)

    def _reshaped(self, x: Variable) -> tuple[str, Shape]:
        name = self.rng.choice(("reshape", "view"))
        count = int(np.prod(x.shape))
        divisors = [d for d in range(1, count + 1) if count % d == 0]
        if not divisors or self.rng.random() < 0.3:
            return ".flatten()", (count,)
        first = self.rng.choice(divisors)
        if self.rng.random() < 0.4:
            return f".{name}({first}, -1)", (first, count // first)
        return f".{name}({first}, {count // first})", (first, count // first)

    def _sliced(self, x: Variable) -> tuple[str, Shape]:
        text = ", ".join(self._slice(n) for n in x.shape[: self.rng.randint(1, 3)]) or "..."
        return f"[{text}]", _indexed(x.shape, text)

    def _slice(self, size: int) -> str:
        choice = self.rng.random()
        if choice < 0.3 and size:
            return str(self.rng.randint(-size, size - 1))
        if choice < 0.5:
            return ":"
        start, stop = self.rng.randint(-size - 1, size + 1), self.rng.randint(-size - 1, size + 1)
        step = self.rng.choice(("", "", ":2", ":3"))
        return f"{start}:{stop if self.rng.random() < 0.5 else ''}{step}"

    def _expanded(self, x: Variable) -> tuple[str, Shape]:
        shape = tuple(self.rng.choice((2, 3)) if n == 1 else n for n in x.shape)
        if self.rng.random() < 0.5:
            shape = (2, *shape)
        return f".expand({list(shape)})", shape

    def _unsqueezed(self, x: Variable) -> tuple[str, Shape]:
        dim = self.rng.randint(0, len(x.shape))
        return f".unsqueeze({dim})", (*x.shape[:dim], 1, *x.shape[dim:])

    def _squeezed(self, x: Variable) -> tuple[str, Shape]:
        if self.rng.random() < 0.5:
            return ".squeeze()", tuple(n for n in x.shape if n != 1)
        dim = self.dim(x)
        shape = list(x.shape)
        if shape and shape[dim] == 1:
            del shape[dim]
        return f".squeeze({dim})", tuple(shape)

    def _windowed(self, x: Variable) -> tuple[str, Shape]:
        if len(x.shape) >= 2 and self.rng.random() < 0.5:
            offset = self.rng.randint(-1, 1)
            return f".diagonal({offset})", np.diagonal(np.empty(x.shape), offset).shape
        if x.shape and x.shape[-1] >= 2:
            n = x.shape[-1]
            if self.rng.random() < 0.5:
                return ".unfold(-1, 2, 1)", (*x.shape[:-1], n - 1, 2)
            return f".narrow(-1, 1, {n - 1})", (*x.shape[:-1], n - 1)
        return ".detach()", x.shape

    def _picked(self, x: Variable) -> tuple[str, Shape]:
        if not x.shape or x.shape[0] == 0:
            return ".view(-1)", (int(np.prod(x.shape)),)
        k = self.rng.randint(0, x.shape[0] - 1)
        half = -(-x.shape[0] // 2)
        return self.rng.choice((
            (f".unbind(0)[{k}]", x.shape[1:]),
            (f".select(0, {k})", x.shape[1:]),
            (".chunk(2)[0]", (half, *x.shape[1:])),
            (".split(1)[0]", (1, *x.shape[1:])),
            (".movedim(0, -1)", (*x.shape[1:], x.shape[0])),
        ))  # fmt: skip

    def _index_text(self, x: Variable) -> str:
        """Brackets of every kind: integers, slices, None, Ellipsis, lists, masks, tensors."""
        parts = []
        for n in x.shape[: self.rng.randint(0, len(x.shape))]:
            choice = self.rng.random()
            if choice < 0.3 and n:
                chosen = [self.rng.randint(-n, n - 1) for _ in range(2)]
                parts.append(f"torch.tensor({chosen})" if self.rng.random() < 0.5 else str(chosen))
            elif choice < 0.4:
                mask = [self.rng.random() < 0.6 for _ in range(n)]
                parts.append(f"torch.tensor({mask}, dtype=torch.bool)")
            else:
                parts.append(self._slice(n))
        for extra in ("None", "..."):
            if self.rng.random() < 0.2:
                parts.insert(self.rng.randint(0, len(parts)), extra)
        return ", ".join(parts) or self.rng.choice(("...", "None", "True", "()"))

    def index(self) -> None:
        x = self.pick()
        text = self._index_text(x)
        self.new(f"{x.name}[{text}]", _indexed(x.shape, text))

    def write(self) -> None:
        x = self.pick()
        text = self._index_text(x)
        shape = _indexed(x.shape, text)
        value = self.scalar() if self.rng.random() < 0.5 else self.pick_with(shape).name
        if "[" in text and value.startswith("v"):
            value += ".clone()"  # in which order values that lie in x are read is unspecified
        self.statements.append(f"{x.name}[{text}] = {value}")

    def reduce(self) -> None:
        x = self.pick()
        name = self.rng.choice(REDUCTIONS)
        if name != "logsumexp" and self.rng.random() < 0.3:
            self.new(f"{x.name}.{name}()", ())
            return
        dim = self.dim(x)
        keep = self.rng.random() < 0.4
        shape = list(x.shape)
        if shape:
            shape[dim] = 1
            if not keep:
                del shape[dim]
        named = "" if name == "count_nonzero" else f", keepdim={keep}"
        pair = name in ("max", "min", "median")
        tail = "[0]" if pair else ""
        self.new(f"{x.name}.{name}(dim={dim}{named}){tail}", tuple(shape))

    def along(self) -> None:
        x = self.pick()
        name = self.rng.choice(ALONG)
        tail = "[0]" if name in ("sort", "cummax", "cummin") else ""
        stable = ", stable=True" if name in ("sort", "argsort") else ""
        self.new(f"{x.name}.{name}(dim={self.dim(x)}{stable}){tail}", x.shape)

    def join(self) -> None:
        x = self.pick()
        y = self.pick_with(x.shape)
        if self.rng.random() < 0.5:
            self.new(f"torch.stack([{x.name}, {x.name}], 0)", (2, *x.shape))
        else:
            shape = (2 * x.shape[0], *x.shape[1:]) if x.shape else x.shape
            other = y.name if y.shape == x.shape else x.name
            self.new(f"torch.cat([{x.name}, {other}])", shape)

    def convert(self) -> None:
        x = self.pick()
        dtype = self.rng.choice(FLOATS[:5] + OTHERS[7:] if self.complex else FLOATS)
        self.new(f"{x.name}.to(torch.{dtype})", x.shape)

    def product(self) -> None:
        x = self.pick()
        if not x.shape:
            return
        n = x.shape[-1]
        columns = self.rng.randint(1, 3)
        y = (
            self.leaf((n, columns), x.dtype)
            if self.rng.random() < 0.7
            else self.leaf((n,), x.dtype)
        )
        self.new(f"{x.name} @ {y.name}", (*x.shape[:-1], *y.shape[1:]))

    def gathered(self) -> None:
        x = self.pick()
        if not x.shape or x.shape[0] == 0:
            return
        n = x.shape[0]
        index = [self.rng.randint(0, n - 1) for _ in range(3)]
        rest = x.shape[1:]
        mask = [self.rng.random() < 0.5 for _ in range(n)]
        column = f"torch.tensor({mask}).reshape({[n] + [1] * len(rest)})"
        wide = f"torch.tensor({index}).reshape({[3] + [1] * len(rest)}).expand({[3, *rest]})"
        expression, shape = self.rng.choice((
            (f"{x.name}.index_select(0, torch.tensor({index}))", (3, *rest)),
            (f"{x.name}.gather(0, {wide})", (3, *rest)),
            (f"torch.zeros_like({x.name}).scatter_add(0, {wide}, {x.name}.expand(-1, -1)[:3])"
             if len(rest) == 1 else f"{x.name}.take(torch.tensor({index}))",
             x.shape if len(rest) == 1 else (3,)),
            (f"{x.name}.masked_fill({column}, 0)", x.shape),
            (f"torch.where({column}, {x.name}, {x.name} * 2)", x.shape),
            (f"{x.name}.index_add(0, torch.tensor({index[:1]}), {x.name}[:1])", x.shape),
            # Which of equal elements is taken, and gets the gradient, is not specified.
            (f"{x.name}.detach().topk(1, dim=0)[0]", (1, *rest)),
        ))  # fmt: skip
        self.new(expression, shape)

    def special(self) -> None:
        x = self.pick()
        expression = self.rng.choice((
            f"{x.name}.clamp(-1, 1)", f"{x.name}.flip(0)", f"{x.name}.roll(1)",
            f"torch.triu({x.name})", f"{x.name}.repeat(2)", f"{x.name}.nonzero()",
            f"torch.zeros_like({x.name})", f"torch.full_like({x.name}, 2)",
            f"{x.name}.tolist()", f"{x.name}.numel()", f"{x.name}.item()",
            f"torch.einsum('i...->...', {x.name})", f"{x.name}.type(torch.float64)",
            f"torch.lerp({x.name}, {x.name}, 0.5)", f"torch.addcmul({x.name}, {x.name}, {x.name})",
        ))  # fmt: skip
        self.statements.append(f"w{len(self.statements)} = {expression}")

    def invalid(self) -> None:
        """Statements that are often, but not always, errors."""
        x, y = self.pick(), self.pick()
        self.statements.append(self.rng.choice((
            f"e{len(self.statements)} = {x.name} + {y.name}",
            f"e{len(self.statements)} = {x.name}.view(3)",
            f"e{len(self.statements)} = {x.name}[1, 1, 1]",
            f"e{len(self.statements)} = torch.cat([{x.name}, {y.name}])",
            f"e{len(self.statements)} = {x.name} @ {y.name}",
            f"{x.name}.add_({y.name})",
            f"{x.name}.requires_grad_()",
            f"e{len(self.statements)} = {x.name}.sum(1)",
            f"{x.name}.t_()",
            f"{x.name}.squeeze_(0)",
        )))  # fmt: skip

    def alias(self) -> None:
        """Writes through one of two views of the same memory."""
        x = self.pick()
        y = self.new(f"{x.name}.view({list(x.shape)})", x.shape)
        self.statements.append(f"{self.rng.choice((x, y)).name}.mul_({self.scalar()})")

    def differentiate(self) -> None:
        """A loss over what carries gradients, and its derivatives, sometimes of second order."""
        names = [v.name for v in self.variables]
        self.rng.shuffle(names)
        terms = " ".join(names[: self.rng.randint(1, 6)])
        self.statements.append(  # a name is missing where its statement raised
            f"kept = [globals()[n] for n in '{terms}'.split() if n in globals()]"
        )
        self.statements.append(
            "loss = sum((t.abs() * 0.5 if t.is_complex() else t * t * 0.25).double().sum() "
            "for t in kept if t.requires_grad)"
        )
        leaves = ", ".join(v.name for v in self.variables if v.grad)
        if leaves and self.rng.random() < 0.3:
            self.statements.append(
                f"grads = torch.autograd.grad(loss, [{leaves}], create_graph=True, "
                "allow_unused=True)"
            )
            self.statements.append(
                "sum(g.abs().double().sum() for g in grads if g is not None).backward()"
            )
        else:
            self.statements.append("loss.backward()")


def _nested(values: list[object], shape: Shape) -> object:
    if not shape:
        return values[0]
    step = len(values) // shape[0]
    return [_nested(values[k * step : (k + 1) * step], shape[1:]) for k in range(shape[0])]


def _broadcast(one: Shape, two: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(one, two)
    except ValueError:
        return None


class _AsNumPy:
    """Lets index text that names torch be evaluated with NumPy."""

    bool = np.bool_

    @staticmethod
    def tensor(values: object, dtype: object = None) -> np.ndarray:
        return np.array(values, dtype=dtype or int)


def _indexed(shape: Shape, text: str) -> Shape:
    """The shape that x[text] has, or x's own where NumPy refuses."""
    try:
        result = eval(f"x[{text}]", {"x": np.empty(shape, np.int8), "torch": _AsNumPy})
    except (IndexError, ValueError, TypeError):
        return shape
    return np.shape(result)


# From this seed on, half of the programs draw the statements of programs_model.py as well: what an
# earlier seed gives stays the same.
FIRST_WITH_MODELS = 1_000_000


def generate(rng: random.Random, length: int | None = None, with_models: bool = False) -> list[str]:
    """One program: a list of statements."""
    history = rng.random() < 0.3
    wide = rng.random() < 0.7
    complex = rng.random() < 0.4
    rare = rng.random() < 0.5
    mixed = wide and rng.random() < 0.6
    model = with_models and rng.random() < 0.5
    program = Generator(rng, history, wide, rare, mixed, model, complex).program(
        rng.randint(3, 14) if length is None else length
    )
    return [PRELUDE] * wide + [RARE_PRELUDE] * rare + [MODEL_PRELUDE] * model + program


def program_of(seed: int) -> list[str]:
    """The program that a seed stands for."""
    return generate(random.Random(seed), with_models=seed >= FIRST_WITH_MODELS)
