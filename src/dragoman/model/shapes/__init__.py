"""Names and shapes of a model's weights, from its settings. No torch is imported."""
