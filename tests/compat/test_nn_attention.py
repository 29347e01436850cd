"""Attention and Transformers give PyTorch's numbers, names, draws and errors."""

from __future__ import annotations

import pytest
from compare import Comparison
from test_nn_and_optim import STATE, check

QKV = [
    "D = torch.float64",
    "q = torch.randn(2, 4, 5, 6, dtype=D).requires_grad_()",
    "k = torch.randn(2, 4, 7, 6, dtype=D).requires_grad_()",
    "v = torch.randn(2, 4, 7, 6, dtype=D).requires_grad_()",
    "k2, v2 = k.detach()[:, :2].clone(), v.detach()[:, 2:].clone()",
    "b = torch.rand(5, 7) > 0.4",
    "b[2] = False",
    "f = torch.randn(2, 1, 5, 7, dtype=D)",
    "f[0, 0, 1] = -inf",
]
LOSS = ["(y * y).sum().backward()", "y = y.detach()", "after = torch.rand(2)"]


@pytest.mark.parametrize(
    "arguments",
    [
        "q, k, v", "q, k, v, is_causal=True", "q, k, v, b", "q, k, v, f", "q, k, v, scale=0.3",
        "q, k, v, b[:, :1]", "q, k, v, f[:1, :, :1]", "q, k, v, dropout_p=0.4",
        "q, k, v, b, dropout_p=0.4", "q, k2, v2, enable_gqa=True",
        "q, k2, v2, f, enable_gqa=True, scale=2.0", "q, k[:1], v", "q[0], k[0], v[0], b",
        "q[0, 0], k[0, 0], v[0, 0]", "q, k, v[..., :3]", "q[:, :, :0], k, v", "q[:0], k[:0], v[:0]",
        "q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), b",
        "q.transpose(1, 2), k.transpose(1, 2)[:, :, :4], v.transpose(1, 2)[:, :, :4]",
        "q, k, v, torch.zeros(5, 7, dtype=torch.bool)", "q, k[:, :, :0], v[:, :, :0]",
        "q, k, v, f.clone().requires_grad_()",
    ],
)  # fmt: skip
def test_scaled_dot_product_attention(arguments: str, comparison: Comparison) -> None:
    check(comparison, *QKV, f"y = F.scaled_dot_product_attention({arguments})", *LOSS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("causal", [True, False])
def test_attention_over_several_blocks(dtype: str, causal: bool, comparison: Comparison) -> None:
    check(
        comparison,
        f"q, k, v = (torch.randn(1, 200, 2, 16).to(torch.{dtype}).transpose(1, 2)"
        ".requires_grad_() for _ in range(3))",
        f"y = F.scaled_dot_product_attention(q, k, v, is_causal={causal})",
        "y.float().sin().sum().backward()", "y = y.detach()",
        "grads = [x.grad for x in (q, k, v)]", "del q, k, v",
    )  # fmt: skip


@pytest.mark.parametrize(
    "statement",
    [
        "S(q, q, q, is_causal=True, attn_mask=torch.ones(4, 4))", "S(r(4), r(4), r(4))",
        "S(q, q.double(), q)", "S(q, q, q, dropout_p=1.5)", "S(q, q, q, torch.ones(4, 4).int())",
        "S(q, q, q, torch.ones(4, 4).double())", "S(q, r(2, 2, 4, 8), r(2, 2, 4, 8))",
        "S(q, r(2, 2, 4, 8), r(2, 2, 4, 8), enable_gqa=True)", "S(q, r(2, 3, 4, 7), q)",
        "S(q, q, q, torch.ones(5, 4).bool())", "S(q.int(), q.int(), q.int())", "S(q, q, q, 1)",
        "M(8, 3)", "M(0, 1)", "M(8, 2)(q, q, q)", "M(8, 2)(w[..., :4], w, w)",
        "M(8, 2)(w, r(4, 2, 8), w)", "M(8, 2)(w, w, w, attn_mask=torch.zeros(2, 2))",
        "M(8, 2)(w, w, w, attn_mask=torch.zeros(3, 2, 2))", "M(8, 2)(w, w, w, is_causal=True)",
        "M(8, 2)(w, w, w, is_causal=True, need_weights=False)",
        "M(8, 2)(w, w, w, key_padding_mask=torch.zeros(3, 3).bool())",
        "M(8, 2)(w, w, w, attn_mask=torch.zeros(3, 3).long())",
        "nn.TransformerEncoderLayer(8, 2, activation='x')",
        "nn.Transformer(8, 2, 1, 1, 16)(w, w[:, :1])",
        "nn.Transformer(8, 2, 1, 1, 16)(w[..., :7], w[..., :7])",
        "nn.TransformerEncoderLayer(8, 2)(r(3, 3, 2, 8))",
        "nn.TransformerEncoderLayer(8, 2)(w, src_mask=torch.zeros(4, 4))",
    ],
)  # fmt: skip
def test_errors(statement: str, comparison: Comparison) -> None:
    check(
        comparison, "r = torch.randn", "q, w = r(2, 3, 4, 8), r(3, 2, 8)",
        "S, M = F.scaled_dot_product_attention, nn.MultiheadAttention", statement,
    )  # fmt: skip


ATTENTIONS = [
    "8, 2", "8, 4, dropout=0.3", "8, 2, bias=False", "8, 2, add_bias_kv=True",
    "8, 2, add_zero_attn=True", "8, 2, kdim=3, vdim=5", "8, 2, 0.2, kdim=3, vdim=5, bias=False",
    "8, 1, add_bias_kv=True, add_zero_attn=True, batch_first=True",
]  # fmt: skip
CALLS = [
    "", "need_weights=False", "average_attn_weights=False", "key_padding_mask=p",
    "attn_mask=b", "attn_mask=f", "attn_mask=f, key_padding_mask=p", "attn_mask=b3",
    "attn_mask=f, is_causal=True", "attn_mask=f, need_weights=False",
    "attn_mask=f, need_weights=False, is_causal=True", "key_padding_mask=p, need_weights=False",
    "key_padding_mask=p.double() * -3.0, attn_mask=f, need_weights=False",
]  # fmt: skip


@pytest.mark.parametrize("arguments", ATTENTIONS)
def test_multihead_attention(arguments: str, comparison: Comparison) -> None:
    for call in CALLS:
        for training in (True, False):
            check(
                comparison, f"m = nn.MultiheadAttention({arguments})", "text = repr(m)",
                "start = dict(m.state_dict())", STATE, f"m = m.double().train({training})",
                "q = torch.randn(4, 4, 8).double().requires_grad_()",
                "k = torch.randn(4, 4, m.kdim).double().requires_grad_()",
                "v = torch.randn(4, 4, m.vdim).double().requires_grad_()",
                "p = torch.rand(4, 4) > 0.7", "p[:, 0] = False", "b = torch.rand(4, 4) > 0.7",
                "f = nn.Transformer.generate_square_subsequent_mask(4).double()",
                "b3 = torch.rand(4 * m.num_heads, 4, 4) > 0.7", "b3[..., 1] = False",
                "b[:, 0] = False", f"y, w = m(q, k, v, {call})", "(y * y).sum().backward()",
                "y = y.detach()", "w = None if w is None else w.detach()",
                "grads = [x.grad for x in m.parameters()]", "after = torch.rand(2)",
            )  # fmt: skip


@pytest.mark.parametrize(
    "module",
    [
        "TransformerEncoderLayer(8, 2, 16)",
        "TransformerEncoderLayer(8, 2, 16, 0.3, 'gelu', norm_first=True, batch_first=True)",
        "TransformerEncoderLayer(8, 2, 16, activation=nn.SiLU(), bias=False)",
        "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)",
        "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, nn.LayerNorm(8))",
    ],
)  # fmt: skip
@pytest.mark.parametrize("training", [True, False])
def test_encoders(module: str, training: bool, comparison: Comparison) -> None:
    for call in ("x", "x, mask", "x, None, p", "x, mask, p", "x, mask, is_causal=True"):
        check(
            comparison, f"m = nn.{module}", "text = repr(m)", "start = dict(m.state_dict())", STATE,
            f"m = m.double().train({training})",
            "mask = nn.Transformer.generate_square_subsequent_mask(4).double()",
            "p = torch.zeros(4, 4)", "p[1, 2:] = -inf", "p = p.double()",
            "x = torch.randn(4, 4, 8).double().requires_grad_()",
            f"y = m({call})", "(y * y * y).sum().backward()", "y = y.detach()",
            "grads = [q.grad for q in m.parameters()]", "after = torch.rand(2)",
        )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    ["", ", norm_first=True, bias=False", ", batch_first=True, activation='gelu', dropout=0.0"],
)
@pytest.mark.parametrize("training", [True, False])
def test_transformers(options: str, training: bool, comparison: Comparison) -> None:
    for call in (
        "",
        "tgt_mask=mask",
        "tgt_mask=mask, tgt_is_causal=True, memory_mask=mask * 0.5",
        "src_key_padding_mask=p, memory_key_padding_mask=p, tgt_key_padding_mask=p",
    ):
        check(
            comparison, f"m = nn.Transformer(8, 2, 1, 2, 16{options})", "text = repr(m)",
            "start = dict(m.state_dict())", STATE, f"m = m.double().train({training})",
            "mask = nn.Transformer.generate_square_subsequent_mask(4).double()",
            "p = torch.zeros(4, 4).bool()", "p[1, 2:] = True",
            "x = torch.randn(4, 4, 8).double().requires_grad_()",
            "z = torch.randn(4, 4, 8).double().requires_grad_()",
            f"y = m(x, z, {call})", "(y * y * y).sum().backward()", "y = y.detach()",
            "grads = [q.grad for q in m.parameters()]", "after = torch.rand(2)",
        )  # fmt: skip


