"""Table 3 of the paper: variations of the base model, measured on newstest2013. This module is data.

Sources: Vaswani et al. (2017), Table 3; rows are named as the files in experiments/table3.
"""

from dataclasses import replace
from pathlib import Path

from dragoman.model.settings import PRESETS
from dragoman.text.settings import DataSettings
from dragoman_paper.tables.rows import Row, Scale, Table

BASE = PRESETS["base"]
N2, N4, N8 = (replace(BASE, encoder_layers=depth, decoder_layers=depth) for depth in (2, 4, 8))

ROWS = (
    Row("base", BASE, perplexity=4.92, bleu=25.8, parameters=65),
    Row("A1", replace(BASE, heads=1), perplexity=5.29, bleu=24.9),
    Row("A2", replace(BASE, heads=4), perplexity=5.00, bleu=25.5),
    Row("A3", replace(BASE, heads=16), perplexity=4.91, bleu=25.8),
    Row("A4", replace(BASE, heads=32), perplexity=5.01, bleu=25.4),
    Row("B1", replace(BASE, d_k=16), perplexity=5.16, bleu=25.1, parameters=58),
    Row("B2", replace(BASE, d_k=32), perplexity=5.01, bleu=25.4, parameters=60),
    Row("C1", N2, perplexity=6.11, bleu=23.7, parameters=36),
    Row("C2", N4, perplexity=5.19, bleu=25.3, parameters=50),
    Row("C3", N8, perplexity=4.88, bleu=25.5, parameters=80),
    Row("C4", replace(BASE, d_model=256, d_k=32, d_v=32), perplexity=5.75, bleu=24.5, parameters=28),
    Row("C5", replace(BASE, d_model=1024, d_k=128, d_v=128), perplexity=4.66, bleu=26.0, parameters=168),
    Row("C6", replace(BASE, d_ff=1024), perplexity=5.12, bleu=25.4, parameters=53),
    Row("C7", replace(BASE, d_ff=4096), perplexity=4.75, bleu=26.2, parameters=90),
    Row("D1", replace(BASE, dropout=0.0), perplexity=5.77, bleu=24.6),
    Row("D2", replace(BASE, dropout=0.2), perplexity=4.95, bleu=25.5),
    Row("D3", BASE, label_smoothing=0.0, perplexity=4.67, bleu=25.3),
    Row("D4", BASE, label_smoothing=0.2, perplexity=5.47, bleu=25.7),
    Row("E", replace(BASE, positions="learned"), perplexity=4.92, bleu=25.7),
    Row("big", PRESETS["big"], updates=300_000, perplexity=4.33, bleu=26.4, parameters=213),
)


def files(train: str, valid: str) -> DataSettings:
    """English to German, training and validation."""
    names = (Path(f"{name}.{language}") for name in (train, valid) for language in ("en", "de"))
    source, target, valid_source, valid_target = names
    return DataSettings(source=source, target=target, valid_source=valid_source, valid_target=valid_target)


SCALES = (
    Scale(
        "multi30k",
        files("train", "valid"),
        "Multi30k, 29,000 image descriptions, English to German",
        vocabulary=6_000,
        tokens=2_048,
        updates=1_500,
        warmup_steps=400,
        width=4,
        depth=2,
        learning_rate_scale=0.45,  # a peak of 0.002 (experiments/LOG.md)
        precision="bfloat16",
        dataset="multi30k-en-de",
    ),
    Scale(
        "tatoeba",
        files("train", "valid"),
        "Tatoeba, 161,197 everyday sentences, English to German",
        vocabulary=8_000,
        tokens=4_096,
        updates=3_000,
        warmup_steps=400,
        width=4,
        depth=2,
        learning_rate_scale=0.45,
        precision="bfloat16",
    ),
    Scale(
        "paper",
        files("train", "newstest2013"),
        "WMT 2014 English-German, 4.5 million pairs; newstest2013",
        vocabulary=37_000,
        tokens=25_000,
        updates=100_000,
        warmup_steps=4_000,
    ),
)

TABLE3 = Table("table3", "Table 3: variations of the base model", ROWS, SCALES)
