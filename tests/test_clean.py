"""`dragoman clean`: what it removes, that it says so, and that nothing is left to remove."""

import gzip
import json
import math
import re
import shlex
import statistics
import sys
import tempfile
import tracemalloc
import unicodedata
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.system import progress
from dragoman.system.errors import DragomanError
from dragoman.text.quality.checks import near_form
from dragoman.text.quality.clean_settings import CHANGES, REASONS, CleanSettings
from dragoman.text.quality.cleaning import changed, clean_files, file_names
from dragoman.text.quality.doctor import examine
from dragoman.text.quality.escapes import decode_again, has_mojibake
from dragoman.text.settings import Languages

ENGLISH = (
    "a man rides a red bicycle through the park",
    "the children are playing with their dog in the garden",
    "two women walk slowly along the street and talk",
    "she holds a small bottle of water under the bridge",
)
GERMAN = (
    "ein mann fährt mit einem roten fahrrad durch den park",
    "die kinder spielen mit ihrem hund im garten",
    "zwei frauen gehen langsam die straße entlang und reden",
    "sie hält eine kleine flasche wasser unter der brücke",
)
NAMES = ("anna", "bert", "carla", "david", "emil", "frida", "georg", "hanna", "ida", "jonas")
OTHERS, EN_DE = ([], []), Languages("en", "de")
BROKEN = {
    "encoding": (lambda s, t: (s, (t + " ü").encode("latin-1"))),
    "empty": (lambda s, t: (s, " ")),
    "copies": (lambda s, t: ("der zug", "der zug")),
    "control": (lambda s, t: (s + " \u200b", t)),
    "mojibake": (lambda s, t: (s, f"{mojibake(t + ' für')} â€")),
    "language": (lambda s, t: (s, "les enfants jouent avec leur chien dans le jardin")),
    "max_words": (lambda s, t: (" ".join([s] * 40), " ".join([t] * 40))),
    "max_ratio": (lambda s, t: (s, " ".join([t] * 5))),
}
"""What breaks a pair, by the reason for which it is removed."""


def mojibake(text):
    """A text whose UTF-8 is read as Windows-1252, or as Latin-1 where that has no such character."""
    return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in text.encode())


def clean_corpus():
    """40 clean pairs without near-duplicates."""
    return [
        (f"{name} said: {source}", f"{name} sagte: {target}")
        for name in NAMES
        for source, target in zip(ENGLISH, GERMAN, strict=True)
    ]


