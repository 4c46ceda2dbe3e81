"""Who gets how many units at which cap: the optimisation, and its worker process."""
