"""Results of simulated runs: metrics, files of jobs and series, comparisons."""
