"""Random programs that are compared statement by statement, and in everything a program can see.

    python statements.py draw SEED COUNT                 programs, a JSON list of statements a line
    python statements.py run flambeau|torch < programs   what came of them, a line each
    python statements.py compare ORACLE SEED COUNT       both, and how they differ

After each statement every tensor is described: dtype, shape, strides, offset, version, whether it
wants a gradient and is a leaf, its history's name, its values and its gradient; of a statement that
raises, the kind of error. The programs are drawn by running them here, so that most statements fit.
"""

from __future__ import annotations

import importlib
import json
import math
import random
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

CREATIONS = (
    "torch.arange({n}.).reshape({shape}) / 4 - 1",
    "torch.arange({n}).reshape({shape}) - 2",
    "torch.arange({n}, dtype=torch.float64).reshape({shape}).sin()",
    "torch.arange({n}).reshape({shape}) % 3 == 0",
    "torch.linspace(-1, 1, {n}).reshape({shape}).requires_grad_()",
    "torch.ones({shape}, requires_grad=True)",
    "torch.zeros({shape})",
    "torch.full({shape}, 0.5)",
    "torch.eye(3)[:2]",
    "torch.empty(0, 3)",
    "torch.tensor([[1.5, -2.0], [0.25, 3.0]])",
    "torch.arange({n}.).reshape({shape}).half() / 8",
    "torch.complex(torch.arange({n}.), torch.ones({n})).reshape({shape})",
)
VIEWS = (
    "{x}[0]", "{x}[..., 0]", "{x}[1:]", "{x}[:, 1:]", "{x}[::2]", "{x}[None]", "{x}[..., None]",
    "{x}.t()", "{x}.T", "{x}.mT", "{x}.transpose(0, -1)", "{x}.reshape(-1)", "{x}.view(-1)",
    "{x}.flatten()", "{x}.unsqueeze({d})", "{x}.squeeze()", "{x}.squeeze(0)", "{x}.permute(1, 0)",
    "{x}.narrow({d}, 0, 1)", "{x}.select({d}, -1)", "{x}.diagonal()", "{x}.expand(2, *{x}.shape)",
    "{x}.movedim(0, -1)", "{x}.detach()", "{x}.data", "{x}.view_as({x})", "{x}.chunk(2, {d})[0]",
    "{x}.split(1, {d})[-1]", "{x}.unbind({d})[0]", "{x}.as_strided((2,), (1,))", "{x}.real",
    "{x}.unfold({d}, 1, 1)", "{x}.swapaxes(0, 1)", "{x}.contiguous()",
    "torch.atleast_2d({x})", "torch.atleast_3d({x})", "{x}.expand_as({x})", "{x}.view({x}.dtype)",
    "{x}.tensor_split(2, {d})[1]", "{x}.unflatten(0, (-1, 1))", "{x}.imag", "{x}.conj()",
    "torch.broadcast_to({x}, (2, *{x}.shape))", "{x}.adjoint()",
)  # fmt: skip
FRESH = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / 2", "{x} * 0.5", "2 - {x}", "{x} ** 2", "-{x}",
    "{x} + 1", "{x}.clone()", "{x}.float()", "{x}.double()", "{x}.long()", "{x}.bool()",
    "{x}.to(torch.int32)", "{f}.exp()", "{f}.sin()", "{f}.tanh()", "{f}.sigmoid()", "{x}.abs()",
    "{x}.relu()", "torch.maximum({x}, {y})", "torch.where({x} > 0, {x}, {y})", "{x}.clamp(-1, 1)",
    "{x}.sum()", "{x}.sum({d})", "{x}.sum({d}, keepdim=True)", "{f}.mean({d})", "{f}.var({d})",
    "{x}.max()", "{x}.max({d}).values", "{x}.max({d}).indices", "{x}.amax({d})", "{x}.argmax({d})",
    "{x}.cumsum({d})", "{f}.softmax({d})", "{f}.log_softmax({d})", "{f}.logsumexp({d})",
    "{x}.prod({d})", "{x}.any({d})", "{x}.all()", "{f}.norm()", "{f}.std()", "{x}.sort({d}).values",
    "{x}.sort({d}).indices", "{x}.topk(1, {d}).values", "{x}.flip({d})", "{x}.roll(1, {d})",
    "torch.cat([{x}, {y}], {d})", "torch.stack([{x}, {y}])", "{x}.repeat(2, 1)", "{x}.tril()",
    "{x}.triu(1)", "{x} @ {x}.mT", "torch.matmul({x}, {x}.mT)",
    "torch.einsum('ij,kj->ik', {x}, {x})",
    "torch.einsum('ij->ji', {x})", "torch.einsum('ij,ij->i', {x}, {x})",
    "torch.outer({x}[0], {x}[0])",
    "{x}.gather({d}, torch.zeros_like({x}, dtype=torch.long))",
    "{x}.index_select({d}, torch.tensor([0, 0]))",
    "{x}[torch.tensor([0, 0])]", "{x}[{x} > 0]", "{x}.masked_fill({x} > 0, 2)", "{x}.nonzero()",
    "{x} > {y}", "{x} == {y}", "{x}.eq(1)", "~({x} > 0)", "torch.zeros_like({x})",
    "torch.ones_like({x})",
    "torch.full_like({x}, 2)", "{x}.new_zeros(2)", "{x}.type_as({y})", "{x}.square()", "{f}.sqrt()",
    "{f}.log1p()", "{x}.floor_divide(2)", "{x} % 2", "torch.lerp({f}, {f}, 0.3)",
    "torch.addcmul({x}, {x}, {y})",
    "torch.nn.functional.pad({x}, (1, 1))", "torch.nn.functional.gelu({f})",
    "torch.nn.functional.layer_norm({f}, {f}.shape[-1:])",
    "torch.nn.functional.mse_loss({f}, {f} * 2)", "torch.nn.functional.normalize({f}, dim=-1)",
    "torch.nn.functional.linear({f}, {f})", "{x}.select_scatter({x}[0] * 2, 0, 0)", "{x}.diff()",
    "torch.cumprod({x}, {d})", "torch.logcumsumexp({f}, {d})", "torch.kron({x}, {x})",
    "{x}.unique()",
    "torch.tensordot({x}, {x}, 0)", "{x}.index_add({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1))",
    "{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.long), 1)", "torch.linalg.vector_norm({f})",
    "{x}.isnan()", "{x}.sign()", "{f}.round()", "{x}.count_nonzero()", "{x}.mode({d}).values",
    "{x}.median()",
    "{x}.cummax({d}).values", "torch.addmm({f}, {f}, {f}.mT)", "torch.hstack([{x}, {y}])",
    "{x}.repeat_interleave(2)",
    "torch.meshgrid({x}.flatten(), {y}.flatten(), indexing='ij')[0]", "{x}.kthvalue(1, {d}).values",
    "torch.renorm({f}, 2, 0, 1)",
    "torch.quantile({f}, 0.5)", "{x}.take(torch.tensor([0, 1]))", "torch.cdist({f}, {f})",
    "{x}.trace()",
)  # fmt: skip
WRITES = (
    "{x}.add_({y})", "{x}.mul_(2)", "{x}.sub_(1)", "{x}.zero_()", "{x}.fill_(1)", "{x}.copy_({y})",
    "{x}.neg_()", "{x}.exp_()", "{x}.clamp_(-1, 1)", "{x}.relu_()", "{x}.div_(2)", "{x}.pow_(2)",
    "{x}[0] = 1", "{x}[0] = {x}[-1]", "{x}[..., 0] = 2", "{x}[{x} > 0] = 0", "{x}[:] = {y}",
    "{x} += {y}", "{x} *= 2", "{x} -= 0.5", "{x}[0] += 1", "{x}[..., -1] *= 2", "{x}.t_()",
    "{x}.transpose_(0, 1)",
    "{x}.unsqueeze_(0)", "{x}.squeeze_()", "{x}.masked_fill_({x} > 0, -1)", "{x}.tril_()",
    "{x}.triu_()",
    "{x}.index_fill_({d}, torch.tensor([0]), 3)",
    "{x}.index_add_({d}, torch.tensor([0]), {x}.narrow({d}, 0, 1).clone())",
    "{x}.scatter_({d}, torch.zeros_like({x}, dtype=torch.long), 1)",
    "{x}.scatter_reduce_({d}, torch.zeros_like({x}, dtype=torch.long), {x}.clone(), 'sum')",
    "{x}.put_(torch.tensor([0]), {x}.flatten()[:1].clone())",
    "{x}.index_put_((torch.tensor([0]),), {x}[:1].clone())",
    "{x}.cumsum_({d})", "{x}.sigmoid_()", "{x}.detach_()", "{x}.requires_grad_()",
    "{x}.data = {x}.data * 2",
    "{x}.data.add_(1)", "{x}.resize_(1, 1)", "{x}.set_({y})", "{x}.swapaxes_(0, 1)", "{x}.round_()",
    "{x}.floor_()",
    "{x}.addcmul_({y}, {y})", "{x}.lerp_({y}, 0.5)", "{x}.fill_diagonal_(1)", "{x}.logical_not_()",
    "{x}.as_strided_((2,), (1,))",
    "torch.mul({x}, 2, out={y})", "torch.sum({x}, 0, out={y})", "torch.exp({f}, out={y})",
    "torch.matmul({x}, {x}.mT, out={y})", "torch.cat([{x}, {x}], out={y})",
    "torch.clamp({x}, 0, 1, out={y})", "torch.cumsum({x}, 0, out={y})",
    "{x}.copy_({x}.flip(0))", "{x}.masked_scatter_({x} > 0, {y})", "{x}.renorm_(2, 0, 1)",
    "{x}.eq_(1)", "{x}.abs_()", "{x}.sqrt_()",
)  # fmt: skip
PASSES = (
    "{x}.sum().backward()", "{x}.backward(torch.ones_like({x}))", "({x} * {x}).sum().backward()",
    "{x}.mean().backward(retain_graph=True)",
    "g{k} = torch.autograd.grad({x}.sum(), {y}, allow_unused=True)[0]",
    "g{k} = torch.autograd.grad(({x} * {y}).sum(), {y}, create_graph=True, allow_unused=True)[0]",
    "{x}.grad = None", "{x}.grad.zero_()", "{x}.retain_grad()", "g{k} = {x}.grad",
    "{x}.sum().backward(inputs=[{y}])",
    "g{k} = torch.func.grad(lambda t: (t * t).sum())({f})",
    "g{k} = torch.func.vmap(lambda t: t * 2)({x})",
)  # fmt: skip
MODES = ("with torch.no_grad(): ", "with torch.no_grad(): ", "with torch.enable_grad(): ")
# Writes to what this mode has made are refused after they have been done, or before.
INFERENCE = "with torch.inference_mode(): "