def write(folder, pairs):
    """Write pairs of texts or bytes to train.en and train.de."""
    folder.mkdir(exist_ok=True)
    files = folder / "train.en", folder / "train.de"
    for path, side in zip(files, zip(*pairs, strict=True), strict=True):
        raw = [line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass") for line in side]
        path.write_bytes(b"".join(line + b"\n" for line in raw))
    return files


def contents(folder):
    """The kept lines of both files, the removed pairs and the report."""
    kept = [(folder / name).read_bytes() for name in ("train.en", "train.de")]
    removed = [json.loads(line) for line in (folder / "removed.jsonl").read_text().splitlines()]
    return kept, removed, json.loads((folder / "report.json").read_text())


def cleaned(files, out, others=OTHERS, languages=EN_DE, **switches):
    clean_files(files, out, CleanSettings(**switches), languages, others)
    return contents(out)


@pytest.mark.short_form(1)
@pytest.mark.parametrize("number", [4, 6])
def test_the_report_shows_the_first_five_pairs_of_a_reason_or_a_change_and_counts_all(tmp_path, number):
    pairs = clean_corpus()
    pairs[:number] = [(source, " ") for source, _ in pairs[:number]]
    pairs[20 : 20 + number] = [(f"&lt;{source}", target) for source, target in pairs[20 : 20 + number]]
    _, removed, report = cleaned(write(tmp_path, pairs), tmp_path / "out")
    empty, entities = report["reasons"]["empty"], report["changes"]["entities"]
    assert len(removed) == empty["count"] == entities["count"] == number
    assert empty["sample"] == removed[:5]
    assert [each["line"] for each in entities["sample"]] == list(range(21, 21 + min(5, number)))


@pytest.fixture
def dirty(tmp_path):
    """A corpus with a broken pair for each reason, by its line, and a test set; the files and the reasons."""
    pairs, expected = clean_corpus(), {}
    for place, (name, change) in enumerate(BROKEN.items(), 5):
        pairs[place] = change(*pairs[place])
        expected[place + 1] = [name]
    (tmp_path / "test.en").write_text(pairs[20][0].upper() + "!\n")
    (tmp_path / "test.de").write_text(pairs[21][1] + "\n")
    expected |= {21: ["overlap"], 22: ["overlap"]}
    pairs[30], pairs[31] = (pairs[0][0] + " ", pairs[0][1]), (pairs[1][0].title() + ".", pairs[1][1] + " ?")
    expected |= {31: ["duplicates"], 32: ["near_duplicates"]}
    return write(tmp_path, pairs), expected, ([tmp_path / "test.en"], [tmp_path / "test.de"])


def test_removed_bytes_that_are_not_text_can_be_read(tmp_path):
    files = write(tmp_path, [*clean_corpus(), (b"caf\xe9 \xff", "Café")])
    _, (removed,), _ = cleaned(files, tmp_path / "out", near_duplicates=False, duplicates=False)
    assert (removed["source"], removed["target"]) == (r"caf\xe9 \xff", "Café")


def test_each_problem_is_removed_with_its_line_and_reason(dirty, tmp_path):
    files, expected, others = dirty
    kept, removed, report = cleaned(files, tmp_path / "out", others)
    assert {record["line"]: record["reasons"] for record in removed} == expected
    assert {name: part["count"] for name, part in report["reasons"].items()} == {
        name: sum(name in reasons for reasons in expected.values()) for name in REASONS
    }
    for name, part in report["reasons"].items():
        assert part["sample"] == [record for record in removed if name in record["reasons"]]
    assert (report["pairs"], report["kept"]) == (40, 40 - len(expected))
    for path, left in zip(files, kept, strict=True):
        lines = path.read_bytes().splitlines(keepends=True)
        assert left == b"".join(line for n, line in enumerate(lines, 1) if n not in expected)


def test_a_byte_order_mark_of_the_test_data_hides_no_overlap(dirty, tmp_path):
    files, _, (test_source, test_target) = dirty
    pairs = clean_corpus()
    for path, line in zip((*test_source, *test_target), pairs[25], strict=True):
        path.write_text(f"\ufeff{line}\n", "utf-8")
    _, removed, _ = cleaned(files, tmp_path / "out", (test_source, test_target), near_duplicates=False)
    assert [record["line"] for record in removed if "overlap" in record["reasons"]] == [26]


def test_doctor_finds_nothing_in_what_is_left(dirty, tmp_path):
    files, _, (test_source, test_target) = dirty
    cleaned(files, tmp_path / "out", (test_source, test_target))
    others = {"test": (*test_source, *test_target)}
    assert examine(*(tmp_path / "out" / path.name for path in files), others) == []


@pytest.mark.parametrize("name", REASONS)
def test_each_check_is_a_switch_of_its_own(dirty, tmp_path, name):
    files, expected, others = dirty
    off = 0 if name.startswith("max") else False
    _, removed, report = cleaned(files, tmp_path / "out", others, **{name: off})
    left = {line: reasons for line, reasons in expected.items() if reasons != [name]}
    if name == "near_duplicates":  # overlap, too, is then exact
        del left[21]
    if name == "duplicates":  # near-duplicates are not the same as duplicates
        assert 31 not in left
    assert {record["line"]: record["reasons"] for record in removed} == left
    assert name not in report["reasons"]


PIECES = [
    *("a", "B", "ß", "1", "2", ".", " ", "word", "das ist ein satz", "this is a sentence", "Ã¼", "\u200b"),
    *("\0", "\r", "\ud800", "日本語", "\u00a0", "x" * 40, " y" * 20),
]
LINES = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
SWITCHES = st.fixed_dictionaries(
    {
        field.name: st.sampled_from([0, 2, 30]) if field.name.startswith("max") else st.booleans()
        for field in fields(CleanSettings)
    }
)


def test_a_pair_is_changed_also_where_a_side_is_not_text(tmp_path):
    files = write(tmp_path, [*clean_corpus(), ("a &lt; fÃ¼r", b"caf\xe9")])
    kept, removed, report = cleaned(files, tmp_path / "out", encoding=False)
    assert not removed
    assert [side.splitlines()[-1] for side in kept] == ["a < für".encode(), b"caf\xe9"]
    for name in ("entities", "mojibake"):
        (sample,) = report["changes"][name]["sample"]
        assert (sample["before"], sample["after"]) == (["a &lt; fÃ¼r", r"caf\xe9"], ["a < für", r"caf\xe9"])


CHANGED = st.lists(st.sampled_from(["a &lt; b", "fÃ¼r", "x @-@ y", "one"]), min_size=1, max_size=2)
CHANGED_PAIRS = st.lists(st.tuples(*[CHANGED.map(" ".join)] * 2), min_size=1, max_size=6)


@settings(max_examples=20)
@given(CHANGED_PAIRS, st.fixed_dictionaries(dict.fromkeys(CHANGES, st.booleans())))
def test_a_change_is_counted_where_it_alone_makes_a_difference(tmp_path_factory, pairs, switches):
    folder = tmp_path_factory.mktemp("changes")
    off = {field.name: 0 if field.name.startswith("max") else False for field in fields(CleanSettings)}
    kept, removed, report = cleaned(write(folder / "0", pairs), folder / "1", **(off | switches))
    assert not removed
    wanted = CleanSettings(**(off | switches))
    for side, texts in zip(kept, zip(*pairs, strict=True), strict=True):
        assert side.decode().splitlines() == [changed(text, wanted) for text in texts]
    counts = {}
    for name in filter(switches.get, CHANGES):
        alone = CleanSettings(**(off | {name: True}))
        counts[name] = sum(any(changed(side, alone) != side for side in pair) for pair in pairs)
    assert {name: group["count"] for name, group in report["changes"].items()} == counts


CORPORA = st.lists(st.tuples(LINES, LINES), max_size=12)


@settings(max_examples=8)
@given(CORPORA, SWITCHES)
def test_cleaning_what_was_cleaned_removes_nothing(pairs, switches):
    with tempfile.TemporaryDirectory() as folder:
        check_that_nothing_is_left_to_remove(Path(folder), [*pairs, ("hello", "hallo")], switches)


@pytest.mark.long
@settings(max_examples=500)
@given(CORPORA, SWITCHES)
def test_cleaning_any_corpus_twice_removes_nothing(pairs, switches):
    with tempfile.TemporaryDirectory() as folder:
        check_that_nothing_is_left_to_remove(Path(folder), [*pairs, ("hello", "hallo")], switches)


def check_that_nothing_is_left_to_remove(folder, pairs, switches):
    files = write(folder, pairs)
    (folder / "test.en").write_text("this is a sentence\n")
    others = ([folder / "test.en"], [])
    kept, removed, report = cleaned(files, folder / "1", others, **switches)
    assert len(removed) + kept[0].count(b"\n") == len(pairs) == report["pairs"]
    again = cleaned((folder / "1" / "train.en", folder / "1" / "train.de"), folder / "2", others, **switches)
    assert (again[0], again[1]) == (kept, [])
    assert again[2]["length_ratio"] == report["length_ratio"]


SIZES = st.sampled_from([1, 20, 31, 40, 50, 63, 80, 100, 126, 160, 200])
SIZED_PAIRS = st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=4).flatmap(
    lambda sizes: st.lists(st.tuples(st.sampled_from(sizes), st.sampled_from(["", "!", "A"])), max_size=14)
)
"""Sizes of the sides of pairs, which occur several times, and what both sides end with."""


