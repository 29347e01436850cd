"""Trains small models for 100 steps and prints their losses: `training.py torch|flambeau DTYPE`.

One seed makes the data, the initial weights, the batches and the dropout masks, so the losses of
two libraries that draw the same numbers differ by rounding alone.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

torch: Any = importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else "flambeau")
nn, F = torch.nn, torch.nn.functional
STEPS = 100


class Cnn(nn.Module):
    """Convolutions with batch normalization, pooling and dropout, for images of 16 x 16."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.GELU(),
            nn.Dropout2d(0.2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.3),
            nn.Linear(128, 10),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.body(x)


class Lstm(nn.Module):
    """Two layers of LSTM with dropout between them, over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 24)
        self.lstm = nn.LSTM(24, 32, num_layers=2, dropout=0.25, batch_first=True)
        self.head = nn.Linear(32, 30)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(self.embedding(x))[0])


class Transformer(nn.Module):
    """An encoder with a causal mask and dropout, over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 32)
        self.place = nn.Parameter(torch.randn(12, 32) * 0.02)
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(32), enable_nested_tensor=False)
        self.head = nn.Linear(32, 30)

    def forward(self, x: Any) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=self.place.dtype)
        return self.head(self.encoder(self.embedding(x) + self.place, mask=mask, is_causal=True))


def images() -> Iterator[tuple[Any, Any]]:
    x = torch.randn(256, 3, 16, 16, dtype=torch.float64)
    y = (x.mean((1, 2, 3)) * 60).long().clamp(-5, 4) + 5
    data = torch.utils.data.TensorDataset(x, y)
    while True:
        yield from torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)


def tokens() -> Iterator[tuple[Any, Any]]:
    text = (torch.arange(2000) * 7 % 30 + torch.randint(0, 3, (2000,))) % 30
    while True:
        start = torch.randint(0, 2000 - 13, (16,)).tolist()
        rows = torch.stack([text[i : i + 13] for i in start])
        yield rows[:, :-1], rows[:, 1:]


def momentum(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)


def adam(model: Any) -> Any:
    return torch.optim.Adam(model.parameters(), lr=3e-3)


def adamw(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[Any], Any]]] = {
    "CNN": (Cnn, images, momentum),
    "LSTM": (Lstm, tokens, adam),
    "Transformer": (Transformer, tokens, adamw),
}


def train(name: str, dtype: str) -> list[float]:
    """The loss of each step."""
    make, batches, optimizer_of = MODELS[name]
    torch.manual_seed(1234)
    model = make().to(getattr(torch, dtype))
    optimizer = optimizer_of(model)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-2, total_steps=STEPS)
    losses = []
    for _, (x, y) in zip(range(STEPS), batches()):
        logits = model(x.to(getattr(torch, dtype)) if x.is_floating_point() else x)
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten(), label_smoothing=0.05)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({name: train(name, sys.argv[2]) for name in MODELS}))