class Drawer:
    """Draws a program, running it as it goes."""

    def __init__(self, seed: int, lib: Any) -> None:
        self.rng, self.lib = random.Random(seed), lib
        self.names: dict[str, Any] = {"torch": lib}
        self.statements: list[str] = []

    def tensors(self) -> list[str]:
        return [n for n, v in self.names.items() if n[0] in "vg" and isinstance(v, self.lib.Tensor)]

    def fill(self, template: str) -> str:
        names = self.tensors()
        x = self.rng.choice(names)
        tensor = self.names[x]
        like = [n for n in names if self.names[n].shape == tensor.shape]
        near = [n for n in like if self.names[n].dtype == tensor.dtype] or like
        floats = [n for n in names if self.names[n].is_floating_point()] or names
        y = self.rng.choice(near if self.rng.random() < 0.7 else like)
        if self.rng.random() < 0.1:
            y = self.rng.choice(names)
        d = self.rng.choice([0, -1, max(tensor.dim() - 1, 0), 1])
        f = self.rng.choice(floats)
        shape = self.rng.choice([(2, 3), (3, 2), (4,), (3, 4), (2, 2, 2), (1, 3), (3, 3), ()])
        if "out=" in template and self.share_memory(y, x, f):
            template = "{x}.add_({y})"  # what reads what it writes is up to the order
        return template.format(
            x=x, y=y, f=f, d=d, k=len(self.statements), shape=shape, n=math.prod(shape)
        )

    def share_memory(self, *names: str) -> bool:
        storages = [self.names[n].untyped_storage().data_ptr() for n in names]
        return storages[0] in storages[1:]

    def step(self) -> None:
        roll = self.rng.random()
        k = len(self.statements)
        if not self.tensors() or roll < 0.12:
            shape = self.rng.choice([(2, 3), (3, 2), (4,), (3, 4), (2, 2, 2), (1, 3), (3, 3), ()])
            made = self.rng.choice(CREATIONS)
            text = f"v{k} = " + made.format(shape=shape, n=math.prod(shape))
        elif roll < 0.3:
            text = f"v{k} = " + self.fill(self.rng.choice(VIEWS))
        elif roll < 0.6:
            text = f"v{k} = " + self.fill(self.rng.choice(FRESH))
        elif roll < 0.85:
            text = self.fill(self.rng.choice(WRITES))
        else:
            text = self.fill(self.rng.choice(PASSES))
        if self.rng.random() < 0.12:
            text = self.rng.choice(MODES) + text
        elif self.rng.random() < 0.004:
            text = INFERENCE + text
        self.statements.append(text)
        failed = bool(execute(text, self.names))
        large = any(self.names[n].numel() > 200 for n in self.tensors())
        if large or (failed and self.rng.random() < 0.6):
            self.statements.pop()  # most of what cannot be done says little
            if large:
                self.names.pop(f"v{k}", None)


