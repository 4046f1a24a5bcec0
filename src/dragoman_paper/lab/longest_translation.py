"""Trains Transformers for a short time to reverse texts of 4 to 8 letters, and translates texts of 2 to 30 by
greedy and by beam search, with this package's default limit and with that of the authors' code. Translations
that end before the first limit are compared one by one. A model that cannot end a sentence shows the limits.
"""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from dragoman.model.interface import Model
from dragoman.model.symbols import END, PAD
from dragoman.search.beam import beam_search, greedy_search
from dragoman.search.hypothesis import NBest
from dragoman.search.settings import SearchSettings
from dragoman_paper.lab.frame.experiment import Claim, Result, verdict_of
from dragoman_paper.lab.frame.pictures import curves
from dragoman_paper.lab.parts.models import SMALL, random_sentences, random_transformer
from dragoman_paper.lab.parts.training import TINY, examples, reversing, short, train

CLAIM = Claim(
    title="The limit of a translation's length",
    section="6.1",
    claim="A limit of 100 tokens more than the source, in place of the paper's 50, changes no translation.",
    claimed_by="folklore (that decoders of toolkits stop where the paper's does: section 6.1, “input length "
    "+ 50”); Tensor2Tensor's default is 100",
    topics=("T5",),
)
PAPER = 50
LIMITS = {"this package's default": SearchSettings(), "Tensor2Tensor's": SearchSettings(max_extra_tokens=100)}
COLUMNS = ("ended before the paper's limit", "the same with 100", "reached the limit", "longer with 100")


def found(search: Callable[..., NBest], model: Model, source: Tensor) -> list[list[list[int]]]:
    """The best translations of these sentences, with each limit."""
    return [[best.ids for best, *_ in search(model, source, limit)] for limit in LIMITS.values()]


def run(quick: bool) -> Result:
    endless = random_transformer(replace(SMALL, output_bias=True, encoder_layers=1, decoder_layers=1)).float()
    endless.output_bias.data[END] = -1e4  # END is never chosen before the limit
    limits = []
    for tokens in (1, 4, 10) if quick else (1, 4, 10, 25, 50):
        lengths = [len(ids) for (ids,) in found(beam_search, endless, random_sentences([tokens + 1]))]
        limits.append({"source tokens": tokens} | dict(zip(LIMITS, lengths, strict=True)))
    seeds, updates = short(quick, 60)
    rows = []
    for seed in seeds:
        model = train(TINY, reversing(4, 8), updates, seed)
        source = examples(reversing(2, 30), seed, 20 if quick else 200).source
        longest = (source.ne(PAD).sum(1) - 1 + PAPER).tolist()  # the source counts without END
        for search in (greedy_search, beam_search):
            pairs = list(zip(longest, *found(search, model, source), strict=True))
            ended = [one == other for most, one, other in pairs if len(one) < most]
            cut = [len(one) < len(other) for most, one, other in pairs if len(one) >= most]
            counts = zip(COLUMNS, (len(ended), sum(ended), len(cut), sum(cut)), strict=True)
            rows.append({"search": search.__name__, "seed": seed} | dict(counts))
    all_ended, same, all_cut, longer = (sum(row[column] for row in rows) for column in COLUMNS)
    extra = {row["this package's default"] - row["source tokens"] for row in limits}
    picture = curves(
        "Tokens of a translation that does not end",
        "source tokens",
        "tokens",
        {name: [(row["source tokens"], row[name]) for row in limits] for name in LIMITS},
    )
    condition = "the search ends before the paper's limit" * bool(longer)
    return Result(
        {f"Texts of 2 to 30 letters after {updates} updates": rows, "A model that cannot end": limits},
        picture,
        verdict_of(same == all_ended, condition, decided=all_ended > 0 and all_cut > 0),
        f"{all_ended:,} of {all_ended + all_cut:,} translations ended before the paper's limit; {same:,} of "
        f"them are the same with 100. Of the other {all_cut}, {longer} are longer with 100. This package's "
        f"default allows {' or '.join(map(str, sorted(extra)))} tokens more than the source.",
    )