def expected_reasons(pairs, max_ratio, duplicates, near_duplicates):
    """Why each of the pairs is removed, and the median of the ratios of the others, found plainly."""
    ratios = [math.log(len(target) / len(source)) for source, target in pairs]
    outliers = set()
    while True:
        found = dict.fromkeys(outliers, "max_ratio")
        seen, first_of_form = set(), {}
        for number, pair in enumerate(pairs):
            if number not in outliers:
                first = first_of_form.setdefault(tuple(map(near_form, pair)), pair)
                if duplicates and pair in seen:
                    found[number] = "duplicates"
                elif near_duplicates and first != pair:
                    found[number] = "near_duplicates"
                seen.add(pair)
        kept = [ratio for number, ratio in enumerate(ratios) if number not in found]
        median = statistics.median(kept) if kept else 0.0
        far = {
            number
            for number, (pair, ratio) in enumerate(zip(pairs, ratios, strict=True))
            if max(map(len, pair)) > 30 and max_ratio and abs(ratio - median) > math.log(max_ratio)
        }
        if far <= outliers:
            return found, median
        outliers |= far


@settings(max_examples=30)
@given(
    sizes=SIZED_PAIRS,
    max_ratio=st.sampled_from([0, 1.27, 1.53, 2.1, 3.1]),
    duplicates=st.booleans(),
    near_duplicates=st.booleans(),
)
@example(
    sizes=[((31, 40), ""), ((31, 40), "!"), ((31, 40), "!")],
    max_ratio=0,
    duplicates=True,
    near_duplicates=True,
)
@example(  # the first pair is far from the first median alone
    sizes=[((100, 63), ""), ((80, 1), ""), ((40, 1), ""), ((200, 50), "")],
    max_ratio=1.53,
    duplicates=False,
    near_duplicates=False,
)
@example(sizes=[((20, 31), ""), ((31, 20), "")], max_ratio=0, duplicates=True, near_duplicates=False)
@example(sizes=[((20, 31), ""), ((31, 20), "")], max_ratio=0, duplicates=False, near_duplicates=True)
def test_reasons_and_figures_are_those_of_plain_repetition(
    tmp_path_factory, sizes, max_ratio, duplicates, near_duplicates
):
    folder = tmp_path_factory.mktemp("sized")
    sizes = [*sizes, ((9, 9), "c")]
    pairs = [("a" * source + end, "a" * target + end) for (source, target), end in sizes]
    switches = {"duplicates": duplicates, "near_duplicates": near_duplicates, "max_ratio": max_ratio}
    switches |= {"language": False, "copies": False}
    kept, removed, report = cleaned(write(folder / "0", pairs), folder / "1", **switches)
    expected, median = expected_reasons(pairs, max_ratio, duplicates, near_duplicates)
    assert {record["line"] - 1: record["reasons"] for record in removed} == {
        number: [reason] for number, reason in expected.items()
    }
    left = [pair for number, pair in enumerate(pairs) if number not in expected]
    assert list(zip(*(side.decode().splitlines() for side in kept), strict=True)) == left
    assert report["length_ratio"] == pytest.approx(math.exp(median), abs=1e-4)
    assert (report["pairs"], report["kept"]) == (len(pairs), len(left))
    assert {name: group["count"] for name, group in report["reasons"].items() if group["count"]} == Counter(
        expected.values()
    )
    again = cleaned((folder / "1" / "train.en", folder / "1" / "train.de"), folder / "2", **switches)
    assert again[:2] == (kept, [])


