# ruff: noqa
# fmt: off
# Averages of weights, and Muon.
S = torch.optim.swa_utils
def fresh():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    for i, p in enumerate(net.parameters()):
        torch.nn.init.constant_(p, 0.1 * (i + 1))
    return net
def averaged(**kwargs):
    net = fresh()
    a = S.AveragedModel(net, **kwargs)
    for i in range(4):
        for p in net.parameters():
            p.data += i
        net(torch.arange(8.0).view(4, 2))
        a.update_parameters(net)
    return {k: v.clone() for k, v in a.state_dict().items()}
runs = [averaged(), averaged(use_buffers=True), averaged(avg_fn=S.get_ema_avg_fn(0.9)), averaged(multi_avg_fn=S.get_ema_multi_avg_fn(0.9)), averaged(avg_fn=S.get_swa_avg_fn()), averaged(avg_fn=lambda a, p, n: (a + p) / 2)]
net = fresh()
S.update_bn([torch.arange(8.0).view(4, 2), (torch.ones(4, 2), 0)], net)
bn = {k: v.clone() for k, v in net.state_dict().items()}
def rates(n=7, **kwargs):
    o = torch.optim.SGD(fresh().parameters(), lr=1.0)
    s = S.SWALR(o, **kwargs)
    out = []
    for _ in range(n):
        out.append(round(o.param_groups[0]["lr"], 6))
        o.step()
        s.step()
    return out, s.get_last_lr()[0] > 0
swalr = [rates(swa_lr=0.1), rates(swa_lr=0.1, anneal_epochs=4, anneal_strategy="linear"), rates(swa_lr=[0.2], anneal_epochs=0), rates(swa_lr=2.0, anneal_epochs=3)]
o = torch.optim.SGD(fresh().parameters(), lr=1.0)
e1 = S.SWALR(o, 0.1, anneal_strategy="x")
e2 = S.SWALR(o, 0.1, anneal_epochs=-1)
e3 = S.get_ema_avg_fn(1.5)
e4 = S.AveragedModel(net, avg_fn=S.get_swa_avg_fn(), multi_avg_fn=S.get_swa_multi_avg_fn())
def muon(shape, **kwargs):
    q = torch.nn.Parameter(torch.arange(6.0).view(shape) + 1)
    o = torch.optim.Muon([q], lr=0.1, **kwargs)
    for i in range(3):
        q.grad = torch.sin(q.data * (i + 1))
        o.step()
    return (q.detach() * 100).round(), list(o.state[q])
muons = [muon((2, 3)), muon((3, 2)), muon((2, 3), nesterov=False), muon((2, 3), weight_decay=0), muon((3, 2), adjust_lr_fn="match_rms_adamw"), muon((2, 3), ns_steps=3)]
e5 = torch.optim.Muon([torch.nn.Parameter(torch.ones(3))])
e6 = torch.optim.Muon([torch.nn.Parameter(torch.ones(3, 3))], adjust_lr_fn="x")
