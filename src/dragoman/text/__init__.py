"""Text and ids: tokenizers, corpora, batches, datasets."""
