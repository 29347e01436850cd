"""Programs around autograd's Python side, torch.testing, checkpoint and pytrees, in both libraries.

Each collects texts and values in `seen`; what they raise is compared by type, and by message where
the program keeps it.
"""

from __future__ import annotations

import pytest
from compare import Comparison

# Gradients are compared by value: how often the engine has added to them is its own affair.
ATTEMPT = """
seen = []
def plain(value):
    if isinstance(value, torch.Tensor):
        return [value.detach().clone(), value.requires_grad]
    return [plain(item) for item in value] if isinstance(value, tuple) else repr(value)
def attempt(function, *args, **kwargs):
    try:
        seen.append(plain(function(*args, **kwargs)))
    except Exception as error:
        seen.append(type(error).__name__ + ': ' + str(error))
"""

CLOSE = """
T = torch.tensor
close = torch.testing.assert_close
for actual, expected, kwargs in [
    (T([1., 2., 3.]), T([1., 2., 4.]), {}), (T([1., 2.]), T([1., 2., 4.]), {}),
    (T([1.]), T([2]), {'check_dtype': False}), (T([1, 2]), T([1, 3]), {}),
    (T([True, False]), T([True, True]), {}), (T(1.), T(2.), {}), (T(1), T(2), {}), (1, 2, {}),
    (1., 1.5, {}), (1, 1., {}), (True, False, {}), (None, 1, {}), ('a', 'b', {}),
    (1 + 2j, 1 + 3j, {}), (T([nan]), T([nan]), {}), (T([nan]), T([nan]), {'equal_nan': True}),
    (T([inf, 1]), T([-inf, 1]), {}), (nan, nan, {}), ([T([1.]), T([2.])], [T([1.]), T([3.])], {}),
    ({'a': 1}, {'b': 1}, {}), ([1, 2], [1], {}), ((1,), [1], {}),
    ({'x': [1, {'y': 2}]}, {'x': [1, {'y': 3}]}, {}), (T([1.]), 1., {}),
    (T([1.], dtype=torch.bfloat16), T([1.1], dtype=torch.bfloat16), {}),
    (T([1 + 1j]), T([1 + 1.1j]), {}), (T([1.]), T([1.5]), {'rtol': 0, 'atol': 0}),
    (T([1.]), T([1.5]), {'rtol': 0.1}), (T([1.]), T([2.]), {'msg': 'custom'}),
    (torch.zeros(2, 3), torch.zeros(3, 2).t(), {'check_stride': True}),
    (torch.empty(0, 2), torch.empty(2, 0), {}), (T([0.]), T([1e-3]), {}), (T([1e-3]), T([0.]), {}),
    (T([1, 2], dtype=torch.uint8), T([1, 0], dtype=torch.uint8), {}), (inf, 1., {}),
    (T([2**62]), T([2**62 + 1]), {}), (5, 3, {'rtol': 0.1, 'atol': 1}), ([], [], {}),
    (T([nan, 1.]), T([1., 1.]), {}), (torch.Size([1]), torch.Size([2]), {}),
]:
    attempt(close, actual, expected, **kwargs)
seen = [text.replace('flambeau', 'torch') for text in seen]
"""

MAKE_TENSOR = """
for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
              torch.float32, torch.float64, torch.complex64, torch.complex128):
    for kwargs in ({}, {'low': 2, 'high': 5}, {'low': -100}, {'exclude_zero': True},
                   {'noncontiguous': True}, {'low': 5, 'high': 2}, {'requires_grad': True},
                   {'low': 1000, 'high': 2000}, {'low': nan}):
        torch.manual_seed(0)
        attempt(torch.testing.make_tensor, (3, 4), dtype=dtype, device='cpu', **kwargs)
"""

FUNCTIONAL = """
F = torch.autograd.functional
x, y = torch.tensor([1., 2.]), torch.tensor([3., 4.])
for kwargs in ({}, {'create_graph': True}, {'strict': True}):
    for f, inputs in ((lambda a: a**2, x), (lambda a, b: (a * b).sum(), (x, y)),
                      (lambda a, b: (a * b, b.sum()), (x, y)), (lambda a: torch.ones(2), x),
                      (lambda a, b: a * 2, (x, y)), (lambda a: (a**3).sum(), x),
                      (lambda a: a.sum(), x), (lambda a: a[0] * a[1], x)):
        v = tuple(t * 2 for t in inputs) if isinstance(inputs, tuple) else inputs * 2
        attempt(F.jacobian, f, inputs, **kwargs)
        attempt(F.vjp, f, inputs, **kwargs)
        attempt(F.jvp, f, inputs, v, **kwargs)
        attempt(F.hessian, f, inputs, **kwargs)
        attempt(F.vhp, f, inputs, v, **kwargs)
        attempt(F.hvp, f, inputs, v, **kwargs)
attempt(F.jacobian, lambda a: 3, x)
attempt(F.jacobian, lambda a: a, 3)
attempt(F.jvp, lambda a: a, x, torch.ones(3))
"""

