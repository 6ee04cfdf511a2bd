"""Do: run a model and recompute what a plan discards, to the same bits."""
