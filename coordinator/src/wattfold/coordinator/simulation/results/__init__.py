"""What a simulated run comes to: figures of merit, files of jobs and series, comparisons."""