@settings(max_examples=20)
@given(st.lists(st.integers(0, 4), min_size=80, max_size=80))
def test_any_number_of_carriage_returns_may_stand_before_a_line_feed(tmp_path_factory, returns):
    folder = tmp_path_factory.mktemp("returns")
    pairs = clean_corpus()
    ends = iter(returns)
    ended = [[side.encode() + b"\r" * next(ends) for side in pair] for pair in pairs]
    found = cleaned(write(folder / "0", ended), folder / "1", language=False)
    assert found == cleaned(write(folder / "2", pairs), folder / "3", language=False)
    assert found[1] == []


@pytest.mark.parametrize("most", [3, 250])
def test_a_side_may_have_as_many_words_as_the_maximum(tmp_path, most):
    pairs = [(" ".join(NAMES[:2] * most), "kurz"), (" ".join("x" * most), "ix"), ("y " * most + "y", "why")]
    _, removed, _ = cleaned(
        write(tmp_path, pairs), tmp_path / "out", max_words=most, max_ratio=0, language=False
    )
    assert [record["line"] for record in removed if "max_words" in record["reasons"]] == [1, 3]


def test_white_space_around_a_short_line_does_not_make_its_language_known(tmp_path):
    pairs = [*clean_corpus(), ("the green tree", "la casa verde" + " " * 20)]
    assert cleaned(write(tmp_path, pairs), tmp_path / "out")[1] == []