def execute(statement: str, names: dict[str, Any]) -> str:
    """The kind of error that a statement raises, if any."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(statement, names)
        except Exception as error:
            return type(error).__name__
    return ""


def draw(seed: int, lib: Any) -> list[str]:
    drawer = Drawer(seed, lib)
    for _ in range(drawer.rng.randint(10, 40)):
        drawer.step()
    return drawer.statements


# --- What a program can see ----------------------------------------------------------------------


def numbers(tensor: Any) -> list[Any]:
    flat = tensor.detach().resolve_conj().resolve_neg().reshape(-1).tolist()
    pairs = [[v.real, v.imag] if isinstance(v, complex) else v for v in flat]
    return json.loads(json.dumps(pairs, default=str))


def version(tensor: Any) -> Any:
    try:
        return tensor._version
    except RuntimeError:
        return "RuntimeError"


def seen(tensor: Any, inside: bool = False) -> dict[str, Any]:
    """A tensor as a program sees it."""
    dtype = str(tensor.dtype).split(".")[-1]
    answer = {"dtype": dtype, "shape": list(tensor.shape), "stride": list(tensor.stride())}
    answer |= {"wants": tensor.requires_grad, "leaf": tensor.is_leaf}
    if not inside:
        answer |= {"offset": tensor.storage_offset(), "version": version(tensor)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer["grad"] = None if tensor.grad is None else seen(tensor.grad, True)
    answer["values"] = numbers(tensor)
    return answer


def run(statements: list[str], lib: Any) -> list[Any]:
    """After each statement: its error, and all tensors that have changed."""
    names: dict[str, Any] = {"torch": lib}
    answers, before = [], {}
    for statement in statements:
        error = execute(statement, names)
        now = {}
        for name in [n for n in names if re.fullmatch(r"[vg]\d+", n)]:
            value = names[name]
            if isinstance(value, lib.Tensor):
                try:
                    now[name] = seen(value)
                except Exception as failure:
                    now[name] = {"unreadable": type(failure).__name__}
        answers.append([error, {n: v for n, v in now.items() if before.get(n) != v}])
        before = now
    return answers


# --- Comparing -----------------------------------------------------------------------------------

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}


def near(a: Any, b: Any, limit: float) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(near(x, y, limit) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b):
            return str(a) == str(b)
        return abs(a - b) <= limit * max(1.0, abs(a), abs(b))
    return bool(a == b)


def differs(ours: Any, theirs: Any) -> str:
    """The first thing in which two descriptions differ, in words."""
    if ours is None or theirs is None or "unreadable" in ours or "unreadable" in theirs:
        return "" if ours == theirs else f"{str(ours)[:90]} | {str(theirs)[:90]}"
    for key in theirs:
        if key == "values":
            if not near(ours[key], theirs[key], TOLERANCE.get(theirs["dtype"], 1e-9)):
                return f"values {str(ours[key])[:80]} | {str(theirs[key])[:80]}"
        elif key == "grad":
            text = differs(ours[key], theirs[key])
            if text:
                return "grad " + text
        elif ours[key] != theirs[key]:
            return f"{key} {ours[key]} | {theirs[key]}"
    return ""


def first_difference(ours: list[Any], theirs: list[Any]) -> tuple[int, str] | None:
    """The first statement after which the two differ, and how."""
    seen_here: dict[str, Any] = {}
    seen_there: dict[str, Any] = {}
    for number, (one, other) in enumerate(zip(ours, theirs)):
        if one[0] != other[0]:
            return number, f"error {one[0] or 'none'} | {other[0] or 'none'}"
        seen_here |= one[1]
        seen_there |= other[1]
        for name in {**one[1], **other[1]}:
            text = differs(seen_here.get(name), seen_there.get(name))
            if text:
                return number, f"{name}: {text}"
    return None


def ask(python: str, lib: str, programs: list[list[str]]) -> list[Any]:
    """The answers of a library, in a process of its own."""
    lines = "".join(json.dumps(p) + "\n" for p in programs)
    command = [python, str(Path(__file__)), "run", lib]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(programs), f"{lib} died: {done.stderr[-500:]} {len(answers)}"
    return answers


def compare(oracle: str, first: int, count: int) -> list[tuple[int, list[str], int, str]]:
    """Programs that differ: seed, statements, the number of the statement, how."""
    lib = importlib.import_module("flambeau")
    programs = [draw(seed, lib) for seed in range(first, first + count)]
    theirs, ours = ask(oracle, "torch", programs), ask(sys.executable, "flambeau", programs)
    found = []
    for k, program in enumerate(programs):
        text = first_difference(ours[k], theirs[k])
        if text:
            found.append((first + k, program, *text))
    return found


def main() -> None:
    if sys.argv[1] == "run":
        lib = importlib.import_module(sys.argv[2])
        lib.set_num_threads(1)
        for line in sys.stdin:
            print(json.dumps(run(json.loads(line), lib)), flush=True)
        return
    if sys.argv[1] == "draw":
        lib = importlib.import_module("flambeau")
        for seed in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
            print(json.dumps(draw(seed, lib)))
        return
    first, count = int(sys.argv[3]), int(sys.argv[4])
    found = compare(sys.argv[2], first, count)
    for seed, program, number, text in found:
        print(f"{seed:6} {number:3} {program[number]:60} {text}")
    kinds = Counter(re.sub(r"^\w+: ", "", text).split(" ")[0] for *_, text in found)
    print(f"{count - len(found)} of {count} programs agree; {dict(kinds)}")


if __name__ == "__main__":
    main()
