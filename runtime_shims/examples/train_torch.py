#!/usr/bin/env python3
"""Training of a small LSTM to predict the next byte of a text, with PyTorch (1.13 or newer).

    python train_torch.py --epochs 20 --text some.txt --out losses.txt
    wattfold submit --gpus 1 --epochs 20 --resize restart -- python train_torch.py --text some.txt

As in train_numpy.py, the losses do not depend on the number of restarts.
"""

import argparse
import hashlib
from pathlib import Path

import torch
from torch import nn

from wattfold.training import Training

LENGTH, BATCH, WIDTH = 32, 16, 32


class NextByte(nn.Module):
    """LSTM that predicts the probabilities of the next byte from the bytes so far."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(WIDTH, 256)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return logits, one row per byte."""
        hidden, _ = self.lstm(self.embed(text))
        return self.out(self.drop(hidden))


def train(training: Training, text: bytes, device: str) -> tuple[list[float], str]:
    """Return the loss of every epoch, and a digest of the weights."""
    torch.manual_seed(1)
    count = len(text) // (LENGTH + 1)
    rows = torch.tensor(list(text[: count * (LENGTH + 1)])).view(count, LENGTH + 1)
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(rows), batch_size=BATCH, shuffle=True
    )
    model = NextByte().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    training.keep(model=model, optimizer=optimizer)
    for _ in training:
        for (batch,) in training.steps(loader):
            guess = model(batch[:, :-1].to(device))
            wanted = batch[:, 1:].to(device)
            loss = nn.functional.cross_entropy(guess.reshape(-1, 256), wanted.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.note(loss.item(), len(batch))
    losses = [epoch.loss for epoch in training.history if epoch.loss is not None]
    digest = hashlib.sha256()
    for weights in model.state_dict().values():
        digest.update(weights.cpu().numpy().tobytes())
    return losses, digest.hexdigest()


def main() -> None:
    """Train with the options of the command line."""
    options = argparse.ArgumentParser(
        description="Train a small network to predict the next byte of a text."
    )
    options.add_argument(
        "--epochs", type=int, help="Number of epochs. Default: the variable WATTFOLD_EPOCHS."
    )
    options.add_argument(
        "--text",
        type=Path,
        default=Path(__file__),
        metavar="FILE",
        help="Text to learn from. Default: this program.",
    )
    options.add_argument(
        "--out",
        type=Path,
        default=Path("losses.txt"),
        metavar="FILE",
        help="File for the losses and a digest of the weights. Default: losses.txt.",
    )
    given = options.parse_args()
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    losses, digest = train(Training(given.epochs), given.text.read_bytes(), device)
    given.out.write_text("".join(f"{loss!r}\n" for loss in losses) + f"weights {digest}\n")


if __name__ == "__main__":
    main()
