"""What the peers of several benchmarks are made of."""

from typing import TYPE_CHECKING

from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import END, PAD, START

if TYPE_CHECKING:
    from transformers import MarianConfig


def marian_config(size: ModelSettings, vocabulary: int, dropout: float) -> "MarianConfig":
    """Hugging Face's Marian of these sizes."""
    from transformers import MarianConfig

    return MarianConfig(
        vocab_size=vocabulary,
        d_model=size.d_model,
        encoder_layers=size.encoder_layers,
        decoder_layers=size.decoder_layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=size.d_ff,
        decoder_ffn_dim=size.d_ff,
        dropout=dropout,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        decoder_start_token_id=START,
        eos_token_id=END,
        forced_eos_token_id=None,
        bad_words_ids=[[PAD]],
        max_length=512,
    )
