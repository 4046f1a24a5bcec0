"""The doctor finds each kind of problem, and nothing in a clean corpus."""

import random
import re
from dataclasses import replace

import pytest

from dragoman.cli.doctor import recipe_of_folder, with_languages_of_initial_model
from dragoman.pipeline.recipe import Recipe
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.system.errors import DragomanError
from dragoman.text.quality.doctor import (
    NgramModel,
    check_file,
    dominant_script,
    examine,
    log_likelihood_ratio,
)
from dragoman.text.settings import DataSettings, Languages
from dragoman.translation.model_folder import StoredModel

ENGLISH_WORDS = (
    "the a man woman dog child rides walks sees holds big small red bicycle through with under street park "
    "garden water and"
)
GERMAN_WORDS = (
    "der ein mann frau hund kind fährt läuft sieht hält groß klein rotes fahrrad durch mit unter straße park "
    "garten wasser und"
)
ENGLISH, GERMAN = ENGLISH_WORDS.split(), GERMAN_WORDS.split()


@pytest.fixture
def corpus(tmp_path):
    """300 clean pairs: the lists of lines, and a function that writes them and gives the findings."""
    words = random.Random(1)
    numbers = [[words.randrange(len(ENGLISH)) for _ in range(words.randint(5, 12))] for _ in range(300)]
    sides = [[" ".join(side[number] for number in line) for line in numbers] for side in (ENGLISH, GERMAN)]

    def found(source, target, others=None):
        paths = []
        for name, lines in (("train.en", source), ("train.de", target)):
            raw = [line if isinstance(line, bytes) else line.encode() for line in lines]
            (tmp_path / name).write_bytes(b"".join(line + b"\n" for line in raw))
            paths.append(tmp_path / name)
        return {finding.name: finding for finding in examine(*paths, others or {})}

    return *sides, found


def test_a_clean_corpus_has_no_findings(corpus):
    source, target, found = corpus
    assert found(source, target) == {}


def test_empty_files_and_files_of_other_data_are_checked(corpus, tmp_path):
    source, target, found = corpus
    for name in ("test.en", "test.de"):
        (tmp_path / name).write_bytes(b"amber\r\n")
    others = {"test": (tmp_path / "test.en", tmp_path / "test.de")}
    assert [name.rsplit("/")[-1] for name in found(source, target, others)] == [
        f"{name} with a carriage return at the end" for name in ("test.en", "test.de")
    ]
    (tmp_path / "test.en").write_bytes(b"am\rber\n")
    (inside,) = [each for name, each in found(source, target, others).items() if "inside" in name]
    assert not inside.can_be_cleaned  # clean reads this file, but does not write it
    (nothing, *_) = found([], []).values()
    assert str(nothing).endswith("train.en is empty. Training refuses it.")


@pytest.mark.short_form(7)
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda s, t: (" ", t), "Pairs with an empty side"),
        (lambda s, t: (s, s), "Pairs whose source equals their target"),
        (lambda s, t: (t, s), "Pairs with a side in the other side's language"),
        (lambda s, t: (s, "Мужчина едет на велосипеде по улице"), "Pairs with a side in another script"),
        (lambda s, t: (s, " ".join([t] * 5)), "Pairs with an unusual length ratio (by a factor of 3)"),
        (lambda s, t: (s + "\u200b", t), "with a control or an invisible character, or U+FFFD"),
        (lambda s, t: (s, t + " fÃ¼r"), "in the wrong encoding, as Ã¼ for ü"),
        (lambda s, t: (s + "\r", t), "with a carriage return at the end"),
        (lambda s, t: (s, t + "\rx"), "with a carriage return inside"),
        (lambda s, t: (s, t.encode("latin-1", "replace") + b"\xfc"), "not UTF-8, or with a NUL"),
        (lambda s, t: (s, t + "\0"), "not UTF-8, or with a NUL"),
        (lambda s, t: (" ".join([s] * 60), " ".join([t] * 60)), "with more than 250 words"),
    ],
)
def test_each_problem_is_found_with_its_line(corpus, change, name):
    source, target, found = corpus
    source[41], target[41] = change(source[41], target[41])
    finding = next(finding for told, finding in found(source, target).items() if told.endswith(name))
    assert finding.lines == [42]
    assert f"{name}: 1 (line 42). " in str(finding)


