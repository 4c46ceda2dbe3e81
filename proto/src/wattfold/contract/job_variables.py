"""Variables of a job that coordinator, agent and command treat specially."""

SCRIPT_VARIABLE = "WATTFOLD_SCRIPT"
"""Text of a script from standard input. The agent runs it and removes the variable."""
JOB_ID_PATTERN = "%j"
"""Value of SLURM_JOB_ID in a submission. The coordinator replaces it with the job ID."""
