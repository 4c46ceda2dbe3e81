"""GPU numbers as jobs see them, and the physics of emulated GPUs."""

from __future__ import annotations

import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from wattfold.nodeagent.core.gpu_emulation import MODELS
from wattfold.nodeagent.core.gpus import (
    DeviceNode,
    GpuNames,
    GpuVendor,
    NodeGpu,
    common_model,
    foreign_devices,
    gpu_environment,
    model_word,
)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("Quadro RTX 6000", "RTX6000"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX1080"),
        ("NVIDIA L40S", "L40S"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("Intel(R) Data Center GPU Max 1550", "Max1550"),
        ("NVIDIA GB300", "GB300"),
        ("Graphics Device", ""),
        ("", ""),
    ],
)
def test_a_model_is_one_word(name: str, word: str) -> None:
    assert model_word(name) == word


def gpus(vendor: GpuVendor, *ids: str) -> tuple[NodeGpu, ...]:
    return tuple(
        NodeGpu(
            id=name,
            vendor=vendor,
            index=index,
            model="V100",
            devices=(DeviceNode(major=195, minor=index),),
        )
        for index, name in enumerate(ids)
    )


NVIDIA = gpus(GpuVendor.NVIDIA, "GPU-a", "GPU-b", "GPU-c")
AMD = gpus(GpuVendor.AMD, "GPU-7", "GPU-8")
INTEL = gpus(GpuVendor.INTEL, "GPU-pci-1", "GPU-pci-2")


@pytest.mark.parametrize(
    ("there", "own", "names", "told"),
    [
        (NVIDIA, ("GPU-c", "GPU-a"), GpuNames.UUID, {"CUDA_VISIBLE_DEVICES": "GPU-c,GPU-a"}),
        (
            NVIDIA,
            ("GPU-c", "GPU-a"),
            GpuNames.INDEX,
            {"CUDA_VISIBLE_DEVICES": "2,0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        ),
        (NVIDIA, (), GpuNames.UUID, {"CUDA_VISIBLE_DEVICES": ""}),
        (AMD, ("GPU-8",), GpuNames.UUID, {"ROCR_VISIBLE_DEVICES": "GPU-8"}),
        (AMD, ("GPU-8",), GpuNames.INDEX, {"ROCR_VISIBLE_DEVICES": "1"}),
        (
            gpus(GpuVendor.AMD, "GPU-7", "GPU-pci-0000.03.00.0"),
            ("GPU-pci-0000.03.00.0", "GPU-7"),
            GpuNames.UUID,
            {"ROCR_VISIBLE_DEVICES": "1,GPU-7"},
        ),
        (AMD, (), GpuNames.UUID, {"ROCR_VISIBLE_DEVICES": ""}),
        (INTEL, ("GPU-pci-2",), GpuNames.UUID, {"ZE_AFFINITY_MASK": "1"}),
        (INTEL, (), GpuNames.UUID, {"ZE_AFFINITY_MASK": "2"}),
        (
            NVIDIA + AMD,
            ("GPU-7",),
            GpuNames.UUID,
            {"CUDA_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": "GPU-7"},
        ),
    ],
)
def test_only_the_libraries_of_its_gpus_are_told(
    there: tuple[NodeGpu, ...], own: tuple[str, ...], names: GpuNames, told: dict[str, str]
) -> None:
    assert gpu_environment(there, own, names) == {**told, "WATTFOLD_GPUS": ",".join(own)}


def test_nothing_is_said_where_there_are_none() -> None:
    assert gpu_environment((), (), GpuNames.UUID) == {}


def test_foreign_devices_are_those_of_no_gpu_of_the_job() -> None:
    shared = DeviceNode(major=226, minor=1)
    pair = (
        NodeGpu(id="GPU-x", devices=(shared, DeviceNode(major=226, minor=128))),
        NodeGpu(id="GPU-y", devices=(shared, DeviceNode(major=226, minor=129))),
    )
    assert [d.minor for d in foreign_devices(NVIDIA, ["GPU-b"])] == [0, 2]
    assert [d.minor for d in foreign_devices(pair, ["GPU-x"])] == [129]
    assert [d.minor for d in foreign_devices(pair, [])] == [1, 128, 129]


def test_unlike_gpus_have_no_common_model() -> None:
    assert common_model(NVIDIA) == "V100"
    assert common_model([*NVIDIA, NodeGpu(id="GPU-z", model="T4")]) == ""
    assert common_model([]) == ""


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=examples(30))
@given(limit=st.floats(0, 1), busy=st.floats(0, 1), lower=st.floats(0, 1))
def test_no_model_draws_more_than_its_limit_and_lower_limits_are_slower(
    name: str, limit: float, busy: float, lower: float
) -> None:
    model = MODELS[name]
    assert model.holds
    limit_w = model.least_w + limit * (model.most_w - model.least_w)
    lower_w = model.least_w + lower * (limit_w - model.least_w)
    assert model.idle_w <= model.power_w(limit_w, busy) <= limit_w
    assert model.speed([lower_w]) <= model.speed([limit_w]) <= 1
    assert model.speed([limit_w, lower_w]) == model.speed([lower_w])


def test_the_curve_is_that_of_the_traces() -> None:
    """Speeds of ResNet-50 on a V100 at 0.4, 0.6 and 0.8 of 250 W, as published."""
    v100 = MODELS["V100"]
    for limit_w, speed in ((100, 0.516), (150, 0.842), (200, 0.950)):
        assert v100.speed([limit_w]) == pytest.approx(speed, abs=0.01)
    assert v100.speed([]) == 1