@pytest.mark.parametrize("code", ["und", "tlh", "xx"])
def test_a_language_that_the_identifier_does_not_know_is_not_checked(dirty, tmp_path, code):
    _, removed, _ = cleaned(dirty[0], tmp_path / "out", languages=Languages("en", code))
    assert "language" not in [reason for record in removed for reason in record["reasons"]]


def test_a_variety_of_a_language_is_checked_as_the_language(dirty, tmp_path):
    found = cleaned(dirty[0], tmp_path / "out")[:2]
    assert cleaned(dirty[0], tmp_path / "other", languages=Languages("en-US", "de-Latn-AT"))[:2] == found


@pytest.mark.parametrize("ratio", [-1.0, 0.5, 1.0, 1e7, math.inf, math.nan])
def test_a_ratio_that_would_remove_what_is_usual_is_refused(ratio):
    with pytest.raises(DragomanError, match="max_ratio is"):
        CleanSettings(max_ratio=ratio)
    assert {CleanSettings(max_ratio=each).max_ratio for each in (0.0, 1.5)} == {0.0, 1.5}


def test_a_pair_of_empty_sides_is_empty_and_nothing_else(tmp_path):
    pairs = [*clean_corpus(), ("", ""), (" ", " "), ("", "x")]
    (tmp_path / "test.en").write_text("\n")
    _, removed, _ = cleaned(write(tmp_path, pairs), tmp_path / "out", ([tmp_path / "test.en"], []))
    assert [record["reasons"] for record in removed] == [["empty"]] * 3


def test_gzip_crlf_and_byte_order_marks_change_nothing(dirty, tmp_path):
    files, _, others = dirty
    folder = tmp_path / "other"
    folder.mkdir()
    for path in files:
        raw = b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(raw))
    packed = folder / "train.en.gz", folder / "train.de.gz"
    assert cleaned(packed, tmp_path / "1", others) == cleaned(files, tmp_path / "2", others)


def test_the_median_of_the_ratio_is_that_of_the_pairs_that_are_kept(tmp_path):
    pairs = [
        (f"{'a' * 40} {word}", f"{'b' * length} {word}")
        for word, length in zip(NAMES, [40] * 6 + [400] * 4, strict=True)
    ]
    _, removed, report = cleaned(write(tmp_path, pairs), tmp_path / "out", languages=Languages())
    assert [record["line"] for record in removed] == [7, 8, 9, 10]
    assert report["length_ratio"] == 1


def test_memory_is_a_hundred_bytes_a_pair_and_not_the_lines(tmp_path):
    wanted = CleanSettings(language=False, near_duplicates=False)

    def peak(count):
        pairs = [(f"{'amber ' * 80}{number}", f"{'birch ' * 80}{number}") for number in range(count)]
        files = write(tmp_path / str(count), pairs)
        tracemalloc.start()
        clean_files(files, tmp_path / str(count) / "out", wanted, EN_DE, OTHERS)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(100)  # what is made once
    assert peak(1_500) - peak(500) < 1_000 * 120  # of pairs of a thousand bytes


