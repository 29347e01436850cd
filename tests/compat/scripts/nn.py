# ruff: noqa
# fmt: off
# Modules: initial weights for a seed, forward, registration, state, hooks, printing.
nn = torch.nn
torch.manual_seed(0)
layers = [nn.Linear(3, 2).weight, nn.Linear(3, 2).bias, nn.Conv2d(2, 3, 3).weight, nn.Conv2d(2, 3, 3, groups=1, bias=False).weight, nn.BatchNorm2d(3).weight, nn.Linear(2, 2, dtype=torch.float64).weight, nn.Embedding(4, 3).weight, nn.Bilinear(2, 3, 2).weight]
init = [nn.init.xavier_uniform_(torch.empty(3, 4)), nn.init.xavier_normal_(torch.empty(3, 4)), nn.init.kaiming_uniform_(torch.empty(3, 4)), nn.init.kaiming_normal_(torch.empty(3, 4), nonlinearity="relu"), nn.init.uniform_(torch.empty(3)), nn.init.normal_(torch.empty(3), 1.0, 2.0), nn.init.constant_(torch.empty(2), 3.0), nn.init.zeros_(torch.empty(2)), nn.init.ones_(torch.empty(2)), nn.init.eye_(torch.empty(2, 3)), nn.init.trunc_normal_(torch.empty(5)), nn.init.calculate_gain("relu"), nn.init.calculate_gain("leaky_relu", 0.2), nn.init.dirac_(torch.empty(2, 2, 3)), nn.init.xavier_uniform_(torch.empty(4, 3, 2, 2), gain=2.0)]
# %%
nn = torch.nn
torch.manual_seed(1)
m = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(16, 3))
x = torch.randn(2, 1, 4, 4)
text = repr(m)
y = m(x)
loss = nn.CrossEntropyLoss()(y, torch.tensor([0, 2]))
loss.backward()
grads = [p.grad for p in m.parameters()]
keys = [list(m.state_dict()), [n for n, _ in m.named_parameters()], [n for n, _ in m.named_modules()], [n for n, _ in m.named_children()], [n for n, _ in m.named_buffers()], len(list(m.modules())), len(m), m[0].kernel_size, type(m[-1]).__name__]
stats = [m[1].running_mean, m[1].running_var, m[1].num_batches_tracked]
m.eval()
ev = [m(x), m.training, m[4].training, m[1].training]
m.train()
tr = m[4].training
m.zero_grad()
zg = [p.grad for p in m.parameters()]
m.requires_grad_(False)
rg = [p.requires_grad for p in m.parameters()]
m.double()
dt = [str(p.dtype) for p in m.parameters()]
m.to(torch.float32)
dt2 = [str(m[0].weight.dtype), str(m[1].num_batches_tracked.dtype)]
sd = m.state_dict()
n = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(16, 3))
r = str(n.load_state_dict(sd))
eq = torch.equal(n[0].weight, m[0].weight)
bad = n.load_state_dict({})
part = str(n.load_state_dict({}, strict=False))[:60]
wrong = n.load_state_dict({**sd, "0.weight": torch.zeros(1)})
# %%
nn = torch.nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.w = nn.Parameter(torch.ones(2))
        self.register_buffer("b", torch.zeros(2))
        self.register_buffer("c", torch.zeros(1), persistent=False)
        self.register_parameter("none", None)
        self.items = nn.ModuleList([nn.ReLU(), nn.Linear(2, 1)])
        self.named = nn.ModuleDict({"x": nn.Tanh(), "y": nn.Sigmoid()})
        self.params = nn.ParameterList([torch.zeros(1), torch.ones(2)])
        self.plain = 5
    def forward(self, x, scale=1):
        return self.items[1](self.items[0](self.a(x) * self.w)) * scale