@pytest.mark.parametrize("share", [0, 1, 5, 6, 300])
def test_tokenised_lines_are_found_if_they_are_not_a_few_slips(corpus, share):
    source, target, found = corpus
    for number in range(share):
        source[number] += " ."
    (tokenised,) = [each for name, each in found(source, target).items() if "tokenised" in name] or [None]
    assert (tokenised and (tokenised.count, tokenised.can_be_cleaned)) == (
        (share, False) if share > 5 else None
    )


def test_duplicates_of_earlier_pairs_are_found(corpus):
    source, target, found = corpus
    for number in (10, 20, 30):
        source[number], target[number] = source[5] + " ", target[5]
    finding = found(source, target)["Duplicates of earlier pairs"]
    assert (finding.count, finding.lines) == (3, [11, 21, 31])


def test_pairs_with_an_empty_side_are_no_duplicates(corpus):
    source, target, found = corpus
    for number in (10, 20, 30):
        source[number] = target[number] = ""
    for number in (40, 50):
        source[number], target[number] = "", target[5]
    findings = found(source, target)
    assert not [name for name in findings if "uplicates" in name]
    assert findings["Pairs with an empty side"].count == 5


def test_blank_lines_of_other_data_are_no_overlap(corpus, tmp_path):
    source, target, found = corpus
    source[10], target[20] = "", " "
    for name in ("test.en", "test.de"):
        (tmp_path / name).write_text("\n  \n")
    findings = found(source, target, {"test": (tmp_path / "test.en", tmp_path / "test.de")})
    assert list(findings) == ["Pairs with an empty side"]


def test_a_ratio_is_unusual_beside_those_of_the_corpus(corpus):
    source, target, found = corpus
    target = [" ".join([line] * 4) for line in target]
    assert found(source, target) == {}
    target[41] = target[41][: len(source[41])]
    (finding,) = [each for name, each in found(source, target).items() if "length ratio" in name]
    assert finding.lines == [42]


def test_a_file_whose_only_line_ends_are_carriage_returns_gets_its_remedy(corpus):
    source, target, found = corpus
    remedy = "whose only line ends are carriage returns"
    (inside,) = [each for name, each in found(["a\rb"], ["c"]).items() if "inside" in name]
    assert remedy in inside.consequence
    (inside,) = [each for name, each in found(["a\rb", *source], ["c", *target]).items() if "inside" in name]
    assert remedy not in inside.consequence


def test_a_pair_is_a_duplicate_or_a_near_duplicate_and_not_both(corpus):
    source, target, found = corpus
    for number in (10, 20):
        source[number], target[number] = source[5] + "!", target[5]
    findings = found(source, target)
    assert findings["Near-duplicates of earlier pairs"].lines == [11]
    assert findings["Duplicates of earlier pairs"].lines == [21]


def test_near_duplicates_of_earlier_pairs_are_found(corpus):
    source, target, found = corpus
    source[10], target[10] = source[5].title() + " !", target[5]
    source[20], target[20] = source[5], target[5]
    findings = found(source, target)
    assert findings["Near-duplicates of earlier pairs"].lines == [11]
    assert findings["Duplicates of earlier pairs"].lines == [21]


def test_lines_without_a_counterpart_are_reported_with_both_counts(corpus):
    source, target, found = corpus
    name = next(iter(found(source, target[:-2])))
    assert "has 300 lines" in name
    assert name.endswith(" 298)")


@pytest.mark.parametrize("missing", [1, 2, 7])
@pytest.mark.parametrize("side", [0, 1])
def test_lines_without_a_counterpart_are_counted_from_the_first(corpus, side, missing):
    sides, found = list(corpus[:2]), corpus[2]
    sides[side] = sides[side][:-missing]
    finding = next(iter(found(*sides).values()))
    assert (finding.count, finding.lines) == (missing, [301 - missing])


def test_a_byte_order_mark_is_an_invisible_character_but_at_the_beginning(corpus):
    source, target, found = corpus
    source[0], source[4] = f"\ufeff{source[0]}", f"\ufeff{source[4]}"
    (finding,) = found(source, target).values()
    assert "with a control or an invisible character" in finding.name
    assert finding.lines == [5]


@pytest.mark.parametrize(
    "line", ["1 234 567 890 123 456 789", "+49 (0)30 123 456 - 789", "............... ! ?"]
)
def test_a_line_without_letters_is_in_no_other_script(corpus, line):
    source, target, found = corpus
    source[7], target[7] = f"{line} 0", line
    assert found(source, target) == {}


