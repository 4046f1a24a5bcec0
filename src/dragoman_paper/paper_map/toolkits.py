"""Where code that is called the Transformer differs from the paper. This module is data.

Each was read in the source that is named, at these commits: Tensor2Tensor bafdc1b, fairseq 3d262bb, Marian
c9f287d, OpenNMT-py 97111d9, the Annotated Transformer debc9fd; Hugging Face as of November 2026.
"""

from typing import NamedTuple


class Difference(NamedTuple):
    """One difference."""

    toolkit: str
    what: str
    paper: str
    source: str


DIFFERENCES = (
    Difference(
        "Tensor2Tensor, fairseq",
        "sinusoids with the step ln(10000) / (d_model / 2 - 1), all sines before all cosines; fairseq counts "
        "positions from 2",
        "ln(10000) / (d_model / 2), interleaved (3.5)",
        "T2T layers/common_attention.py; fairseq modules/sinusoidal_positional_embedding.py",
    ),
    Difference(
        "Tensor2Tensor",
        "transformer_base (version 3): pre-norm, β₂ 0.997, warm-up 8,000, twice the learning rate, dropout "
        "0.1 on attention weights and ReLU; transformer_base_v1 is like the paper",
        "post-norm (3.1), β₂ 0.98 and 4,000 (5.3), dropout on sub-layers' outputs and embeddings alone (5.4)",
        "T2T models/transformer.py",
    ),
    Difference(
        "Tensor2Tensor",
        "at most 100 tokens more than the source",
        "50 (6.1)",
        "T2T utils/decoding.py",
    ),
    Difference(
        "fairseq",
        "score divided by |Y|^α",
        "((5 + |Y|) / 6)^α (6.1, Wu et al. 2016)",
        "fairseq sequence_generator.py",
    ),
    Difference(
        "Hugging Face",
        "Marian: sinusoids with the paper's frequencies, all sines before all cosines; score divided by "
        "|Y|^α; d_k cannot be set apart from d_model / heads, so row B of Table 3 cannot be built",
        "interleaved (3.5); ((5 + |Y|) / 6)^α (6.1); d_k and h vary apart (Table 3)",
        "transformers modeling_marian.py",
    ),
    Difference(
        "Marian",
        "--task transformer-base: peak rate 0.0003, warm-up 16,000; transformer-big: dropout 0.1, warm-up "
        "8,000",
        "d_model^-0.5 · min(…) with 4,000 (5.3); big has P_drop 0.3 (Table 3)",
        "marian src/common/aliases.cpp",
    ),
    Difference(
        "Annotated Transformer",
        "pre-norm; the lines that share the embeddings' matrix are disabled by `if False`; greedy search",
        "post-norm (3.1); one matrix (3.4); beam search (6.1)",
        "the_annotated_transformer.py",
    ),
    Difference(
        "Tensor2Tensor, fairseq",
        "the same translations score 0.7 to 1.5 BLEU more by get_ende_bleu.sh (tokens with split compounds) "
        "than by sacreBLEU: 29.02 (with an altered reference) and 27.52, 29.29 and 28.6",
        "BLEU, not described (6.1)",
        "tensor2tensor issue 317; fairseq examples/scaling_nmt",
    ),
)
