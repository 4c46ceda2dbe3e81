"""All metrics of the agent: names, types, labels and help texts.

Every series has the label `node`, because several emulated nodes may share a host. No label names a
job or a user: the energy of a job is visible to its owner only.
"""

from __future__ import annotations

from wattfold.contract.metric import COUNTER, GAUGE, INFO, Metric

CATALOGUE = (
    Metric("wattfold_agent_build", INFO, "Version of the agent.", ("node", "version")),
    Metric(
        "wattfold_agent_written_timestamp_seconds",
        GAUGE,
        "Time of these values. An old time means that the agent was killed.",
        ("node",),
    ),
    Metric(
        "wattfold_zone_energy_joules",
        COUNTER,
        "Energy of a zone since the agent started. Absent while it cannot be measured.",
        ("node", "zone"),
    ),
    Metric(
        "wattfold_zone_cap_watts",
        GAUGE,
        "Power limit of a zone, as read back. Absent for a zone that cannot be capped.",
        ("node", "zone"),
    ),
    Metric("wattfold_zone_floor_watts", GAUGE, "Cap of a zone without a lease.", ("node", "zone")),
    Metric("wattfold_zone_maximum_watts", GAUGE, "Highest cap of a zone.", ("node", "zone")),
    Metric(
        "wattfold_zone_fault",
        GAUGE,
        "1 if a zone refuses its cap, exceeds it or cannot be read, otherwise 0.",
        ("node", "zone"),
    ),
    Metric(
        "wattfold_node_base_power_watts",
        GAUGE,
        "Configured power that the node draws outside its zones.",
        ("node",),
    ),
    Metric(
        "wattfold_node_emulated",
        GAUGE,
        "1 if the zones are emulated and no power is measured, otherwise 0.",
        ("node",),
    ),
    Metric(
        "wattfold_node_lease_remaining_seconds",
        GAUGE,
        "Time for which caps above the floor stay in force without renewal.",
        ("node",),
    ),
    Metric(
        "wattfold_node_at_floor", GAUGE, "1 if all zones hold their floors, otherwise 0.", ("node",)
    ),
    Metric(
        "wattfold_node_left",
        GAUGE,
        "1 if the node has left and has its original limits, otherwise 0.",
        ("node",),
    ),
    Metric(
        "wattfold_node_foreign_settings",
        COUNTER,
        "Settings of zones that something else had changed and the agent set again.",
        ("node",),
    ),
    Metric(
        "wattfold_node_caps_not_held",
        COUNTER,
        "Times that the power of a zone rose above its cap for longer than its window.",
        ("node",),
    ),
    Metric("wattfold_node_cores", GAUGE, "Cores for jobs.", ("node",)),
    Metric("wattfold_node_held_cores", GAUGE, "Cores that running jobs hold.", ("node",)),
    Metric("wattfold_node_running_jobs", GAUGE, "Jobs with processes on the node.", ("node",)),
    Metric(
        "wattfold_node_residual_cores",
        GAUGE,
        "CPU seconds per second that jobs spend on cores outside their masks.",
        ("node",),
    ),
    Metric(
        "wattfold_node_residual_alarms",
        GAUGE,
        "Jobs whose residual CPU time is above the threshold.",
        ("node",),
    ),
    Metric(
        "wattfold_node_start_fault",
        GAUGE,
        "1 if the node cannot start jobs, for example because a disk is full, otherwise 0.",
        ("node",),
    ),
)
BY_NAME = {metric.name: metric for metric in CATALOGUE}
