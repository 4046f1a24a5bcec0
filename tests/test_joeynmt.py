"""Imported JoeyNMT models compute JoeyNMT's equations.

Folders are written as JoeyNMT 2.3.0 (commit cdc4d03) writes them: `training.py` (`_save_checkpoint`),
`prediction.py` (`prepare`), `vocabulary.py`, `tokenizers.py`, and the tensors of `model.py`, `encoders.py`,
`decoders.py` and `transformer_layers.py`.
"""

import io
import math
import pickle
from copy import deepcopy

import numpy
import pytest
import sentencepiece
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from torch.nn import functional as F

from dragoman.interop import joeynmt
from dragoman.interop.vocabulary import FORBIDDEN_BIAS
from dragoman.model.symbols import END, START, UNKNOWN
from dragoman.search.beam import greedy_search
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import DragomanError

SOURCE = [
    "ein Mann fährt Rad",
    "zwei Hunde spielen im Schnee",
    "der Schnee ist kalt",
    "ein Kind spielt mit dem Hund",
]
TARGET = ["a man rides a bike", "two dogs play in the snow", "the snow is cold", "a child plays with the dog"]
NEW = [
    "ein Hund ist kalt",
    "Kinder spielen",
    "mandarin Schneemann",
    "der Mann fährt mit dem Kind im Schnee",
    "Rad",
]
UNK, PAD, BOS, EOS = range(4)
SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]
WIDTH, FF = 16, 24
EXTRA = 6  # tokens that a translation may have more than its source
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}
KINDS = {
    "post-norm, one vocabulary, all tied": {"pieces": "unigram", "shared": True, "scale": True, "tied": True},
    "pre-norm, two vocabularies, nothing tied": {
        "pieces": "unigram",
        "norm": "pre",
        "activation": "gelu",
        "scale": True,
    },
    "pieces of merges that the vocabulary lacks": {"pieces": "bpe", "tied": True, "activation": "swish"},
    "subword-nmt, other depths": {
        "pieces": "codes",
        "encoder": {"num_layers": 1},
        "decoder": {"num_layers": 3, "ff_size": 20},
        "tied": True,
    },
    "words and a separator": {"pieces": "word", "sep": True, "norm": "pre", "scale": True},
    "characters": {"pieces": "char", "shared": True, "tied": True, "norm": "pre"},
    "as JoeyNMT 1": {"pieces": "word", "norm": None, "scale": True, "tied": True},
}


