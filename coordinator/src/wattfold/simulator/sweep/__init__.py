"""Many independent simulations: run on all cores or on Dask, stored one by one, resumable."""