@pytest.mark.parametrize("padding", ["p[:, 2:] = True", "p[0, 3] = True", "p[1, 0] = True"])
@pytest.mark.parametrize("norm", ["None", "nn.LayerNorm(8)"])
def test_encoders_leave_padding_out_of_evaluation(
    padding: str, norm: str, comparison: Comparison
) -> None:
    check(
        comparison,
        "layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)",
        f"m = nn.TransformerEncoder(layer, 2, {norm}).eval()",
        "p = torch.zeros(3, 4).bool()", padding, "x = torch.randn(3, 4, 8)",
        "with torch.no_grad(): y = m(x, src_key_padding_mask=p)",
        "with torch.no_grad(): w = m(x)",
    )  # fmt: skip


MODS = {
    "causal": "lambda b, h, q, k: q >= k",
    "window": "X.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k <= 2)",
    "heads": "X.or_masks(lambda b, h, q, k: h == 0, lambda b, h, q, k: (q + b) % 2 == k % 2)",
}


@pytest.mark.parametrize("mod", MODS)
def test_flex_attention(mod: str, comparison: Comparison) -> None:
    check(
        comparison,
        "X = importlib.import_module(torch.__name__ + '.nn.attention.flex_attention')",
        f"mod = {MODS[mod]}", "dense = X.create_mask(mod, 2, 4, 5, 7, device='cpu').contiguous()",
        "m = X.create_block_mask(mod, 2, 4, 5, 7, device='cpu', BLOCK_SIZE=4)",
        "parts = [m.shape, m.kv_num_blocks, m.full_kv_num_blocks, m.q_num_blocks]",
        "blocks = [m.to_dense(), m.sparsity(), m.numel(), m.BLOCK_SIZE, m.seq_lengths]",
        "q = torch.randn(2, 4, 5, 8)", "k, v = torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 8)",
        "slopes = torch.rand(4)", "bias = lambda s, b, h, q, k: s + slopes[h] * (k - q)",
        "y = X.flex_attention(q, k, v, block_mask=m)",
        "z, lse = X.flex_attention(q, k, v, bias, m, 0.5, return_lse=True)",
        "g = X.flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True)",
    )  # fmt: skip
