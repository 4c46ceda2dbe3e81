"""All metrics of the coordinator: names, types, labels and help texts.

No label names a job, a user or an application, so the number of series does not grow with the
queue.
"""

from __future__ import annotations

from wattfold.contract.metric import COUNTER, GAUGE, HISTOGRAM, INFO, Metric

CATALOGUE = (
    Metric("wattfold_build", INFO, "Version of the coordinator.", ("version",)),
    Metric("wattfold_policy", INFO, "Policy in use.", ("policy",)),
    Metric("wattfold_budget_watts", GAUGE, "Power budget in force."),
    Metric(
        "wattfold_budget_announced_watts",
        GAUGE,
        "Smallest announced budget that is being prepared. Absent if there is none.",
    ),
    Metric(
        "wattfold_emergency_limit_watts",
        GAUGE,
        "Limit of the emergency in force. Absent if there is none.",
    ),
    Metric(
        "wattfold_emergency_over_watts",
        GAUGE,
        "Committed power above the limit of the emergency. Absent if there is none.",
    ),
    Metric(
        "wattfold_ramp_waiting_watts",
        GAUGE,
        "Power that caps wait for because of the ramp limit. Absent without a limit of the rise.",
    ),
    Metric(
        "wattfold_committed_power_watts",
        GAUGE,
        "Maximum power of all admitted nodes by cause. The sum over the causes is the committed "
        "power.",
        ("cause",),
    ),
    Metric(
        "wattfold_committed_power_peak_watts", GAUGE, "Highest committed power of this journal."
    ),
    Metric(
        "wattfold_measured_power_watts",
        GAUGE,
        "Mean power of all reachable nodes over the last common second.",
    ),
    Metric("wattfold_measured_power_peak_watts", GAUGE, "Highest measured power of this journal."),
    Metric(
        "wattfold_floor_watts",
        GAUGE,
        "Base power and floors of the nodes: no lower budget can be met.",
    ),
    Metric(
        "wattfold_headroom_watts",
        GAUGE,
        "Limit minus committed power; negative while a lowered budget is not yet met.",
    ),
    Metric(
        "wattfold_free_power_watts",
        GAUGE,
        "Part of the headroom that raised caps may use; the rest is reserved for nodes outside "
        "the ledger.",
    ),
    Metric(
        "wattfold_outside_power_watts",
        GAUGE,
        "Maximum power of nodes outside the ledger, by whether an operator accepted it.",
        ("accepted",),
    ),
    Metric(
        "wattfold_over_budget_watts",
        GAUGE,
        "Excess of committed power and unaccepted power of nodes outside the ledger over the "
        "budget.",
    ),
    Metric(
        "wattfold_budget_breaches",
        COUNTER,
        "Readings above all granted power that raised committed power above the budget.",
    ),
    Metric(
        "wattfold_cap_watts",
        GAUGE,
        "Sum of the caps that the agents read back, by kind of zone.",
        ("kind",),
    ),
    Metric("wattfold_leases", GAUGE, "Nodes with a running lease, including silent nodes."),
    Metric("wattfold_lease_duration_seconds", GAUGE, "Duration of a new lease."),
    Metric(
        "wattfold_lease_remaining_seconds",
        GAUGE,
        "Shortest remaining time of all running leases. Absent if there is none.",
    ),
    Metric("wattfold_nodes", GAUGE, "Nodes by state of contact.", ("state",)),
    Metric("wattfold_node_duties", GAUGE, "Nodes by administrative state.", ("duty",)),
    Metric(
        "wattfold_node_faults",
        GAUGE,
        "Nodes that cannot start jobs, for example because a disk is full.",
    ),
    Metric(
        "wattfold_emulated_nodes", GAUGE, "Nodes with emulated zones, whose power is not measured."
    ),
    Metric("wattfold_jobs", GAUGE, "Jobs that have not ended.", ("state", "queue")),
    Metric(
        "wattfold_waiting_jobs",
        GAUGE,
        "Waiting jobs by their start time: planned, expected, unknown, not planned yet, or held.",
        ("reason",),
    ),
    Metric(
        "wattfold_jobs_submitted",
        COUNTER,
        "Accepted submissions of this journal. It jumps by 1000 after a loss of events.",
    ),
    Metric(
        "wattfold_planner_failing",
        GAUGE,
        "1 if the last planning round could not use a plan of the configured policy, otherwise 0.",
    ),
    Metric(
        "wattfold_planning_round_duration_seconds",
        HISTOGRAM,
        "Duration of planning rounds by the solver and the outcome.",
        ("solver", "outcome"),
    ),
    Metric(
        "wattfold_journal_commit_duration_seconds",
        HISTOGRAM,
        "Duration of successful commits of the journal, including the sync of the disk.",
    ),
    Metric(
        "wattfold_log_lines_dropped",
        COUNTER,
        "Log lines that the reader of standard error did not take in time.",
    ),
    Metric(
        "wattfold_energy_joules",
        COUNTER,
        "Energy that the meters of all nodes have counted since the coordinator started, without "
        "base power.",
    ),
)
BY_NAME = {metric.name: metric for metric in CATALOGUE}
