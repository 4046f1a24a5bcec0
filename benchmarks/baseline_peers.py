"""Other systems' recurrent and convolutional models, to train beside ours (benchmarks/train.py).

JoeyNMT: `pip install --no-deps joeynmt packaging`. fairseq: a checkout of its repository on PYTHONPATH, with
omegaconf, hydra-core, bitarray and regex. Its configuration has instances of dataclasses as defaults, which
Python 3.11 refuses: replace them by `field(default_factory=…)` in the checkout. Neither system's models are
changed.
"""

from torch import Tensor, nn

from dragoman.model.settings import ModelSettings
from dragoman.model.symbols import PAD


class JoeyNMT(nn.Module):
    """JoeyNMT's recurrent model: the same sizes, additive attention, and one matrix for all embeddings."""

    def __init__(self, size: ModelSettings, vocabulary: int) -> None:
        from joeynmt.decoders import RecurrentDecoder
        from joeynmt.embeddings import Embeddings
        from joeynmt.encoders import RecurrentEncoder

        super().__init__()
        d, dropout = size.d_model, size.dropout
        self.embedding = Embeddings(d, vocab_size=vocabulary, padding_idx=PAD)
        kind = {"rnn_type": size.architecture, "hidden_size": d, "emb_size": d}
        drops = {"dropout": dropout, "emb_dropout": dropout}
        self.encoder = RecurrentEncoder(**kind, **drops, num_layers=size.encoder_layers, bidirectional=True)
        self.decoder = RecurrentDecoder(
            **kind,
            **drops,
            hidden_dropout=dropout,
            encoder=self.encoder,
            attention="bahdanau",
            num_layers=size.decoder_layers,
            vocab_size=vocabulary,
            init_hidden="bridge",
            input_feeding=False,
        )
        self.decoder.output_layer.weight = self.embedding.lut.weight

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits [B T V] of source ids [B S] and the decoder's input [B T]."""
        lengths, order = (source != PAD).sum(1).sort(descending=True)  # as its batches are sorted
        source, target = source[order], target[order]
        mask = (source != PAD)[:, None]
        memory, last = self.encoder(self.embedding(source), lengths, mask)
        found = self.decoder(self.embedding(target), memory, last, mask, target.size(1))
        return found[0][order.argsort()]


class Vocabulary:
    """What fairseq's models ask of a dictionary."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def pad(self) -> int:
        """The id of padding."""
        return PAD


class Fairseq(nn.Module):
    """fairseq's fconv of the same sizes; its encoder has a matrix of embeddings of its own."""

    def __init__(self, size: ModelSettings, vocabulary: int) -> None:
        from fairseq.models.fconv import FConvDecoder, FConvEncoder, FConvModel

        super().__init__()
        d, tokens = size.d_model, Vocabulary(vocabulary)
        layer = (d, size.kernel_width)
        encoder = FConvEncoder(tokens, d, convolutions=(layer,) * size.encoder_layers, dropout=size.dropout)
        decoder = FConvDecoder(
            tokens,
            d,
            out_embed_dim=d,
            convolutions=(layer,) * size.decoder_layers,
            dropout=size.dropout,
            share_embed=True,
        )
        self.model = FConvModel(encoder, decoder)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits [B T V] of source ids [B S] and the decoder's input [B T]."""
        return self.model(source, (source != PAD).sum(1), target)[0]


MODELS = {"joeynmt": JoeyNMT, "fairseq": Fairseq}
