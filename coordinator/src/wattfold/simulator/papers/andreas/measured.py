"""Jobs and nodes that the authors of ANDREAS measured on the cluster of the paper (ARMIDA).

They are published with the code of the successors of the paper, in the files
build/data/data_server.csv and GPU-cost_server_4-2.csv of the repository
ai-sprint-eu-project/GPUScheduler (Apache-2.0). The files contain the time per epoch on one or two
V100 and on one T4, and the power of a whole node by its GPUs at work. No job runs on more GPUs than
were measured, so at most on two V100 or one T4 in either scenario. GPU limits were not measured.

A node is charged its power while it has jobs. 360 W (V100) or 330 W (T4) of it are for everything
except its GPUs, including unused GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

from wattfold.coordinator.models.training import EpochTime
from wattfold.simulator.engine.machines.node_machine import GpuWatts
from wattfold.simulator.papers.andreas.profiles import T4, V100

HOST_W = {V100: 360.0, T4: 330.0}
GPUS = {
    V100: GpuWatts(model=V100, min_w=170, max_w=170, idle_w=0),
    T4: GpuWatts(model=T4, min_w=70, max_w=70, idle_w=0),
}
"""Power that each GPU in use adds to its node."""
EPOCHS = (120, 160, 320)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredApplication:
    """An application, with the seconds of an epoch on one V100, on two V100, and on one T4."""

    app: str
    batch: int
    one_s: float
    two_s: float
    t4_s: float

    @property
    def times(self) -> tuple[EpochTime, ...]:
        """Epoch times in the form for plans."""
        known = ((V100, 1, self.one_s), (V100, 2, self.two_s), (T4, 1, self.t4_s))
        return tuple(
            EpochTime(gpu_model=model, gpus=gpus, seconds=seconds) for model, gpus, seconds in known
        )


LSTM_BIG = MeasuredApplication(
    app="LSTM-big", batch=8192, one_s=43.0842, two_s=30.5512, t4_s=110.7112
)
LSTM_SMALL = MeasuredApplication(
    app="LSTM-small", batch=8192, one_s=43.0261, two_s=30.5871, t4_s=110.6581
)
EFFICIENT = MeasuredApplication(
    app="EfficientNet", batch=4096, one_s=51.6221, two_s=41.2372, t4_s=88.9881
)
CONV = MeasuredApplication(app="ConvNet", batch=8192, one_s=20.5382, two_s=17.8042, t4_s=41.2582)
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
"""Jobs in the draw of the authors' generator, with their epochs."""
MOST_GPUS = 2
"""Maximum GPUs of a job, which determines the arrival rate, whatever the nodes have."""