def test_the_beginning_of_a_long_text_does_not_decide_what_is_usual(corpus, monkeypatch):
    source, target, found = corpus
    monkeypatch.setattr("dragoman.text.quality.doctor.SAMPLE_PAIRS", 20)
    strange = "Мужчина едет на велосипеде по улице и видит собаку номер"
    source[:20] = [f"{strange} {'I' * number}" for number in range(1, 21)]
    finding = found(source, target)["Pairs with a side in another script"]
    assert (finding.count, finding.lines) == (20, [1, 2, 3, 4, 5])


def test_lines_of_other_data_without_a_counterpart_are_reported(corpus, tmp_path):
    source, target, found = corpus
    (tmp_path / "test.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "test.de").write_text("eins\nzwei\n")
    others = {"test": (tmp_path / "test.en", tmp_path / "test.de")}
    (finding,) = found(source, target, others).values()
    assert str(finding).startswith(f"Lines without a counterpart ({tmp_path / 'test.en'} has 3 lines, ")
    assert finding.lines == [3]


def test_overlap_with_other_data_is_found_on_each_side(corpus, tmp_path):
    source, target, found = corpus
    (tmp_path / "test.en").write_text(f"something else\n{source[7]}\n")
    (tmp_path / "test.de").write_text(f"{target[3]}\netwas anderes\n")
    findings = found(source, target, {"test": (tmp_path / "test.en", tmp_path / "test.de")})
    assert findings["Pairs whose source is in the test data too"].lines == [8]
    assert findings["Pairs whose target is in the test data too"].lines == [4]


def test_a_byte_order_mark_hides_no_finding(corpus, tmp_path):
    source, target, found = corpus
    copied, _, *rest = source
    source, test = ["Berlin", "Berlin", copied, *rest], [f"\ufeff{copied}", "something else"]
    target = ["\ufeffBerlin", "Berlin", *target[1:]]
    (tmp_path / "test.en").write_text("\n".join(test) + "\n", "utf-8")
    (tmp_path / "test.de").write_text("etwas\nanderes\n")
    findings = found(source, target, {"test": (tmp_path / "test.en", tmp_path / "test.de")})
    assert findings["Pairs whose source equals their target"].lines == [1, 2]
    assert findings["Duplicates of earlier pairs"].lines == [2]
    assert findings["Pairs whose source is in the test data too"].lines == [3]


def test_a_finding_shows_at_most_five_lines(corpus):
    source, target, found = corpus
    source[:9] = [""] * 9
    finding = found(source, target)["Pairs with an empty side"]
    assert str(finding) == "Pairs with an empty side: 9 (lines 1, 2, 3, 4, 5 …). Training leaves them out."


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(DragomanError, match="cannot be read"):
        examine(tmp_path / "none", tmp_path / "none", {})


def test_the_dominant_script_is_that_of_most_letters():
    assert [dominant_script(text) for text in ("Hello", "Straße", "Привет", "12 !", "日本")] == [
        "LATIN",
        "LATIN",
        "CYRILLIC",
        "",
        "CJK",
    ]
    assert {dominant_script(text) for text in ("漢字", "ひらがな", "カタカナ", "ーーー")} == {"CJK"}


def test_a_side_is_reported_if_the_other_language_is_likelier_by_half_a_nat_a_character(corpus):
    source, target, found = corpus
    for number in range(0, len(source), 4):  # more and more words of the other language
        words, others = source[number].split(), target[number].split()
        kept = number // 4 % (len(words) + 1)
        source[number] = " ".join([*words[:kept], *others[kept:]])
    gain = log_likelihood_ratio(NgramModel(source), NgramModel(target))

    def suspected(nats):
        sides = ((source, 1), (target, -1))
        return [
            number
            for number in range(len(source))
            if any(
                len(side[number]) >= 15 and sign * gain(side[number]) > nats * len(side[number])
                for side, sign in sides
            )
        ]

    assert len(suspected(0.2)) > len(suspected(0.5)) > len(suspected(1.0))
    (finding,) = (
        one
        for one in found(source, target).values()
        if one.name == "Pairs with a side in the other side's language"
    )
    assert finding.count == len(suspected(0.5))
    assert finding.lines == [number + 1 for number in suspected(0.5)[:5]]


@pytest.mark.parametrize(
    ("raw", "advice"),
    [
        ("a b\nc d\n".encode("utf-16"), "which is UTF-16; convert it: iconv -f utf-16 -t utf-8."),
        (b"a b\rc d\r", "whose only line ends are carriage returns: tr"),
    ],
)
def test_other_encodings_and_line_ends_are_named(tmp_path, raw, advice):
    (tmp_path / "train.en").write_bytes(raw)
    form, _ = check_file(tmp_path / "train.en")
    assert any(advice in finding.consequence for finding in form if finding.count)


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({}, "train.de"),
        ({"source_language": "en"}, "train.en"),
        ({"source_language": "de"}, "train.de"),
        ({"target_language": "de"}, "train.en"),
        ({"target_language": "en-GB"}, "train.de"),
        ({"source_language": "en-GB", "target_language": "de"}, "train.en"),
        ({"source_language": "en-GB"}, "train.en"),
        ({"source_language": "fr"}, "train.de"),
    ],
)
def test_the_languages_of_a_folder_say_its_direction(given, source, tmp_path):
    for name in ("train.de", "train.en", "test.de", "test.en"):
        (tmp_path / name).write_text("a\n")
    data = recipe_of_folder(tmp_path, given).data
    other = {"train.de": "train.en", "train.en": "train.de"}[source]
    assert (str(data.source), str(data.target)) == (source, other)
    assert str(data.test_source) == source.replace("train", "test")


