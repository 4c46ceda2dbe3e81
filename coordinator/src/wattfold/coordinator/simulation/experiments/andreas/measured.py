"""Jobs and nodes that the authors of ANDREAS measured on the cluster of the paper (ARMIDA).

They are published with the code of the successors of the paper (the repository
ai-sprint-eu-project/GPUScheduler, Apache-2.0; build/data/data_server.csv and
GPU-cost_server_4-2.csv): time per epoch on one or two V100 and on one T4, and the watts of a whole
node with so many GPUs at work. No job runs on more GPUs than were measured, so two V100 or one T4
at most in either scenario; limits of GPUs were not tried.

A node is charged its watts while it has jobs, with 360 W (V100) or 330 W (T4) of them for all but
its GPUs; those that are not used are part of that.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.models.training import EpochTime
from wattfold.coordinator.simulation.experiments.andreas.profiles import T4, V100
from wattfold.coordinator.simulation.pool.node_machine import GpuWatts

HOST_W = {V100: 360.0, T4: 330.0}
GPUS = {
    V100: GpuWatts(model=V100, min_w=170, max_w=170, idle_w=0),
    T4: GpuWatts(model=T4, min_w=70, max_w=70, idle_w=0),
}
"""What each GPU in use adds to its node."""
EPOCHS = (120, 160, 320)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """An application. Seconds of an epoch on one V100, on two, and on one T4."""

    app: str
    batch: int
    one_s: float
    two_s: float
    t4_s: float

    @property
    def times(self) -> tuple[EpochTime, ...]:
        """As plans want them."""
        known = ((V100, 1, self.one_s), (V100, 2, self.two_s), (T4, 1, self.t4_s))
        return tuple(
            EpochTime(gpu_model=model, gpus=gpus, seconds=seconds) for model, gpus, seconds in known
        )


LSTM_BIG = Measured(app="LSTM-big", batch=8192, one_s=43.0842, two_s=30.5512, t4_s=110.7112)
LSTM_SMALL = Measured(app="LSTM-small", batch=8192, one_s=43.0261, two_s=30.5871, t4_s=110.6581)
EFFICIENT = Measured(app="EfficientNet", batch=4096, one_s=51.6221, two_s=41.2372, t4_s=88.9881)
CONV = Measured(app="ConvNet", batch=8192, one_s=20.5382, two_s=17.8042, t4_s=41.2582)
APPLICATIONS = (LSTM_BIG, LSTM_SMALL, EFFICIENT, CONV)

JOBS = (
    (LSTM_BIG, 120),
    (LSTM_SMALL, 120),
    (EFFICIENT, 120),
    (LSTM_BIG, 160),
    (LSTM_SMALL, 160),
    (EFFICIENT, 160),
    (LSTM_BIG, 320),
    (LSTM_SMALL, 320),
    (CONV, 320),
    (CONV, 160),
)
"""Those among which the generator of the authors draws, with their epochs."""
MOST_GPUS = 2
"""Of a job; the rate of arrivals goes by it, whatever nodes have."""
