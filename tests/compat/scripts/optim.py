# ruff: noqa
# fmt: off
# Optimizers: steps with every option, parameter groups, state, schedulers.
torch.manual_seed(0)
start = torch.randn(4)
def run(make, steps=5):
    p = torch.nn.Parameter(start.clone())
    o = make([p])
    for k in range(steps):
        o.zero_grad()
        ((p - 1) ** 2 * torch.arange(1.0, 5.0)).sum().backward()
        o.step()
    return p.detach()
O = torch.optim
sgd = [run(lambda p: O.SGD(p, lr=0.01)), run(lambda p: O.SGD(p, 0.01, momentum=0.9)), run(lambda p: O.SGD(p, lr=0.01, momentum=0.9, nesterov=True)), run(lambda p: O.SGD(p, lr=0.01, weight_decay=0.1)), run(lambda p: O.SGD(p, lr=0.01, momentum=0.9, dampening=0.5)), run(lambda p: O.SGD(p, lr=0.01, maximize=True)), run(lambda p: O.SGD(p))]
adam = [run(lambda p: O.Adam(p)), run(lambda p: O.Adam(p, lr=0.1, betas=(0.8, 0.9))), run(lambda p: O.Adam(p, weight_decay=0.1)), run(lambda p: O.Adam(p, amsgrad=True)), run(lambda p: O.Adam(p, eps=1e-3)), run(lambda p: O.Adam(p, maximize=True)), run(lambda p: O.AdamW(p, lr=0.1)), run(lambda p: O.AdamW(p, weight_decay=0.5, amsgrad=True)), run(lambda p: O.Adam(p, foreach=False)), run(lambda p: O.Adam(p, lr=torch.tensor(0.1)))]
p = torch.nn.Parameter(start.clone())
q = torch.nn.Parameter(start.clone())
o = O.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1, momentum=0.9)
groups = [len(o.param_groups), o.param_groups[0]["lr"], o.param_groups[1]["lr"], sorted(o.param_groups[0]), o.defaults["momentum"]]
(p * q).sum().backward()
o.step()
pq = [p, q]
sd = o.state_dict()
keys = [sorted(sd), sorted(sd["state"]), sorted(sd["state"][0]), sd["param_groups"][1]["params"]]
o2 = O.SGD([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1, momentum=0.9)
o2.load_state_dict(sd)
same = torch.equal(o2.state[p]["momentum_buffer"], o.state[p]["momentum_buffer"])
text = repr(o)
loss = o.step(lambda: torch.tensor(3.0))
o.zero_grad()
none = p.grad
(p * 2).sum().backward()
o.zero_grad(set_to_none=False)
zero = p.grad
o.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
n = len(o.param_groups)
e1 = O.SGD([p], lr=-1)
e2 = O.SGD([], lr=0.1)
e3 = O.SGD([torch.zeros(1).exp_().requires_grad_() * 2], lr=0.1)
e4 = O.SGD([3], lr=0.1)
e5 = O.Adam([p], betas=(1.5, 0.9))
e6 = O.SGD([p], lr=0.1, nesterov=True)
e7 = o.add_param_group({"params": [p]})
a = O.Adam([p])
(p * 2).sum().backward()
a.step()
st = [sorted(a.state[p]), a.state[p]["step"], a.state_dict()["param_groups"][0]["betas"]]
# %%
p = torch.nn.Parameter(torch.zeros(1))
def rates(make, n=8):
    o = torch.optim.SGD([p], lr=1.0)
    s = make(o)
    out = []
    for _ in range(n):
        out.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    return out
L = torch.optim.lr_scheduler
sched = [rates(lambda o: L.StepLR(o, 2, 0.5)), rates(lambda o: L.ExponentialLR(o, 0.9)), rates(lambda o: L.CosineAnnealingLR(o, 5)), rates(lambda o: L.MultiStepLR(o, [2, 4])), rates(lambda o: L.LambdaLR(o, lambda e: 1 / (e + 1))), rates(lambda o: L.LinearLR(o)), rates(lambda o: L.OneCycleLR(o, 1.0, total_steps=10))]
