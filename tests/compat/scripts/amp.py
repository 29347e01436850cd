# ruff: noqa
# fmt: off
# Mixed precision: the dtype of each op's result under autocast, gradients, and GradScaler.
torch.manual_seed(0)
x, w = torch.randn(2, 3), torch.randn(3, 3)
v = torch.randn(2, 3, 8, 8)
F = torch.nn.functional
def dtypes(dtype=torch.bfloat16, **kwargs):
    with torch.autocast("cpu", dtype=dtype, **kwargs):
        h = x @ w
        found = [h, x.mm(w), F.linear(x, w), torch.matmul(x, w), F.conv2d(v, torch.ones(3, 3, 3, 3)), torch.addmm(x, x, w), torch.bmm(v[0], v[0]), h + x, h + h, F.relu(h), F.softmax(h, -1), F.mse_loss(h, h), F.cross_entropy(h, torch.tensor([0, 1])), h.prod(), torch.cat([h, x]), torch.stack([h, h]), x.double() @ w.double(), h.sum(), h.exp(), F.layer_norm(h, (3,)), F.gelu(h), torch.einsum("ij,jk->ik", x, w), torch.ones(2).long() + 1, F.binary_cross_entropy_with_logits(h, h.sigmoid()), F.l1_loss(h, h), h * 2.0, h.mean(), h.float() @ w]
    return [t.dtype for t in found]
low = dtypes()
half = dtypes(torch.float16)
off = dtypes(enabled=False)
both = [low, half, off]
flags = []
def look():
    flags.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cpu_enabled(), torch.is_autocast_cache_enabled()))
look()
with torch.autocast("cpu"):
    look()
    with torch.autocast("cpu", enabled=False):
        look()
        inner = (x @ w).dtype
    look()
look()
seen = list(flags)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
torch.manual_seed(1)
for p in net.parameters():
    torch.nn.init.normal_(p)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = net(x)
    loss = F.cross_entropy(y, torch.tensor([0, 1]))
loss.backward()
grads = [y.dtype, loss.dtype, net[0].weight.grad.dtype, net[0].weight.grad, net[2].bias.grad]
@torch.autocast("cpu")
def f(a):
    return a @ w
deco = f(x).dtype
e1 = torch.autocast("nowhere")
e2 = torch.autocast(3)
s = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
p = torch.nn.Parameter(torch.ones(2))
o = torch.optim.SGD([p], lr=0.1)
e3 = s.step(o)
def step(factor):
    o.zero_grad()
    s.scale((p * factor).sum()).backward()
    g = p.grad.clone()
    s.unscale_(o)
    u = p.grad.clone()
    r = s.step(o)
    s.update()
    return g, u, r, p.detach().clone(), s.get_scale(), s._get_growth_tracker()
steps = [step(1.0), step(2.0), step(float("inf")), step(1.0), step(1.0)]
state = s.state_dict()
t = torch.amp.GradScaler("cpu")
t.load_state_dict(state)
again = [t.get_scale(), t.state_dict(), s.is_enabled(), s.get_growth_factor(), s.get_backoff_factor(), s.get_growth_interval()]
d = torch.amp.GradScaler("cpu", enabled=False)
none = [d.scale(p.sum()), d.get_scale(), d.state_dict(), d.is_enabled()]
e4 = torch.amp.GradScaler("cpu", growth_factor=0.5)
s.update(32.0)
new = s.get_scale()
class Square(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a @ a, 
    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        return g @ a.t() + a.t() @ g
with torch.autocast("cpu"):
    q = w.clone().requires_grad_()
    r = Square.apply(q)[0]
cust = [r.dtype]
