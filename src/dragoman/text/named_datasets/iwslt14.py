"""IWSLT 2014, German to English: subtitles of talks, divided as in Ranzato et al. (2016). Data only.

Every 23rd pair of the training data is for validation; the five older sets together are the test. That work
also lowers the case, splits words into tokens, and leaves out pairs of unlike lengths; here the text stays as
it is.
"""

from dragoman.text.named_datasets.archive_dataset import ArchiveDataset, ArchivePart, Text
from dragoman.text.named_datasets.archives import Archive, segments, talk_lines

EVERY = 23
TALKS = Archive("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz")
"""The copy that fairseq offers: the address of the publisher (WIT3) has been dead since 2020."""
OLDER = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def is_valid(number: int) -> bool:
    """Whether a pair is for validation."""
    return number % EVERY == 0


def is_training(number: int) -> bool:
    """Whether a pair is for training."""
    return not is_valid(number)


TRAIN = "de-en/train.tags.de-en"

IWSLT14 = {
    "iwslt14-de-en": ArchiveDataset(
        "IWSLT 2014 German-English, about 174,000 pairs of subtitles of talks (WIT3)",
        "CC BY-NC-ND (TED's terms)",
        ("de", "en"),
        (
            Text("train", (ArchivePart(TALKS, f"{TRAIN}.de", f"{TRAIN}.en", talk_lines, is_training),)),
            Text("valid", (ArchivePart(TALKS, f"{TRAIN}.de", f"{TRAIN}.en", talk_lines, is_valid),)),
            Text(
                "test",
                tuple(
                    ArchivePart(
                        TALKS,
                        f"de-en/IWSLT14.{name}.de-en.de.xml",
                        f"de-en/IWSLT14.{name}.de-en.en.xml",
                        segments,
                    )
                    for name in OLDER
                ),
            ),
        ),
        training_bytes=33_000_000,
    )
}