@pytest.mark.parametrize("train", ["", ".gz", ".zst"])
@pytest.mark.parametrize("other", ["", ".gz", ".zst"])
def test_a_folder_has_its_validation_and_test_texts_however_they_are_packed(tmp_path, train, other):
    for kind, ending in (("train", train), ("valid", other), ("test", other)):
        for side in ("de", "en"):
            (tmp_path / f"{kind}.{side}{ending}").touch()
    data = recipe_of_folder(tmp_path, {}).data
    named = {name: str(getattr(data, name)) for name in ("source", "valid_source", "test_source")}
    assert named == {"source": "train.de", "valid_source": "valid.de", "test_source": "test.de"}
    targets = {str(each) for each in (data.target, data.valid_target, data.test_target)}
    assert targets == {"train.en", "valid.en", "test.en"}


def shared_lines(folder, shared):
    """Two corpora and old text, of which one has the pair of the test text, and a recipe of each kind."""
    for number, name in enumerate(("one", "two", "old", "test")):
        pair = "the test line\tdie Testzeile\n" * (name in (shared, "test"))
        (folder / f"{name}.tsv").write_text(f"line {number} of a text\tZeile {number} im Text\n{pair}")
    corpora = "".join(f"[[data.corpus]]\nsource = 'FOLDER/{name}.tsv'\n" for name in ("one", "two"))
    adaptation = "[adaptation]\ninitial_model = 'FOLDER/none'\nreplay = ['FOLDER/old.tsv']\n"
    recipe = folder / "recipe.toml"
    recipe.write_text(
        f"[data]\ntest_source = 'FOLDER/test.tsv'\n{corpora}{adaptation}".replace("FOLDER", str(folder))
    )
    return recipe


@pytest.mark.parametrize("shared", ["one", "two", "old", None])
def test_the_test_data_is_compared_with_each_corpus_and_the_text_to_replay(tmp_path, command_line, shared):
    status, out, err = command_line("doctor", shared_lines(tmp_path, shared))
    assert status == int(shared is not None), err
    assert out.count("test") >= bool(shared)
    parts = re.split(r"^(?:Corpus \d.*|The text to replay:)\n", out, flags=re.MULTILINE)[1:]
    assert [name for name, part in zip(("one", "two", "old"), parts, strict=True) if "verlap" in part] == [
        shared
    ] * bool(shared)


@pytest.mark.parametrize("own", [{}, {"source_language": "fr", "target_language": "it"}])
def test_languages_of_a_recipe_win_over_those_of_its_initial_model(tmp_path, trained, own):
    model = tmp_path / "model"
    replace(StoredModel.load(trained / "run"), languages=Languages("en", "de")).save(model)
    recipe = Recipe(data=DataSettings(**own), adaptation=AdaptationSettings(initial_model=model))
    found = with_languages_of_initial_model(recipe).data
    wanted = own or {"source_language": "en", "target_language": "de"}
    assert {name: getattr(found, name) for name in wanted} == wanted