def test_files_of_one_name_get_two(tmp_path):
    for side in ("en", "de"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "train.txt").write_text(f"a sentence of {side}\n")
    files = tmp_path / "en" / "train.txt", tmp_path / "de" / "train.txt"
    report = clean_files(files, tmp_path / "out", CleanSettings(), Languages(), OTHERS)
    assert (report.source, report.target) == ("source.train.txt", "target.train.txt")
    assert (tmp_path / "out" / "target.train.txt").read_text() == "a sentence of de\n"


def test_files_that_are_written_are_not_named_as_compressed():
    assert file_names((Path("a.en.gz"), Path("a.de.zst"))) == ("a.en", "a.de")


def test_a_file_named_as_the_report_does_not_replace_it(tmp_path):
    files = [
        path.rename(tmp_path / name)
        for path, name in zip(write(tmp_path, clean_corpus()), ("report.json", "b"), strict=True)
    ]
    report = clean_files(tuple(files), tmp_path / "out", CleanSettings(), Languages(), OTHERS)
    assert (report.source, report.target) == ("source.report.json", "target.b")


def test_progress_is_told_now_and_then(tmp_path, monkeypatch, messages):
    monkeypatch.setattr(progress, "REPORT_EVERY", 0.0)
    clean_files(write(tmp_path, clean_corpus()), tmp_path / "out", CleanSettings(), EN_DE, OTHERS)
    assert messages[-1] == "39 of 40 pairs are checked; 0 more minutes."


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Hello, world!", "hello World", True),
        ("Page 12", "page 34.", True),
        ("Page 12", "Page 123", False),
        ("ﬁne Straße", "FINE STRASSE", True),
        ("करता", "करती", False),  # marks of vowels
        ("dass", "das", False),
        ("?!", "...", False),
        ("😀 I see", "I see", True),
    ],
)
def test_what_near_duplicates_have_in_common(one, other, same):
    assert (near_form(one) == near_form(other)) is same


