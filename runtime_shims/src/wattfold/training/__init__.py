"""Training loop that can be stopped at any moment and resumes from its snapshot.

    from wattfold.training import Training

    training = Training(epochs=90)
    training.keep(model=model, optimizer=optimizer)
    for epoch in training:
        for batch, target in training.steps(loader):
            ...
            training.note(loss.item())

It needs only the standard library. It supports PyTorch, numpy and any object with a state, and also
works without Wattfold.
"""

from wattfold.training.loop import Training
from wattfold.training.reports import Epoch
from wattfold.training.snapshots import SnapshotError

__all__ = ["Epoch", "SnapshotError", "Training"]
