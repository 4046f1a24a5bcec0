"""Time and disk: the loop, its schedule, its checkpoints."""
