"""Training that can be ended at any moment and goes on where its snapshot is.

    from wattfold.training import Training

    training = Training(epochs=90)
    training.keep(model=model, optimizer=optimizer)
    for epoch in training:
        for batch, target in training.steps(loader):
            ...
            training.note(loss.item())

Needs the standard library alone; takes PyTorch, numpy and anything with a state as they come, and
works without Wattfold as well.
"""

from wattfold.training.loop import Training
from wattfold.training.reports import Epoch
from wattfold.training.snapshots import SnapshotError

__all__ = ["Epoch", "SnapshotError", "Training"]