@given(st.text(max_size=6) | st.text("ﬁＲａ½é ㎏ｶﾞ", max_size=6))
def test_a_line_is_near_itself_in_every_form_of_unicode(line):
    forms = [unicodedata.normalize(form, line) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert {near_form(each) for each in forms if each.strip()} <= {near_form(line)}


@given(st.text("aB1.…é \t\u00a0", max_size=6), st.text(" \t\u00a0", max_size=2))
def test_white_space_around_a_line_is_nothing_to_near_duplicates(line, space):
    assert near_form(f"{space}{line}{space}") == near_form(line)


CORRECT = [
    "„Das macht Spaß“, sagte sie – “sehr”… É» «Â la carte» 20 £ São Paulo, AMANHÃ",
    "Nous dînâmes à l’hôtel : « très bien », fit-il, naïf, où ça ?",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "Zażółć gęślą jaźń",
    "Ağır ağır çıkacaksın bu merdivenlerden",
    "Съешь ещё этих мягких французских булок",
    "Ταχίστη αλώπηξ",
    "いろはにほへと",
    "Árvíztűrő tükörfúrógép",
    "Það er gott að sjá þig",
    "it’s 5 € 😀",
]


@pytest.mark.parametrize("text", CORRECT)
def test_mojibake_is_found_and_decoded_in_every_script_and_correct_text_is_left(text):
    assert not has_mojibake(text)
    assert decode_again(text) == text
    for wrong in (mojibake(text), mojibake(mojibake(text))):
        assert has_mojibake(wrong)
        assert decode_again(wrong) == text


@given(st.text([*"aé&;@ -", *mojibake("für „ein“ Ωж—あ😀")], max_size=12))
def test_a_line_that_was_changed_stays_as_it_is(line):
    once = changed(line, CleanSettings())
    assert changed(once, CleanSettings()) == once


def test_decoded_pairs_are_kept_and_counted(tmp_path):
    pairs = clean_corpus()
    wrong = [
        (source, mojibake(target) if number < 7 else target) for number, (source, target) in enumerate(pairs)
    ]
    kept, removed, report = cleaned(write(tmp_path / "wrong", wrong), tmp_path / "out")
    expected, _, _ = cleaned(write(tmp_path / "right", pairs), tmp_path / "out-right")
    assert kept == expected
    assert not removed
    number = sum(mojibake(target) != target for _, target in pairs[:7])
    assert report["changes"]["mojibake"]["count"] == number > 0
    kept, removed, _ = cleaned(write(tmp_path / "wrong", wrong), tmp_path / "out-off", mojibake=False)
    assert not removed
    assert kept[1] == "".join(f"{target}\n" for _, target in wrong).encode()


# ---- the command line


def test_the_verb_prints_a_table_or_json(dirty, tmp_path, command_line):
    files, expected, (test_source, test_target) = dirty
    asked = ("clean", *files, "--test-source", *test_source, "--test-target", *test_target)
    status, out, err = command_line(*asked, "--out", tmp_path / "1")
    assert status == 0
    assert all(name in out for name in REASONS)
    assert f"has {40 - len(expected)} of 40 pairs. Removed: {len(expected)}; their reasons are in" in err
    _, out, _ = command_line(*asked, "--out", tmp_path / "2", "--json", "--no-language")
    assert json.loads(out) == contents(tmp_path / "2")[2]
    _, _, err = command_line(*asked, "--out", tmp_path / "3", "--source-language", "tlh")
    assert "the identifier does not know tlh" in err
    unknown = files[0].rename(tmp_path / "train.source"), files[1]
    _, _, err = command_line("clean", *unknown, "--out", tmp_path / "4")
    assert "is not checked for its language, which is not known: --source-language gives it." in err


@pytest.mark.parametrize("name", ["entities", "mojibake", None])
def test_people_are_told_whether_pairs_were_changed(tmp_path, command_line, name):
    pairs = clean_corpus()
    source, target = pairs[7]
    changes = {"entities": (f"&lt;{source}", target), "mojibake": (source, mojibake(f"für {target}"))}
    pairs[7] = changes.get(name, pairs[7])
    files = write(tmp_path / "texts", pairs)
    status, _, err = command_line("clean", *files, "--out", tmp_path / "out")
    counts = {each: group["count"] for each, group in contents(tmp_path / "out")[2]["changes"].items()}
    assert (status, {each for each, count in counts.items() if count}) == (0, {name} - {None})
    assert ("Pairs were changed" in err) == (name is not None)


def test_a_file_with_both_sides_is_cleaned_as_two_are(dirty, tmp_path, command_line):
    lines = [path.read_bytes().decode(errors="replace").splitlines() for path in dirty[0]]
    for path, side in zip(dirty[0], lines, strict=True):
        path.write_text("".join(f"{line}\n" for line in side))
    texts = [{"de": target, "en": source} for source, target in zip(*lines, strict=True)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(each) + "\n" for each in texts))
    (tmp_path / "test.tsv").write_text(f"{lines[0][20]}\t{lines[1][21]}\n")
    both = (
        "clean",
        tmp_path / "train.jsonl",
        "--source-language",
        "en",
        "--test-source",
        tmp_path / "test.tsv",
    )
    test = ("--test-source", tmp_path / "test.en", "--test-target", tmp_path / "test.de")
    for number, asked in enumerate([both, ("clean", *dirty[0], *test)]):
        assert command_line(*asked, "--out", tmp_path / str(number))[0] == 0
    assert contents(tmp_path / "0") == contents(tmp_path / "1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train.en", "--out", "out"), "train.en needs its other side: dragoman clean SOURCE TARGET. A"),
        (("train.tsv", "--out", "out"), "train.tsv, line 1: 1 column; it has to have two"),
        (("train.en", "train.tsv", "--out", "out"), "train.tsv has both sides of a corpus; give it alone"),
        (("train.en", "train.de", "--out", "."), "exists; choose another --out, or delete it."),
        (("train.en", "none.de", "--out", "out"), "none.de cannot be read"),
        (("train.en", "short.de", "--out", "out"), "train.en has 40 lines and short.de has 1."),
        (("train.en", "train.de", "--test-source", "empty", "--out", "out"), "empty is empty; it has to"),
        (("train.en", "train.de", "--test-source", "train.en", "--test-target", "short.de", "--out", "out"),
         "train.en has 40 lines and short.de has 1."),
        (("empty", "empty", "--out", "out"), "empty is empty; it has to hold a line for each sentence."),
        (("/dev/null", "train.de", "--out", "out"), "/dev/null is not a regular file"),
        (("train.de", "train.en", "--source-language", "en", "--target-language", "de", "--out", "out"),
         "(language 40). Turn off or change the check that is wrong for them: --no-language."),
        (("train.en", "train.de", "--out", "out", "--max-ratio", "0.5"), "--max-ratio is 0.5; it must be"),
        (("train.en", "train.de", "--out", "out", "--max-words", "-1"), "--max-words is -1; it must be"),
        (("train.en", "train.de", "--out", "out", "--source-language", "x"), "has to be a language code"),
        (("train.en", "train.de"), "--out"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_a_sentence(tmp_path, command_line, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(Path(), clean_corpus())
    Path("short.de").write_text("eine zeile\n")
    Path("empty").touch()
    Path("train.tsv").write_text("one column\n")
    status, out, err = command_line("clean", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert not Path("out").exists()


def test_the_command_that_follows_can_be_given_to_a_shell(tmp_path, command_line):
    (tmp_path / "two words").mkdir()
    files = write(tmp_path / "two words", clean_corpus())
    out = tmp_path / "of it"
    _, _, err = command_line("clean", *files, "--out", out)
    (command,) = re.findall("Train with: (.*)", err)
    given = [str(out / path.name) for path in files]
    assert shlex.split(command) == ["dragoman", "train", *given, "--out", "runs/NAME"]


def test_the_identifier_may_be_missing(tmp_path, command_line, monkeypatch):
    from dragoman.text.quality.identification import identifier_of

    files = write(tmp_path, clean_corpus())
    identifier_of.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    status, _, err = command_line("clean", *files, "--out", tmp_path / "out")
    assert (status, "needs py3langid: pip install 'dragoman[clean]'" in err) == (2, True)
    assert command_line("clean", *files, "--out", tmp_path / "out", "--no-language")[0] == 0


@pytest.mark.short_form(1)
@pytest.mark.parametrize("kind", ["valid", "test"])
@pytest.mark.parametrize("side", [0, 1])
def test_a_pair_that_shares_a_side_with_held_out_text_is_removed(tmp_path, command_line, kind, side):
    pairs = clean_corpus()
    files, held_out = write(tmp_path / "train", pairs), ["another line", "eine andere Zeile"]
    held_out[side] = pairs[7][side]
    others = [tmp_path / name for name in ("held.en", "held.de")]
    for path, line in zip(others, held_out, strict=True):
        path.write_text(f"{line}\n")
    given = ("--no-near-duplicates", f"--{kind}-source", others[0], f"--{kind}-target", others[1])
    status, _, err = command_line("clean", *files, "--out", tmp_path / "out", *given)
    assert status == 0, err
    _, removed, _ = contents(tmp_path / "out")
    assert [(record["line"], record["reasons"]) for record in removed] == [(8, ["overlap"])]


def test_the_table_has_shares_of_all_pairs(dirty, tmp_path, command_line):
    files, _, (source, target) = dirty
    asked = ("clean", *files, "--test-source", *source, "--test-target", *target, "--out", tmp_path / "out")
    _, out, _ = command_line(*asked)
    report = contents(tmp_path / "out")[2]
    rows = re.findall(r"(\w+(?: \(changed\))?)\s*[│┃]\s*([\d,]+)\s*[│┃]\s*([\d.]+)%", out)
    groups = {f"{name} (changed)": group for name, group in report["changes"].items()} | report["reasons"]
    assert {name for name, *_ in rows} == groups.keys()
    for name, count, share in rows:
        assert int(count) == groups[name]["count"]
        assert float(share) == pytest.approx(100 * groups[name]["count"] / report["pairs"], abs=0.005)
