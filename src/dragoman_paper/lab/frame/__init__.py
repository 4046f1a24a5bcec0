"""What the experiments share: what they state, how they are found, reported and drawn."""
