"""Documents to batches: the token store, its decomposition into length buckets, the schedule and the loader."""
