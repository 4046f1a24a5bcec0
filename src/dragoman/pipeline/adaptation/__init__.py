"""Adapting a model to other text: its recipe, its initial weights, the replay of old text."""