GRAD = """
x = torch.ones(3, requires_grad=True)
z = torch.ones(3, requires_grad=True)
y = x * 2
grad = torch.autograd.grad
keep = {'retain_graph': True}
for args, kwargs in [
    ((y, x), {}), ((y.sum(), z), {'allow_unused': True}), ((y.sum(), [x, z]), {'materialize_grads':
    True}), ((y, x, torch.ones(2)), {}), ((y, x, torch.ones(3, dtype=torch.complex64)), {}),
    ((y, x, [3.0]), {}), (([y, y.sum()], x, [torch.ones(3), None]), {}), ((y.sum(), []), {}),
    (((x * (1 + 1j)).sum(), x), {}), ((y, x, torch.eye(3)), {'is_grads_batched': True}),
    ((y, x, torch.ones(3)), {'is_grads_batched': True}),
    ((y.sum(), z), {'allow_unused': False, 'materialize_grads': True}),
    ((torch.ones(3).sum(), x), {}), ((y.sum(), torch.ones(3)), {}),
]:
    attempt(grad, *args, **keep, **kwargs)
attempt(torch.autograd.backward, y)
attempt(torch.autograd.backward, y.sum(), inputs=[])
attempt(torch.autograd.backward, y, torch.ones(2))
attempt(y.sum().backward, create_graph=False)
attempt(torch.autograd.graph.get_gradient_edge, torch.ones(2))
seen = [s.partition('If you only')[0].strip() if isinstance(s, str) else s for s in seen]
"""

FUNCTIONS = """
Function = torch.autograd.Function
x = torch.ones(2, requires_grad=True)
def make(backward, forward=lambda ctx, a, b: a * 2):
    kind = type('Made', (Function,), {'forward': staticmethod(forward), 'backward':
    staticmethod(backward)}) return kind
for backward in (lambda ctx, g: g, lambda ctx, g: (g, 3), lambda ctx, g: (g, torch.ones(5)),
                 lambda ctx, g: (g, g, g), lambda ctx, g: (g, None, None), lambda ctx, g: 1 / 0,
                 lambda ctx, g: (g, g)):
    attempt(lambda: make(backward).apply(x, x).sum().backward())
for forward in (lambda ctx, a, b: 3, lambda ctx, a, b: None, lambda ctx, a, b: (a, 'text', None),
                lambda ctx, a, b: ctx.save_for_backward(a, 3), lambda ctx, a, b: (a > 0, a * 2),
                lambda ctx, a, b: ctx.mark_dirty(a) or a.mul_(2), lambda ctx, a, b: a.view(1, 2),
                lambda ctx, a, b: ctx.needs_input_grad):
    attempt(lambda: make(lambda ctx, *g: (g[0], None), forward).apply(x, 1))
    attempt(lambda: make(lambda ctx, *g: (g[0], None), forward).apply(x * 1, 1))
attempt(Function.forward, None)
attempt(Function.backward, None)
attempt(Function.jvp, None)
attempt(type('Empty', (Function,), {}).apply, x)
text = repr(make(lambda ctx, g: g).apply(x, x))
"""

PYTREE = """
import collections
import importlib
P = importlib.import_module(torch.__name__ + '.utils._pytree')
Point = collections.namedtuple('Point', 'x y')
tree = {'b': [1, (2, None)], 'a': Point(3, collections.OrderedDict(z=4)),
        'd': collections.deque([5], maxlen=3), 'e': collections.defaultdict(list, k=6)}
leaves, spec = P.tree_flatten(tree)
seen += [repr(leaves), repr(spec), str(P.tree_unflatten(leaves, spec) == tree),
         repr([spec.num_leaves, spec.num_nodes, spec.num_children])]
seen += [P.keystr(path) for path, _ in P.tree_flatten_with_path(tree)[0]]
attempt(P.tree_map, lambda a, b: 0, [1, 2], [1])
attempt(P.tree_map, lambda a, b: 0, [1, 2], (1, 2))
attempt(P.tree_map, lambda a, b: 0, {'a': 1}, {'b': 1})
attempt(P.tree_map, lambda a, b: (a, b), [1, 2], [[5, 6], 7])
attempt(P.tree_map_only, (int, str), lambda v: v * 2, [1, 'a', 2.0])
attempt(P.tree_unflatten, [1], spec)
attempt(P.tree_map, lambda v: v * 2, torch.max(torch.tensor([[1, 3]]), 1))
"""

CHECKPOINT = """
checkpoint = torch.utils.checkpoint.checkpoint
def block(a):
    return torch.nn.functional.dropout(a.sin(), 0.5).exp()
grads = []
for use_reentrant in (True, False):
    x = torch.linspace(0, 1, 8).requires_grad_()
    torch.manual_seed(1)
    y = checkpoint(block, x, use_reentrant=use_reentrant)
    y.sum().backward()
    grads.append(x.grad)
    attempt(lambda: checkpoint(block, x, use_reentrant=use_reentrant, k=3))
    attempt(lambda: torch.autograd.grad(checkpoint(torch.sin, x, use_reentrant=use_reentrant).sum(),
    x))
"""

PROGRAMS = {
    "assert_close": CLOSE,
    "make_tensor": MAKE_TENSOR,
    "functional": FUNCTIONAL,
    "grad": GRAD,
    "functions": FUNCTIONS,
    "pytree": PYTREE,
    "checkpoint": CHECKPOINT,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str, comparison: Comparison) -> None:
    text = comparison.difference([ATTEMPT, PROGRAMS[name]])
    assert text is None, text
