"""Training: the loop, its objective, schedule, checkpoints and log."""
