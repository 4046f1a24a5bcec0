"""WMT 2014, English to German and to French, as in the paper (section 5.1). This module is data.

Training texts are those of the shared task, in the order in which Tensor2Tensor lists them; newstest2013 is
for validation, newstest2014 (the full set, 3,003 lines) for the test. Tensor2Tensor took later versions of
News Commentary (11, then 12, then 13) for German; here it is version 9, WMT 2014's own. The hashes are those
that TensorFlow Datasets publishes; of the test archive there is only an MD5.
"""

from dragoman.text.named_datasets.archive_dataset import ArchiveDataset, ArchivePart, Text
from dragoman.text.named_datasets.archives import Archive, segments

NEWS_COMMENTARY = Archive(
    "http://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
    "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
)
COMMON_CRAWL = Archive(
    "http://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
)
EUROPARL = Archive(
    "http://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
)
GIGA = Archive(
    "http://www.statmt.org/wmt10/training-giga-fren.tar",
    "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
)
UNITED_NATIONS = Archive(
    "http://www.statmt.org/wmt13/training-parallel-un.tgz",
    "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
)
VALIDATION = Archive(
    "http://data.statmt.org/wmt19/translation-task/dev.tgz",
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)
TEST = Archive("http://www.statmt.org/wmt14/test-full.tgz")

LICENCE = "for research, as the conference offers it; each corpus has terms of its own (statmt.org/wmt14)"


def from_english(archive: Archive, stem: str, language: str, ending: str = "") -> ArchivePart:
    """The members of a corpus whose names differ in the language alone."""
    return ArchivePart(archive, f"{stem}.en{ending}", f"{stem}.{language}{ending}")


def held_out(language: str, pair: str) -> tuple[Text, Text]:
    """newstest2013 and newstest2014. `pair` is what the members' names have for the languages."""
    stem = f"test-full/newstest2014-{pair}"
    return (
        Text("newstest2013", (from_english(VALIDATION, "dev/newstest2013", language),)),
        Text(
            "newstest2014", (ArchivePart(TEST, f"{stem}-src.en.sgm", f"{stem}-ref.{language}.sgm", segments),)
        ),
    )


WMT14 = {
    "wmt14-en-de": ArchiveDataset(
        "WMT 2014 English-German, about 4.5 million pairs: News Commentary 9, Common Crawl, Europarl 7",
        LICENCE,
        ("en", "de"),
        (
            Text(
                "train",
                (
                    from_english(NEWS_COMMENTARY, "training/news-commentary-v9.de-en", "de"),
                    from_english(COMMON_CRAWL, "commoncrawl.de-en", "de"),
                    from_english(EUROPARL, "training/europarl-v7.de-en", "de"),
                ),
            ),
            *held_out("de", "deen"),
        ),
        training_bytes=1_300_000_000,
    ),
    "wmt14-en-fr": ArchiveDataset(
        "WMT 2014 English-French, the paper's 36 million pairs less those that cannot be used: Common Crawl, "
        "Europarl 7, News Commentary 9, Giga-FrEn 2, United Nations",
        LICENCE,
        ("en", "fr"),
        (
            Text(
                "train",
                (
                    from_english(COMMON_CRAWL, "commoncrawl.fr-en", "fr"),
                    from_english(EUROPARL, "training/europarl-v7.fr-en", "fr"),
                    from_english(NEWS_COMMENTARY, "training/news-commentary-v9.fr-en", "fr"),
                    from_english(GIGA, "giga-fren.release2.fixed", "fr", ".gz"),
                    from_english(UNITED_NATIONS, "un/undoc.2000.fr-en", "fr"),
                ),
            ),
            *held_out("fr", "fren"),
        ),
        training_bytes=11_000_000_000,
    ),
}
