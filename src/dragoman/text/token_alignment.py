"""A word alignment of the training text, as links between tokens beside the ids of a corpus.

A file has a line of links for each pair, `0-0 1-2`: source word, target word, counted from 0. Words are those
of `str.split`. A link of two words is a link of each token of the one with each token of the other. A token
belongs to the word in which it begins (`Tokenizer.word_ids`); END belongs to none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from dragoman.system.errors import DragomanError, OptionError, reason
from dragoman.system.machine import raise_open_file_limit
from dragoman.system.processors import map_in_processes
from dragoman.system.wording import shown
from dragoman.text.corpus import SHARD_LINES, Corpus, Files, Ids
from dragoman.text.lines import line_offsets, read_lines, read_pairs
from dragoman.text.tokenizer import Tokenizer

LINK = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
KIND = "alignment"  # in the names of the files

Links = list[tuple[int, int]]


def parse_links(line: str, pair: Sequence[str], place: str) -> Links:
    """The links of a line, as (source word, target word). `pair` is the source and the target.

    Raises `DragomanError`, which begins with `place`, for what is not a link, and for one to a word that the
    pair does not have.
    """
    counts = [len(sentence.split()) for sentence in pair]
    links = []
    for text in line.split():
        match = LINK.fullmatch(text)
        if not match:
            raise DragomanError(
                f"{place}: {shown(text)} is not a link. A link is the number of a source word, - and the "
                "number of a target word, counted from 0: 0-0 1-2."
            )
        link = int(match[1]), int(match[2])
        for side, word, count in zip(("source", "target"), link, counts, strict=True):
            if word >= count:
                raise DragomanError(
                    f"{place}: the link {text} is to word {word} of the {side}, which has {count}; words are "
                    "counted from 0."
                )
        links.append(link)
    return links


def check_alignment(alignment: Path, files: Files) -> None:
    """Check every line of a word alignment of two files.

    Raises `DragomanError` where `parse_links` does, and if the files have not as many lines.
    """
    lines = zip_longest(read_lines(alignment), read_pairs(*files))
    for index, (line, pair) in enumerate(lines):
        if line is None or pair is None:
            total = index + 1 + sum(1 for _ in lines)
            counts = (index, total) if line is None else (total, index)
            raise DragomanError(
                f"{alignment} has {counts[0]} lines, and {files[0]} and {files[1]} have {counts[1]}. Line n "
                "has to hold the links of pair n, and to be empty if there are none."
            )
        parse_links(line, pair, f"{alignment}, line {index + 1}")


def token_links(links: Links, source: Sequence[int], target: Sequence[int]) -> Ids:
    """The links [N 2] between tokens, as (target token, source token), in this order.

    `source` and `target` are the word numbers of the tokens. A link to a word without a token is left out.
    """
    last_source = max([*source, *(word for word, _ in links)], default=0)
    last_target = max([*target, *(word for _, word in links)], default=0)
    words = np.zeros((last_target + 1, last_source + 1), bool)
    for source_word, target_word in links:
        words[target_word, source_word] = True
    return np.argwhere(words[np.ix_(target, source)])


@dataclass(frozen=True)
class _Shard:
    """A range of lines of the text and its alignment, with all that a process needs to write its links."""

    folder: Path
    """Of the corpus."""
    first_line: int
    lines: int
    files: tuple[Path, ...]
    """Sources, targets and links."""
    offsets: tuple[int, ...]
    """Byte offsets of the first line in these files."""
    tokenizers: tuple[Path, Path]


def _write_shard(shard: _Shard) -> None:
    """Save the links of those pairs of a shard that the corpus has."""
    prefix = f"{shard.folder}/{shard.first_line - 1:09}"
    line_numbers = set(np.load(f"{prefix}.lines.npy").tolist())
    tokenizers = [Tokenizer.load(path) for path in shard.tokenizers]
    places = zip(shard.files, shard.offsets, strict=True)
    lines = zip(*(read_lines(*place, shard.first_line) for place in places), strict=False)
    rows = []
    for number, (*pair, links) in enumerate(islice(lines, shard.lines), shard.first_line):
        if number in line_numbers:
            words = (tokenizer.word_ids(text) for tokenizer, text in zip(tokenizers, pair, strict=True))
            place = f"{shard.files[-1]}, line {number}"
            rows.append(token_links(parse_links(links, pair, place), *words))
    links = np.concatenate([np.zeros((0, 2), np.uint16), *rows])
    dtype = np.uint16 if links.max(initial=0) < 2**16 else np.uint32
    np.save(f"{prefix}.{KIND}.npy", links.astype(dtype))
    np.save(f"{prefix}.{KIND}-offsets.npy", np.cumsum([0, *map(len, rows)], dtype=np.int64))


def write_alignment(
    folder: Path, alignment: Path, files: Files, tokenizers: tuple[Path, Path], shard_lines: int = SHARD_LINES
) -> None:
    """Write the links of a corpus beside its ids; the other arguments are those of `write_corpus`.

    The file is not compressed. Raises `DragomanError` where `parse_links` does.
    """
    paths = *files, alignment
    offsets = zip(*(line_offsets(path, shard_lines) for path in paths), strict=True)
    shards = [
        _Shard(folder, number * shard_lines + 1, shard_lines, paths, places, tokenizers)
        for number, places in enumerate(offsets)
    ]
    map_in_processes(_write_shard, shards)


class AlignedCorpus(Corpus):
    """A corpus with the links of its pairs. Raises `DragomanError` if the folder lacks them."""

    def __init__(self, folder: Path) -> None:
        names = sorted(path.name.split(".")[0] for path in folder.glob("*.source.npy"))
        raise_open_file_limit(12 * len(names))  # 5 here, 5 of the batches' corpus, and 2 of links
        super().__init__(folder)
        try:
            self._links = [self._load_side(folder, name, KIND) for name in names]
        except (OSError, ValueError) as error:
            raise OptionError(
                "{folder} has no word alignment ({reason}), which {guided_alignment} needs; begin again with "
                "another {out}.",
                folder=folder,
                reason=reason(error),
            ) from error

    def links(self, pair: int) -> Ids:
        """The links [N 2] of a pair, as (target token, source token), in this order."""
        shard, row = self._locate(pair)
        links, offsets = self._links[shard]
        return links[offsets[row] : offsets[row + 1]]