net = Net()
names = [[n for n, _ in net.named_parameters()], list(net.state_dict()), [n for n, _ in net.named_buffers()], [n for n, _ in net.named_modules()], net.plain, net.none, sum(p.numel() for p in net.parameters()), "a" in dir(net), [n for n, _ in net.named_parameters(recurse=False)]]
text = repr(net)
log = []
h1 = net.register_forward_pre_hook(lambda m, a: log.append(("pre", len(a))))
h2 = net.register_forward_hook(lambda m, a, o: log.append(("post", tuple(o.shape))))
h3 = net.a.register_full_backward_hook(lambda m, gi, go: log.append(("back", len(gi), tuple(go[0].shape))))
out = net(torch.ones(3, 2), scale=2).shape
net(torch.ones(3, 2).requires_grad_()).sum().backward()
h1.remove()
h2.remove()
h3.remove()
net(torch.ones(3, 2))
count = len(log)
net.apply(lambda m: log.append(type(m).__name__))
net.b = torch.ones(2)
b = net.state_dict()["b"]
del net.w
gone = [n for n, _ in net.named_parameters()]
net.a = None
err = net.missing
net.zzz = nn.Linear(1, 1)
kids = [n for n, _ in net.named_children()]
sub = net.get_submodule("items.1").out_features
par = net.get_parameter("params.0").shape
net.a = 3
p = net.params
pl = [len(p), p[1], repr(p)[:40]]
net.register_buffer("x.y", torch.zeros(1))
net.register_parameter("plain", nn.Parameter(torch.zeros(1)))
torch.nn.Module()(1)
ex = nn.Linear(2, 2, device="meta").weight.device
sq = nn.Sequential(nn.ReLU(), nn.Tanh())
sq.append(nn.Sigmoid())
sl = [len(sq), repr(sq[1:]), type(sq[0]).__name__, [type(m).__name__ for m in sq]]
ml = nn.ModuleList([nn.ReLU()])
ml.extend([nn.Tanh()])
ml.insert(0, nn.Sigmoid())
mr = repr(ml)
idn = [nn.Identity()(5), nn.Flatten()(torch.zeros(2, 3, 4)).shape, nn.Unflatten(1, (2, 2))(torch.zeros(1, 4)).shape]
# %%
nn = torch.nn
torch.manual_seed(3)
x = torch.randn(4, 3)
t = torch.tensor([0, 2, 1, 1])
losses = [nn.CrossEntropyLoss()(x, t), nn.CrossEntropyLoss(reduction="sum")(x, t), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))(x, t), nn.CrossEntropyLoss(label_smoothing=0.1)(x, t), nn.NLLLoss()(x.log_softmax(1), t), nn.MSELoss()(x, x * 2), nn.L1Loss()(x, x * 2), nn.SmoothL1Loss()(x, x * 2), nn.HuberLoss()(x, x * 3), nn.BCEWithLogitsLoss()(x, (x > 0).float()), nn.BCELoss()(x.sigmoid(), (x > 0).float()), nn.KLDivLoss(reduction="batchmean")(x.log_softmax(1), x.softmax(1)), nn.CosineEmbeddingLoss()(x, x.flip(0), torch.ones(4)), nn.MarginRankingLoss()(x[:, 0], x[:, 1], torch.ones(4)), nn.TripletMarginLoss()(x, x.flip(0), x.roll(1, 0))]
acts = [nn.ReLU()(x), nn.GELU()(x), nn.SiLU()(x), nn.Tanh()(x), nn.Sigmoid()(x), nn.LeakyReLU(0.2)(x), nn.ELU()(x), nn.Softplus()(x), nn.Softmax(1)(x), nn.LogSoftmax(dim=1)(x), nn.Hardtanh()(x), nn.ReLU6()(x), nn.PReLU()(x), nn.Mish()(x), nn.Hardswish()(x), nn.Softsign()(x)]
torch.manual_seed(4)
drop = [nn.Dropout(0.5)(x), nn.Dropout(0.3)(x), torch.nn.functional.dropout(x, 0.2), nn.Dropout(0.5).eval()(x)]
norms = [nn.LayerNorm(3)(x), nn.BatchNorm1d(3)(x), nn.BatchNorm1d(3).eval()(x), nn.GroupNorm(1, 3)(x), nn.LayerNorm(3, elementwise_affine=False)(x), nn.Embedding(5, 2)(t).shape, nn.AvgPool2d(2)(torch.ones(1, 1, 4, 4)), nn.AdaptiveAvgPool2d(1)(torch.ones(1, 2, 3, 3)), nn.MaxPool2d(2, stride=1, padding=1)(x[None]), nn.ZeroPad2d(1)(x[None]).shape]
reprs = [repr(nn.Linear(2, 3)), repr(nn.Conv2d(1, 2, 3, stride=2, padding=1, bias=False)), repr(nn.BatchNorm2d(4)), repr(nn.Dropout(0.1)), repr(nn.MaxPool2d(2)), repr(nn.LayerNorm(4)), repr(nn.Embedding(3, 4)), repr(nn.CrossEntropyLoss()), repr(nn.GELU()), repr(nn.LeakyReLU(0.2)), repr(nn.Flatten()), repr(nn.Softmax(dim=1)), repr(nn.ReLU(inplace=True)), repr(nn.Parameter(torch.zeros(2))), repr(nn.Sequential()), repr(nn.ModuleList()), repr(nn.AdaptiveAvgPool2d((1, 1)))]