class Folder:
    """A random model of JoeyNMT's, and what it does."""

    def __init__(
        self,
        path,
        pieces="word",
        shared=False,
        norm="post",
        activation="relu",
        scale=False,
        tied=False,
        sep=False,
        encoder=(),
        decoder=(),
    ):
        torch.manual_seed(3)
        path.mkdir()
        self.path, self.pieces, self.special = path, pieces, [*SPECIAL, *(["<sep>"] if sep else [])]
        texts = (
            {"src": SOURCE, "trg": TARGET}
            if not shared
            else {side: [*SOURCE, *TARGET] for side in ("src", "trg")}
        )
        self.vocabulary, data = {}, {}
        for side, lines in texts.items():
            data[side] = self.learn(side, lines)
            cut = [piece for line in lines for piece in self.cut(side, line)]
            self.vocabulary[side] = list(
                dict.fromkeys([*self.special, *sorted(cut, key=lambda piece: (-cut.count(piece), piece))])
            )
            self.write(f"{side}_vocab.txt", "".join(f"{piece}\n" for piece in self.vocabulary[side]))
        stack = {
            "type": "transformer",
            "num_layers": 2,
            "num_heads": 2,
            "hidden_size": WIDTH,
            "ff_size": FF,
            "dropout": 0.1,
        }
        stack |= {
            "embeddings": {"embedding_dim": WIDTH, "scale": scale, "dropout": 0.0},
            "activation": activation,
        }
        stack |= {} if norm is None else {"layer_norm": norm}
        model = {
            "tied_embeddings": tied and shared,
            "tied_softmax": tied,
            "encoder": stack | dict(encoder),
            "decoder": deepcopy(stack) | dict(decoder),
        }
        symbols = {"sep_id": 4, "sep_token": "<sep>"} if sep else {}
        self.config = {
            "name": "a",
            "joeynmt_version": "2.3.0",
            "data": data | {"special_symbols": symbols},
            "model": model,
            "testing": {},
        }
        self.pre = norm != "post"
        self.state = self.random(tied, shared)
        self.save()

    def learn(self, side, lines):
        """The section of the configuration; the tokenizer's file lies in the folder, under another path
        there.
        """
        section = {"lang": side, "lowercase": False, "normalize": False, "level": self.pieces}
        if self.pieces in ("unigram", "bpe"):
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines * 9), model_writer=model, model_type=self.pieces, vocab_size=60,
                hard_vocab_limit=False,
                unk_id=UNK, pad_id=PAD, bos_id=BOS, eos_id=EOS, minloglevel=2,
            )  # fmt: skip
            (self.path / f"{side}.model").write_bytes(model.getvalue())
            section |= {
                "level": "bpe",
                "tokenizer_type": "sentencepiece",
                "tokenizer_cfg": {"model_file": f"elsewhere/{side}.model"},
            }
        if self.pieces == "codes":
            codes = io.StringIO()
            learn_bpe(io.StringIO("\n".join(lines)), codes, 25)
            self.write(f"{side}.codes", codes.getvalue())
            cut = {"codes": f"elsewhere/{side}.codes", "num_merges": 25, "pretokenizer": "none"}
            section |= {"level": "bpe", "tokenizer_type": "subword-nmt", "tokenizer_cfg": cut}
        return section

    def cut(self, side, line, known=None):
        """JoeyNMT's pieces of a text, cut within the known ones where there are such."""
        if self.pieces == "word":
            return line.split(" ")
        if self.pieces == "char":
            return list(line.replace(" ", "▁"))
        if self.pieces == "codes":
            cutter = BPE(
                io.StringIO((self.path / f"{side}.codes").read_text("utf-8")),
                vocab=known and set(known) - set(self.special),
            )
            return cutter.process_line(line).split()
        return self.within(side, known).encode(line, out_type=str)

    def within(self, side, known):
        """SentencePiece after `SetVocabulary`, by the rule in sentencepiece_processor.cc (0.2.1):

        Python's 0.2.3 lacks it.
        """
        model = sentencepiece_model_pb2.ModelProto()
        model.ParseFromString((self.path / f"{side}.model").read_bytes())
        for piece in model.pieces:
            if (
                known
                and piece.type == model.SentencePiece.NORMAL
                and piece.piece not in known
                and len(piece.piece) > 1
            ):
                piece.type = model.SentencePiece.UNUSED
        return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())

    def ids(self, side, line):
        pieces = self.vocabulary[side]
        return [pieces.index(piece) if piece in pieces else UNK for piece in self.cut(side, line, pieces)]

    def random(self, tied, shared):
        """All tensors of `Model.state_dict`."""
        state, sizes = {}, {side: len(pieces) for side, pieces in self.vocabulary.items()}
        for side, depth in (
            (side, self.config["model"][side]["num_layers"]) for side in ("encoder", "decoder")
        ):
            looks = ["src_src_att"] if side == "encoder" else ["trg_trg_att", "src_trg_att"]
            norms = ["layer_norm"] if side == "encoder" else ["x_layer_norm", "dec_layer_norm"]
            shapes = {
                f"{look}.{part}_layer": (WIDTH, WIDTH) for look in looks for part in ("k", "v", "q", "output")
            }
            inner = self.config["model"][side]["ff_size"]
            shapes |= {
                "feed_forward.pwff_layer.0": (inner, WIDTH),
                "feed_forward.pwff_layer.3": (WIDTH, inner),
            }
            shapes |= dict.fromkeys([*norms, "feed_forward.layer_norm"], (WIDTH,))
            every = {
                f"{side}.layers.{layer}.{name}": shape
                for layer in range(depth)
                for name, shape in shapes.items()
            }
            every |= {f"{side}.layer_norm": (WIDTH,)} if self.pre else {}
            for name, shape in every.items():
                state[f"{name}.weight"] = torch.randn(shape) * 0.25 + (len(shape) == 1)
                state[f"{name}.bias"] = torch.randn(shape[0]) * 0.2
            state[f"{side}.pe.pe"] = self.positions(5000)[None]
        for name, side in (
            ("src_embed.lut", "src"),
            ("trg_embed.lut", "trg"),
            ("decoder.output_layer", "trg"),
        ):
            state[f"{name}.weight"] = torch.randn(sizes[side], WIDTH)
            state[f"{name}.weight"][PAD] = 0
        if tied and shared:
            state["trg_embed.lut.weight"] = state["src_embed.lut.weight"]
        if tied:
            state["decoder.output_layer.weight"] = state["trg_embed.lut.weight"]
        return state

    @staticmethod
    def positions(rows):
        rates = torch.exp(torch.arange(0, WIDTH, 2).float() * -(math.log(10000.0) / WIDTH))
        angles = torch.arange(rows)[:, None].float() * rates
        table = torch.zeros(rows, WIDTH)
        table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
        return table

    def write(self, name, text):
        (self.path / name).write_text(text, "utf-8")

    def save(self, name="best.ckpt"):
        """The configuration and the checkpoint as they are now."""
        self.write("config.yaml", yaml.safe_dump(self.config))
        optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]).state_dict()
        stats = {
            "epochs": 1,
            "steps": 10,
            "total_tokens": 90,
            "best_ckpt_score": math.inf,
            "best_ckpt_iter": 10,
        }
        others = {
            "scaler_state": None,
            "scheduler_state": {"best": 1.0},
            "train_iter_state": torch.Generator().get_state(),
        }
        torch.save(
            {"model_state": self.state, "optimizer_state": optimizer, **others, "stats_state": stats},
            self.path / name,
        )
        return self

    def linear(self, name, x):
        return x @ self.state[f"{name}.weight"].T + self.state[f"{name}.bias"]

    def normed(self, name, x):
        return F.layer_norm(x, (WIDTH,), self.state[f"{name}.weight"], self.state[f"{name}.bias"], eps=1e-6)

    def attended(self, name, queries, memory, mask):
        heads = self.config["model"]["encoder"]["num_heads"]

        def split(x):
            return x.view(len(x), heads, -1).transpose(0, 1)

        q, k, v = (
            split(self.linear(f"{name}.{part}_layer", x))
            for part, x in (("q", queries), ("k", memory), ("v", memory))
        )
        scores = (q / math.sqrt(WIDTH // heads)) @ k.transpose(1, 2)
        context = scores.masked_fill(~mask, -math.inf).softmax(-1) @ v
        return self.linear(f"{name}.output_layer", context.transpose(0, 1).flatten(1))

    def around(self, norm, x, sub_layer):
        return x + sub_layer(self.normed(norm, x)) if self.pre else self.normed(norm, x + sub_layer(x))

    def fed(self, layer, x):
        function = ACTIVATIONS[self.config["model"]["encoder"]["activation"]]

        def feed(x):
            return self.linear(
                f"{layer}.feed_forward.pwff_layer.3",
                function(self.linear(f"{layer}.feed_forward.pwff_layer.0", x)),
            )

        return self.around(f"{layer}.feed_forward.layer_norm", x, feed)

    def embedded(self, name, ids):
        scale = math.sqrt(WIDTH) if self.config["model"]["encoder"]["embeddings"]["scale"] else 1.0
        return (
            self.state[f"{name}.lut.weight"][torch.tensor(ids)] * scale
            + self.state["encoder.pe.pe"][0, : len(ids)]
        )

    def read(self, source):
        x = self.embedded("src_embed", source)
        every = torch.ones(1, len(source), dtype=torch.bool)
        for number in range(self.config["model"]["encoder"]["num_layers"]):
            layer = f"encoder.layers.{number}"
            x = self.around(
                f"{layer}.layer_norm",
                x,
                lambda y, layer=layer: self.attended(f"{layer}.src_src_att", y, y, every),
            )
            x = self.fed(layer, x)
        return self.normed("encoder.layer_norm", x) if self.pre else x

    def logits(self, memory, target):
        """One row for each id of the target, of which BOS is the first, and what `read` gives."""
        x = self.embedded("trg_embed", target)
        every, before = (
            torch.ones(1, len(memory), dtype=torch.bool),
            torch.ones(len(target), len(target), dtype=torch.bool).tril(),
        )
        for number in range(self.config["model"]["decoder"]["num_layers"]):
            layer = f"decoder.layers.{number}"
            x = self.around(
                f"{layer}.x_layer_norm",
                x,
                lambda y, layer=layer: self.attended(f"{layer}.trg_trg_att", y, y, before),
            )
            x = self.around(
                f"{layer}.dec_layer_norm",
                x,
                lambda y, layer=layer: self.attended(f"{layer}.src_trg_att", y, memory, every),
            )
            x = self.fed(layer, x)
        x = self.normed("decoder.layer_norm", x) if self.pre else x
        return x @ self.state["decoder.output_layer.weight"].T

    def greedy(self, source, most):
        """`transformer_greedy`, which also never writes the padding that no trained model writes."""
        memory, written = self.read(source), [BOS]
        while len(written) <= most:
            logits = self.logits(memory, written)[-1]
            logits[
                [PAD, BOS, *range(4, len(self.special)), *([EOS] if len(written) == 1 else [])]
            ] = -math.inf
            written.append(int(logits.argmax()))
            if written[-1] == EOS:
                return written[1:-1]
        return written[1:]


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.mark.short_form(1)
def test_the_same_text_has_the_same_ids(kind, tmp_path):
    theirs = Folder(tmp_path / "model", **kind)
    imported = joeynmt.read(theirs.path)
    for number, (side, lines) in enumerate(
        {"src": [*SOURCE, *NEW, "Hundo Q im Rad Q"], "trg": [*TARGET, "a Q dog"]}.items()
    ):
        tokenizer = (imported.tokenizers.source, imported.tokenizers.target)[number]
        rows = imported.vocabularies[number].rows
        known = len(theirs.vocabulary[side])
        for line, ids in zip(lines, tokenizer.encode(lines), strict=True):
            assert [rows[token] if rows[token] < known else UNK for token in ids] == theirs.ids(side, line)


LETTERS = "".join(sorted({*"".join(SOURCE)}))


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    """A model of each kind of SentencePiece's, and what is imported."""
    folder = tmp_path_factory.mktemp("subwords")
    models = {pieces: Folder(folder / pieces, pieces=pieces) for pieces in ("unigram", "bpe")}
    return {pieces: (theirs, joeynmt.read(theirs.path)) for pieces, theirs in models.items()}


@pytest.mark.parametrize("pieces", ["unigram", "bpe"])
@settings(max_examples=40)
@given(st.lists(st.text(LETTERS.replace(" ", "Q"), min_size=1, max_size=6), min_size=1, max_size=4))
def test_any_words_of_the_letters_have_the_same_ids(subwords, pieces, words):
    """Also letters that only longer pieces of the vocabulary have, several of them together."""
    theirs, imported = subwords[pieces]
    line, rows = " ".join(words), imported.vocabularies[0].rows
    [ids] = imported.tokenizers.source.encode([line])
    assert [rows[token] for token in ids] == theirs.ids("src", line)


@pytest.mark.short_form(3)
def test_decoding_restores_the_text(kind, tmp_path):
    theirs = Folder(tmp_path / "model", **kind)
    tokenizer = joeynmt.read(theirs.path).tokenizers.target
    assert [tokenizer.decode(ids) for ids in tokenizer.encode(TARGET)] == TARGET


@pytest.mark.short_form(1)
@torch.no_grad()
def test_logits_and_greedy_translations_are_the_same(kind, tmp_path):
    theirs = Folder(tmp_path / "model", **kind)
    imported = joeynmt.read(theirs.path)
    rows, silent = imported.vocabularies[1].rows, imported.vocabularies[1].never_written
    for line, translation in zip([*SOURCE[:2], *NEW[::2]], TARGET * 2, strict=False):
        source, target = theirs.ids("src", line), theirs.ids("trg", translation)
        [of_source], [of_target] = (
            imported.tokenizers.source.encode([line]),
            imported.tokenizers.target.encode([translation]),
        )
        state = imported.model.encode(torch.tensor([[*of_source, END]]))
        features, _ = imported.model.decode(torch.tensor([[START, *of_target]]), state)
        ours = imported.model.logits(features)[0]
        expected = theirs.logits(theirs.read([*source, EOS]), [BOS, *target])
        written = [
            token
            for token, row in enumerate(rows)
            if token not in silent and not 4 <= row < len(theirs.special)
        ]
        assert (ours[:, written] - expected[:, torch.tensor(rows)[written]]).abs().max() < 1e-5
        assert (ours[:, sorted({*range(len(rows))} - {*written})] < FORBIDDEN_BIAS / 2).all()
        [[best]] = greedy_search(
            imported.model,
            torch.tensor([[*of_source, END]]),
            SearchSettings(beam_size=1, max_extra_tokens=EXTRA),
        )
        assert [rows[token] for token in best.ids] == theirs.greedy([*source, EOS], len(source) + EXTRA)


def test_pieces_that_the_vocabulary_lacks_are_unknown(tmp_path):
    theirs = Folder(tmp_path / "model", pieces="bpe")
    imported = joeynmt.read(theirs.path)
    lacking = [token for token, row in enumerate(imported.vocabularies[0].rows) if row == UNK and token > END]
    assert lacking
    table = imported.model.source_embedding.weight
    assert (table[lacking] == theirs.state["src_embed.lut.weight"][UNK]).all()


def test_the_checkpoint_is_the_one_that_joeynmt_takes(tmp_path):
    theirs = Folder(tmp_path / "model")

    def taken():
        return joeynmt.read(theirs.path).model.encoder[0].feed_forward.inner.bias[0]

    weight = theirs.state["encoder.layers.0.feed_forward.pwff_layer.0.bias"]
    for number, name in enumerate(("latest.ckpt", "best.ckpt", "average.ckpt")):
        weight[0] = number
        theirs.save(name)
    theirs.config["testing"]["load_model"] = "models/elsewhere/average.ckpt"
    theirs.save("1000.ckpt")
    assert taken() == 2
    (theirs.path / "average.ckpt").unlink()
    assert taken() == 1
    (theirs.path / "best.ckpt").unlink()
    assert taken() == 0
    (theirs.path / "latest.ckpt").unlink()
    assert taken() == 2
    theirs.save("2000.ckpt")
    with pytest.raises(
        DragomanError, match=r"has 1000.ckpt, 2000.ckpt; rename the one that is meant to best.ckpt"
    ):
        joeynmt.read(theirs.path)


def test_a_vocabulary_may_have_the_name_in_the_configuration(tmp_path):
    theirs = Folder(tmp_path / "model")
    theirs.config["data"]["src"]["voc_file"] = "elsewhere/joint.txt"
    theirs.save()
    expected = joeynmt.read(theirs.path).vocabularies[0]
    (theirs.path / "src_vocab.txt").rename(theirs.path / "joint.txt")
    assert joeynmt.read(theirs.path).vocabularies[0] == expected


def test_tied_embeddings_have_the_encoders_scale(tmp_path):
    theirs = Folder(
        tmp_path / "model",
        shared=True,
        tied=True,
        decoder={"embeddings": {"embedding_dim": WIDTH}},
        scale=True,
    )
    assert joeynmt.read(theirs.path).model.settings.scale_embeddings


def test_embeddings_are_not_tied_unless_the_configuration_says_so(tmp_path):
    theirs = Folder(tmp_path / "model")
    theirs.config["model"]["encoder"]["embeddings"]["scale"] = True
    del theirs.config["model"]["tied_embeddings"]
    theirs.save()
    with pytest.raises(DragomanError, match="scale is True in the encoder and False in the decoder"):
        joeynmt.read(theirs.path)


def test_a_scale_may_be_a_number(tmp_path):
    theirs = Folder(tmp_path / "model", scale=1)
    assert joeynmt.read(theirs.path).model.settings.scale_embeddings is True


def same(one, other):
    """Whether two imports read and compute the same."""
    return (one.tokenizers, one.vocabularies, one.model.settings) == (
        other.tokenizers,
        other.vocabularies,
        other.model.settings,
    )


def test_special_tokens_may_have_other_names(tmp_path):
    theirs = Folder(tmp_path / "model")
    named = {"unk": "<UNK>", "pad": "<PAD>", "bos": "<BOS>", "eos": "<EOS>"}
    for side, pieces in theirs.vocabulary.items():
        theirs.write(f"{side}_vocab.txt", "".join(f"{piece}\n" for piece in [*named.values(), *pieces[4:]]))
    theirs.config["data"]["special_symbols"] = {f"{name}_token": token for name, token in named.items()}
    imported = joeynmt.read(theirs.save().path)
    for side, vocabulary in zip(("src", "trg"), imported.vocabularies, strict=True):
        assert {vocabulary.pieces[token] for token in range(4)} == {*named.values()}
        assert vocabulary.pieces[4:] == theirs.vocabulary[side][4:]
    assert imported.tokenizers.source.encode(["<unk> <UNK> ein"])[0][:2] == [UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("pieces", ["codes", "unigram"])
def test_the_kind_of_pieces_may_have_the_name_that_version_2_0_gave_it(pieces, tmp_path):
    theirs = Folder(tmp_path / "model", pieces=pieces)
    expected = joeynmt.read(theirs.path)
    for side in ("src", "trg"):
        section = theirs.config["data"][side]
        section["bpe_type"] = section.pop("tokenizer_type")
    assert same(joeynmt.read(theirs.save().path), expected)


def test_all_spaces_between_characters_are_read(tmp_path):
    theirs = Folder(tmp_path / "model", pieces="char", shared=True)
    imported = joeynmt.read(theirs.path)
    rows = imported.vocabularies[0].rows
    for line in ("a  dog", " ein Hund", "im   Schnee  "):
        [ids] = imported.tokenizers.source.encode([line])
        assert [rows[token] for token in ids] == theirs.ids("src", line)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
@pytest.mark.parametrize(
    ("name", "default"),
    [("hidden_size", 512), ("ff_size", 2048), ("dropout", 0.1), ("alpha", 1.0), ("activation", "relu")],
)
def test_an_option_that_both_stacks_leave_out_has_its_default(side, name, default, tmp_path):
    """Those of the parameters of TransformerEncoder and TransformerDecoder; their depths and heads differ."""
    theirs = Folder(tmp_path / "model")
    depths = {"encoder": {"num_layers": 8, "num_heads": 4}, "decoder": {"num_layers": 4, "num_heads": 8}}
    tensors = joeynmt.Tensors({}, theirs.path)

    def options(stack):
        config = {"model": {side: {"type": "transformer", "layer_norm": "pre", "embeddings": {}, **stack}}}
        return joeynmt.stack_of(side, config, tensors, theirs.path)

    given = {"hidden_size": 16, "ff_size": 24, "dropout": 0.3, "alpha": 1.0, "activation": "gelu"}
    given |= dict.fromkeys(("num_layers", "num_heads"), 2)
    for left_out, value in {name: default, **depths[side]}.items():
        rest = {key: each for key, each in given.items() if key != left_out}
        assert options(rest) == options(rest | {left_out: value})


def test_dropout_is_that_of_the_encoder_of_attention_too(tmp_path):
    theirs = Folder(tmp_path / "model", encoder={"dropout": 0.25})
    found = joeynmt.read(theirs.path).model.settings
    assert (found.dropout, found.attention_dropout) == (0.25, 0.25)


def test_a_decoder_whose_norms_no_option_names_is_post_norm_unless_it_ends_with_one(tmp_path):
    for norm in ("post", "pre"):
        theirs = Folder(tmp_path / norm, norm=norm)
        expected = joeynmt.read(theirs.path)
        assert expected.model.settings.norm == norm
        del theirs.config["model"]["decoder"]["layer_norm"]
        assert same(joeynmt.read(theirs.save().path), expected)


def test_aliases_that_repeat_too_much_are_refused(tmp_path):
    theirs = Folder(tmp_path / "model")
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    (theirs.path / "config.yaml").write_text(f"{bomb}model: *a11\n")
    with pytest.raises(DragomanError, match="config.yaml has more than 16,384 values") as told:
        joeynmt.read(theirs.path)
    assert len(str(told.value)) < 1000


CONFIGURATIONS = [
    (
        "model.encoder.type",
        "recurrent",
        "config.yaml: model.encoder.type is 'recurrent'; Dragoman supports only 'transformer'",
    ),
    ("model.encoder.type", None, "model.encoder.type is 'recurrent'"),
    ("model.decoder.type", "recurrent", "model.decoder.type is 'recurrent'"),
    ("model.decoder.alpha", 0.5, "model.decoder.alpha is 0.5; Dragoman supports only 1.0"),
    (
        "model.encoder.activation",
        "tanh",
        "activation is 'tanh' in the encoder; Dragoman has 'relu', 'gelu', 'swish'",
    ),
    (
        "model.decoder.activation",
        "gelu",
        "activation is 'relu' in the encoder and 'gelu' in the decoder; in Dragoman they are the same",
    ),
    ("model.decoder.hidden_size", 32, "hidden_size is 16 in the encoder and 32 in the decoder"),
    ("model.decoder.num_heads", 4, "num_heads is 2 in the encoder and 4 in the decoder"),
    ("model.decoder.layer_norm", "pre", "layer_norm is 'post' in the encoder and 'pre' in the decoder"),
    ("model.decoder.layer_norm", "both", "layer_norm is 'both' in the decoder; Dragoman has 'pre', 'post'"),
    (
        "model.encoder.layer_norm",
        None,
        "model.encoder has no layer_norm.* Dragoman cannot hold.*write layer_norm",
    ),
    ("model.encoder.embeddings.scale", True, "scale is True in the encoder and False in the decoder"),
    ("model.encoder.num_layers", "six", "model.encoder.num_layers is 'six', which is not a valid number"),
    (
        "model.encoder.embeddings",
        None,
        "model.encoder.embeddings is None; Dragoman reads what JoeyNMT 2 writes, a section",
    ),
    ("data.src", "de", "data.src is 'de'; Dragoman reads what JoeyNMT 2 writes"),
    ("data.src.has_prompt", True, "reads prompts or the names of languages"),
    ("data.trg.has_prompt", True, "reads prompts or the names of languages"),
    ("data.special_symbols.lang_tags", ["<de>"], "reads prompts or the names of languages"),
    ("data.special_symbols.pad_id", 0, "pad_id is 0; Dragoman supports only 1"),
    ("data.special_symbols.unk_id", 1, "unk_id is 1; Dragoman supports only 0"),
    ("data.special_symbols.bos_id", 3, "bos_id is 3; Dragoman supports only 2"),
    ("data.special_symbols.eos_id", 2, "eos_id is 2; Dragoman supports only 3"),
    (
        "data.src.lowercase",
        True,
        "lowercase is True in data.src, and Dragoman does not change text.*write false there",
    ),
    ("data.trg.normalize", True, "normalize is True in data.trg"),
    (
        "data.trg.tokenizer_cfg",
        {"pretokenizer": "moses"},
        "pretokenizer is 'moses' in data.trg.*write none there",
    ),
    (
        "data.src.level",
        "byte",
        "data.src has the level 'byte' and the tokenizer_type 'sentencepiece'; JoeyNMT has no such",
    ),
    ("data.trg.level", "bpe", "data.trg.tokenizer_cfg is None; Dragoman reads what JoeyNMT 2 writes"),
]


@pytest.mark.short_form(8)
@pytest.mark.parametrize(("names", "value", "message"), CONFIGURATIONS)
def test_an_unsupported_configuration_is_refused(names, value, message, tmp_path):
    theirs = Folder(tmp_path / "model")
    *outer, last = names.split(".")
    section = theirs.config
    for name in outer:
        section = section[name]
    if value is None:
        del section[last]
    else:
        section[last] = value
    theirs.save()
    with pytest.raises(DragomanError, match=message):
        joeynmt.read(theirs.path)


def without(state):
    del state["decoder.layers.1.dec_layer_norm.weight"]


def narrow(state):
    state["encoder.layers.0.src_src_att.q_layer.weight"] = torch.zeros(8, WIDTH)


def deeper(state):
    state["encoder.layers.2.layer_norm.weight"] = torch.ones(WIDTH)


def normed_at_last(state):
    state["encoder.layer_norm.weight"] = torch.ones(WIDTH)


def elsewhere(state):
    state["decoder.pe.pe"] = state["decoder.pe.pe"] + 1


def flat(state):
    state["encoder.pe.pe"] = torch.zeros(5)


def wide(state):
    state["trg_embed.lut.weight"] = torch.zeros(len(state["trg_embed.lut.weight"]), 8)


STATES = {
    without: r"best.ckpt lacks the tensor decoder.layers.1.dec_layer_norm.weight, of shape \(16,\)",
    narrow: r"best.ckpt: encoder.layers.0.src_src_att.q_layer.weight has the shape \(8, 16\), and \(16, "
    r"16\) was expected",
    deeper: r"best.ckpt has the tensor encoder.layers.2.layer_norm.weight, which a model of its settings "
    r"does not",
    normed_at_last: r"best.ckpt has the tensor encoder.layer_norm.weight, which a model of its settings "
    r"does not",
    elsewhere: r"best.ckpt: decoder.pe.pe is not the table of sinusoids",
    flat: r"best.ckpt: encoder.pe.pe is not the table of sinusoids",
    wide: r"best.ckpt: trg_embed.lut.weight has the shape \(20, 8\), and \(20, 16\) was expected",
    dict.clear: r"best.ckpt lacks the tensor",
}


@pytest.mark.parametrize("change", STATES)
def test_tensors_that_do_not_fit_are_refused_with_names_and_shapes(change, tmp_path):
    theirs = Folder(tmp_path / "model")
    change(theirs.state)
    theirs.save()
    with pytest.raises(DragomanError, match=STATES[change]):
        joeynmt.read(theirs.path)


def refused(theirs, message):
    with pytest.raises(DragomanError, match=message):
        joeynmt.read(theirs.path)


def test_missing_vocabularies_and_those_of_another_size_are_refused(tmp_path):
    theirs = Folder(tmp_path / "model")
    file = theirs.path / "src_vocab.txt"
    with file.open("a") as lines:
        lines.write("more\n")
    refused(theirs, r"src_vocab.txt has 22 tokens, and src_embed.lut.weight in .*best.ckpt has 21 rows")
    file.write_bytes(b"\xff")
    refused(theirs, r"src_vocab.txt cannot be read")
    file.unlink()
    refused(theirs, r"src_vocab.txt cannot be read")


def test_damaged_tokenizer_files_are_refused(tmp_path):
    theirs = Folder(tmp_path / "pieces", pieces="unigram")
    (theirs.path / "src.model").write_bytes(b"no model")
    refused(theirs, r"src.model is not a SentencePiece model")
    (theirs.path / "src.model").unlink()
    refused(theirs, r"src.model cannot be read")
    theirs.config["data"]["src"]["tokenizer_cfg"] = {"model_file": None}
    refused(theirs.save(), "tokenizer_cfg.model_file is None, and a file's name was expected")
    theirs = Folder(tmp_path / "codes", pieces="codes")
    theirs.write("trg.codes", "#version: 0.2\na b\na b c\n")
    refused(theirs, r"trg.codes, line 3: 'a b c' is not a pair of pieces to merge")
    (theirs.path / "trg.codes").unlink()
    refused(theirs, r"trg.codes cannot be read")
    theirs.config["data"]["src"]["tokenizer_cfg"]["separator"] = "￭"
    refused(theirs.save(), "separator is '￭'; Dragoman supports only '@@'")


def test_damaged_files_are_refused(tmp_path):
    theirs = Folder(tmp_path / "model")
    path = theirs.path / "best.ckpt"
    path.write_bytes(path.read_bytes()[:-500])
    refused(theirs, r"best.ckpt is damaged, or is not a checkpoint of PyTorch")
    torch.save({"state": 1}, path)
    refused(theirs, r"best.ckpt has no tensors as its model_state; it is not a JoeyNMT checkpoint")
    torch.save({"model_state": {"a": 1}}, path)
    refused(theirs, r"best.ckpt has no tensors as its model_state")
    path.unlink()
    refused(theirs, "should hold one checkpoint, and has none; rename the one that is meant")
    theirs.write("config.yaml", "model: [")
    refused(theirs, r"config.yaml cannot be read as YAML: while parsing")
    theirs.write("config.yaml", "- model")
    refused(theirs, r"config.yaml holds no configuration of JoeyNMT")
    theirs.write("config.yaml", "!!python/object/apply:os.getcwd []")
    refused(theirs, r"config.yaml cannot be read as YAML: could not determine a constructor")
    theirs.write("config.yaml", "[" * 3000)
    refused(theirs, r"config.yaml cannot be read: it has lists within")
    (theirs.path / "config.yaml").unlink()
    refused(theirs, r"config.yaml cannot be read")


class Malice:
    ran = False

    def __reduce__(self):
        return run, ()


def run():
    Malice.ran = True


def test_a_checkpoint_with_other_classes_is_refused_and_not_run(tmp_path):
    theirs = Folder(tmp_path / "model")
    path = theirs.path / "best.ckpt"
    torch.save({"model_state": theirs.state, "stats_state": Malice()}, path)
    refused(theirs, r"best.ckpt holds tests.test_joeynmt.run, .*no code of the file was run")
    path.write_bytes(pickle.dumps({"model_state": Malice()}))
    refused(theirs, r"best.ckpt")
    assert not Malice.ran


def test_a_checkpoint_with_numpy_numbers_is_refused_until_they_are_removed(tmp_path):
    theirs = Folder(tmp_path / "model")
    old, new = theirs.path / "best.ckpt", theirs.path / "new"
    torch.save({"model_state": theirs.state, "best_ckpt_score": numpy.float64(3)}, old)
    refused(theirs, r"best.ckpt holds numpy.*no code of the file was run")
    torch.save({"model_state": torch.load(old, weights_only=False)["model_state"]}, new)
    new.rename(old)
    joeynmt.read(theirs.path)
