"""Files that hold both sides give the corpus of line files; hostile ones are refused by a sentence."""

import gzip
import json
import re
import signal
import sys
import tracemalloc
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from string import ascii_lowercase
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.cli.doctor import print_findings
from dragoman.pipeline.prepare import prepare
from dragoman.pipeline.run import open_run
from dragoman.system.errors import DragomanError
from dragoman.text import tmx
from dragoman.text.conversion import converted
from dragoman.text.formats import languages_of_file, one_line, read_parallel
from dragoman.text.lines import read_lines, read_pairs
from dragoman.text.records import Record, choose_languages, matches
from dragoman.text.settings import DataSettings, Languages
from dragoman.training.world import World
from tests.conftest import small_recipe, write_copies
from tests.processes import die_when, fork, worst

EN_DE = Languages("en", "de")
DOCTYPE = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'


def unit(*texts, attribute="xml:lang"):
    """A unit of (language, marked-up text) pairs."""
    sides = (f"<tuv {attribute}={quoteattr(code)}><seg>{text}</seg></tuv>" for code, text in texts)
    return f"<tu>{''.join(sides)}</tu>"


def tmx_of(*units, head=DOCTYPE, source="en"):
    body = "\n".join(units)
    header = f'<header srclang="{source}"/>'
    return f'<?xml version="1.0"?>{head}\n<tmx version="1.4">{header}<body>{body}</body></tmx>'


def written(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = pytest.importorskip("backports.zstd").compress(data)
    path.write_bytes(data)
    return path


def as_file(path, pairs):
    """The pairs in the format of the path's name."""
    if ".tmx" in path.suffixes:
        return written(path, tmx_of(*(unit(("de", escape(b)), ("en", escape(a))) for a, b in pairs)))
    if ".tsv" in path.suffixes:
        return written(path, "".join(f"{a}\t{b}\n" for a, b in pairs))
    return written(path, "".join(json.dumps({"de": b, "en": a, "id": 1}) + "\n" for a, b in pairs))


def read(path, text, languages=EN_DE):
    return list(read_parallel(written(path, text), languages))


# ---- laws


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)
WRITABLE = st.tuples(TEXTS, TEXTS).filter(
    lambda pair: not any("\ufffe" <= c <= "\uffff" for c in "".join(pair))
)


@pytest.mark.short_form(2)
@pytest.mark.parametrize("ending", [".tmx", ".tsv", ".jsonl", ".tmx.gz", ".jsonl.gz"])
@given(pairs=st.lists(WRITABLE, min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_what_is_written_is_read(tmp_path_factory, ending, pairs):
    pairs = [("Ein & <b>", "end"), *pairs]  # a file without a complete pair is refused
    path = as_file(tmp_path_factory.mktemp("formats") / f"corpus{ending}", pairs)
    assert list(read_parallel(path, EN_DE)) == pairs


def test_a_tab_between_spaces_keeps_them(tmp_path):
    assert read(tmp_path / "a.tsv", "a\tb\n\t \n\n \t\t\n") == [("a", "b"), ("", " "), ("", ""), ("", "")]


@pytest.mark.short_form(1)
@pytest.mark.parametrize("ending", [".tmx", ".tsv.gz", ".jsonl", ".lines.gz", ".lines.zst"])
def test_a_run_prepares_the_same_data_from_every_format(tmp_path, ending):
    files = write_copies(tmp_path, "train", 200)
    recipe = small_recipe(tmp_path, tmp_path / "lines")
    prepare(tmp_path / "lines", recipe)
    if "lines" in ending:
        source, target = (written(tmp_path / f"{path.name}{ending}", path.read_bytes()) for path in files)
    else:
        source, target = as_file(tmp_path / f"corpus{ending}", list(read_pairs(*files))), None
    data = DataSettings(
        source=source, target=target, valid_source=source, valid_target=target, source_language="en"
    )
    with converted(replace(data, valid_source=None, valid_target=None), tmp_path / "scratch") as lines:
        assert list(read_pairs(lines.source, lines.target)) == list(read_pairs(*files))
        assert lines.languages.source == "en"
        prepare(tmp_path / "other", replace(recipe, data=lines))
    assert not (tmp_path / "scratch").exists()
    manifests = [(tmp_path / name / "data" / "manifest.json").read_text() for name in ("lines", "other")]
    assert manifests[0] == manifests[1]
    with converted(data, tmp_path / "scratch") as lines:  # validation data too
        assert list(read_pairs(lines.valid_source, lines.valid_target)) == list(read_pairs(*files))


def test_a_run_records_the_languages_that_the_file_says(tmp_path):
    write_copies(tmp_path, "train", 200)
    recipe = small_recipe(tmp_path, tmp_path / "run")
    path = as_file(tmp_path / "corpus.tmx", list(read_pairs(recipe.data.source, recipe.data.target)))
    open_run(tmp_path / "run", replace(recipe, data=DataSettings(source=path)), World())
    assert 'source_language = "en"\ntarget_language = "de"' in (tmp_path / "run" / "recipe.toml").read_text()


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    "moment", ["/text.partial/train/source/corpus", "/data.partial/train", "/data.partial/manifest.json"]
)
@pytest.mark.parametrize("same_files", [True, False])
def test_what_a_killed_preparation_has_left_is_removed_by_the_next(tmp_path, moment, same_files):
    plain = small_recipe(tmp_path, tmp_path / "run")
    path = as_file(tmp_path / "corpus.tmx", list(read_pairs(plain.data.source, plain.data.target)))
    recipe = replace(plain, data=DataSettings(source=path))

    def die():
        die_when(lambda place: moment in place)
        open_run(recipe.out, recipe, World())

    assert worst([fork(die)]) == signal.SIGKILL
    assert list(recipe.out.glob("*.partial"))
    open_run(recipe.out, recipe if same_files else plain, World())
    assert {each.name for each in recipe.out.iterdir()} == {"data", "recipe.toml"}
    assert not list(recipe.out.rglob("*.partial"))


# ---- languages


@pytest.mark.parametrize(
    ("codes", "header", "asked", "found"),
    [
        (("de-DE", "en-US"), "en-US", ("und", "und"), ("en", "de")),
        (("de", "en_GB"), "EN", ("und", "und"), ("en", "de")),
        (("de", "en"), "*all*", ("de", "und"), ("de", "en")),
        (("de", "en"), "en", ("und", "en"), ("de", "en")),
        (("pt-BR", "pt-PT"), "pt-PT", ("und", "und"), ("pt-pt", "pt-br")),
        (("de", "en", "fr"), "fr", ("en", "fr"), ("en", "fr")),
        (("de", "en"), "en", ("en-US", "und"), ("en-US", "de")),
        (("de", "en", "fr"), "fr", ("und", "und"), None),
        (("de", "en"), "*all*", ("und", "und"), None),
    ],
)
def test_languages_are_those_that_are_asked_for_or_that_the_file_says(tmp_path, codes, header, asked, found):
    texts = unit(("en", "alone")), unit(*((code, "text") for code in codes))
    path = written(tmp_path / "a.tmx", tmx_of(*texts, source=header))
    if found is None:
        with pytest.raises(DragomanError, match="has texts in the languages .* source_language CODE"):
            languages_of_file(path, Languages(*asked))
    else:
        assert languages_of_file(path, Languages(*asked)) == Languages(*found)


@pytest.mark.parametrize("before", [0, 1, 1_000])
def test_records_of_one_text_hide_no_language_and_a_file_of_them_alone_is_not_read_to_its_end(before):
    alone, pair = Record("a", (("en", "x"),)), Record("b", (("en", "x"), ("de", "y")))
    assert choose_languages([*[alone] * before, pair], "a", Languages("en")) == EN_DE
    assert choose_languages(repeat(alone), "a", Languages("en")) == Languages("en")


@pytest.mark.parametrize("together", [1, 26])
def test_an_error_names_a_few_of_many_languages(tmp_path, together):
    codes = [f"{one}{other}" for one in ascii_lowercase for other in ascii_lowercase if one + other != "en"]
    units = [dict.fromkeys(codes[first : first + together], "x") for first in range(0, len(codes), together)]
    path = written(tmp_path / "a.jsonl", "".join(f"{json.dumps(each)}\n" for each in units))
    with pytest.raises(DragomanError, match="its texts are in '") as error:
        list(read_parallel(path, Languages("en", "qqq")))
    named = re.findall("'([a-z]{2})'", str(error.value).partition("its texts are in")[2])
    assert 0 < len(named) <= 20
    assert len({*named}) == len(named)
    assert {*named} <= {*codes}


def test_a_code_of_a_file_that_is_no_language_is_refused_with_its_place(tmp_path):
    path = written(tmp_path / "a.tmx", tmx_of(unit(("en", "a"), ("d$", "b"))))
    with pytest.raises(DragomanError, match=r"a\.tmx, line \d+: The target language is 'd\$'; it has to be"):
        languages_of_file(path, Languages())


def test_a_file_whose_units_are_pairs_of_different_languages_is_refused(tmp_path):
    mixed = tmx_of(unit(("en", "a"), ("fr", "b")), unit(("en-GB", "c"), ("de", "d")))
    path = written(tmp_path / "a.tmx", mixed)
    for asked in (Languages(), Languages("en")):
        with pytest.raises(DragomanError, match="in the languages 'en', 'fr', 'en-gb', 'de'. Name"):
            languages_of_file(path, asked)
    assert languages_of_file(path, EN_DE) == EN_DE


@pytest.mark.parametrize(
    ("name", "found"), [("x.en-de.tsv.gz", EN_DE), ("en-de.tsv", EN_DE), ("my.tsv", Languages())]
)
def test_the_name_of_a_tsv_file_may_say_its_languages(tmp_path, name, found):
    assert languages_of_file(tmp_path / name, Languages()) == found


def test_the_size_of_a_unit_is_that_of_its_own_texts(tmp_path, monkeypatch):
    monkeypatch.setattr(tmx, "MAX_UNIT", 24)  # with the codes of the languages
    units = [unit(("en", "x" * 10), ("de", "y" * 10))] * 3
    assert len(list(tmx.read_tmx(written(tmp_path / "a.tmx", tmx_of(*units))))) == 3
    larger = unit(("en", "x" * 10), ("de", "y" * 11))
    with pytest.raises(DragomanError, match="a unit of more than 24 characters"):
        list(tmx.read_tmx(written(tmp_path / "b.tmx", tmx_of(*units, larger))))


def test_a_text_outside_of_a_language_has_none(tmp_path):
    stray = "<tu><tuv xml:lang='en'><seg>one</seg></tuv><seg>two</seg></tu>"
    with pytest.raises(DragomanError, match="a text without its language"):
        list(tmx.read_tmx(written(tmp_path / "a.tmx", tmx_of(stray))))


CODES = st.lists(st.sampled_from(["en", "e", "eng", "US", "Latn"]), min_size=1, max_size=3).map("-".join)


@given(CODES, CODES)
def test_a_language_matches_a_code_that_begins_with_all_of_its_parts(language, code):
    parts = language.lower().split("-")
    assert matches(language, code.replace("-", "_")) == (code.lower().split("-")[: len(parts)] == parts)


def test_a_language_matches_its_varieties_and_an_exact_code_wins(tmp_path):
    text = tmx_of(
        unit(("en-US", "color"), ("DE_at", "Farbe")), unit(("en", "a"), ("en-GB", "b"), ("de", "c"))
    )
    assert read(tmp_path / "a.tmx", text) == [("color", "Farbe"), ("a", "c")]
    assert read(tmp_path / "a.tmx", text, Languages("en-GB", "de"))[1] == ("b", "c")


def test_of_several_texts_in_a_language_the_first_is_used_and_they_are_counted(tmp_path, messages):
    text = tmx_of(
        unit(("en", "a"), ("de", "b"), ("de", "c")),
        unit(("en-US", "d"), ("en-GB", "e"), ("de", "f")),
        unit(("en", "g"), ("de", "h")),
    )
    assert read(tmp_path / "a.tmx", text, Languages("en", "de")) == [("a", "b"), ("d", "f"), ("g", "h")]
    (message,) = messages
    assert message.endswith("a.tmx: 2 units with several texts in one language; the first of them is used.")


def test_the_line_of_a_pair_is_its_unit_and_a_missing_side_is_empty(tmp_path):
    text = tmx_of(unit(("en", "one")), unit(("de", "zwei")), unit(("en", "three"), ("de", "drei")))
    assert read(tmp_path / "a.tmx", text) == [("one", ""), ("", "zwei"), ("three", "drei")]


def test_formatting_codes_are_no_text_and_line_ends_are_spaces(tmp_path):
    marked = '<bpt i="1">&lt;b><sub>x</sub></bpt>a <hi>b</hi><ept i="1"/>\n  c<it><ph/>?</it> &amp; &#228;'
    assert read(tmp_path / "a.tmx", tmx_of(unit(("en", marked), ("de", "ok"), attribute="lang"))) == [
        ("a b c & ä", "ok")
    ]
    assert one_line("\r\n a\t\n\n b c \n") == "a b c"


@pytest.mark.parametrize(
    "code", ["<ph/>", '<ph x="1">&lt;br/></ph>', '<bpt i="1"/>', "<it pos='end'/>", "<ut>{b}</ut>"]
)
@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("red", "bike", "red bike"),
        ("red ", "bike", "red bike"),
        ("H", "2", "H2"),
        ("(", "a)", "(a)"),
        ("", "a", "a"),
    ],
)
def test_a_formatting_code_between_letters_separates_two_words(tmp_path, code, before, after, joined):
    text = tmx_of(unit(("en", f"{before}{code}{after}"), ("de", "ok")))
    assert read(tmp_path / "a.tmx", text) == [(joined, "ok")]


def test_json_may_name_sides_or_nest_a_translation(tmp_path):
    lines = ['{"source": "a", "target": "b", "en": "x"}', "", '{"translation": {"de": "d", "en-US": "c"}}']
    assert read(tmp_path / "a.jsonl", "\n".join(lines)) == [("a", "b"), ("", ""), ("c", "d")]


@pytest.mark.parametrize("value", ["x", None, 1, [], ["x"], True])
@pytest.mark.parametrize("key", ["translation", "id", "fr"])
def test_other_keys_of_json_are_ignored_whatever_their_values(tmp_path, key, value):
    for sides in ({"en": "a", "de": "b"}, {"source": "a", "target": "b"}):
        lines = [json.dumps({key: value} | sides), json.dumps(sides | {key: value})]
        assert read(tmp_path / "a.jsonl", "\n".join(lines)) == [("a", "b")] * 2


# ---- refusals


LAUGHS = '<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
BILLION_LAUGHS = f"<?xml version='1.0'?>{LAUGHS}<tmx><body>&b;</body></tmx>"
EXTERNAL = '<!DOCTYPE tmx [<!ENTITY x SYSTEM "file:///etc/passwd">]><tmx><body>&x;</body></tmx>'
GOOD = unit(("en", "one"), ("de", "eins"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tmx", BILLION_LAUGHS, "a.tmx, line 1: a DTD within the file is not read"),
        ("a.tmx", EXTERNAL, "a DTD within the file is not read"),
        (
            "a.tmx",
            tmx_of(GOOD, head='<!DOCTYPE tmx SYSTEM "http://evil/x.dtd">'),
            "is not that of TMX; remove",
        ),
        ("a.tmx", tmx_of(GOOD, head="<!DOCTYPE html>"), "document type 'html' with None is not that of TMX"),
        ("a.tmx", tmx_of(unit(("en", "&x;"), ("de", "a"))), "line 2: an entity that XML does not define"),
        (
            "a.tmx",
            tmx_of(unit(("en", "&x;")), head=""),
            "line 2, byte .*: not well-formed XML .undefined entity",
        ),
        ("a.tmx", tmx_of(GOOD)[:-9], "not well-formed XML"),
        ("a.tmx", "", "a.tmx, line 1, byte 1: not well-formed XML .no element found"),
        ("a.tmx", "<html></html>", "the first element is 'html'; that of a translation memory is 'tmx'"),
        ("a.tmx", '<?xml version="1.0" encoding="utf-7"?><tmx/>', "the encoding 'utf-7' is not read"),
        ("a.tmx", '<?xml version="1.0" encoding="iso-8859-99"?><tmx/>', "a.tmx: unknown encoding.*to UTF-8"),
        ("a.tmx", tmx_of("<tu><tuv><seg>a</seg></tuv></tu>"), "a text without its language"),
        ("a.tmx", "<tmx>" + "<a>" * 200, "more than 100 elements within each other"),
        ("a.tmx", "<tmx>" + "".join(f"<x{n}/>" for n in range(300)), "more than 200 different names"),
        ("a.tmx", f"<tmx a='{'x' * 2**18}'/>", "a tag or comment of more than 131,072 bytes"),
        ("a.tmx", tmx_of(unit(("en", "x" * 2**21))), "a unit of more than 1,048,576 characters"),
        ("a.tmx", tmx_of(unit(*[("en", "x")] * 1001)), "a unit of more than 1,000 texts"),
        ("a.tmx", tmx_of(), "a.tmx has no texts"),
        (
            "a.tmx",
            tmx_of(unit(("fr", "a"), ("de", "b"))),
            "no pair with a text in both 'en' and 'de'.* 'de', 'fr'. Give other languages: source_language",
        ),
        ("a.tsv", "a\tb\nc\n", "a.tsv, line 2: 1 column; it has to have two"),
        ("a.tsv", "a\tb\tc\n", "3 columns; it has to have two"),
        ("a.tsv", "a\0\tb\n", "line 1, byte 2: a NUL"),
        ("a.tsv", "", "a.tsv is empty"),
        ("a.jsonl", "{", "a.jsonl, line 1: not JSON"),
        ("a.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("a.jsonl", "1" * 9999, "line 1: not JSON"),
        ("a.jsonl", '["a", "b"]', "line 1: not an object with texts, such as"),
        ("a.jsonl", '{"en": "\\ud800", "de": "a"}', "line 1: the text of 'en' has a NUL or a lone surrogate"),
        ("a.jsonl", '{"en": "\\u0000", "de": "a"}', "has a NUL or a lone surrogate"),
        (
            "a.jsonl",
            '{"en": 5, "de": "a"}',
            "no pair with a text in both 'en' and 'de'; its texts are in 'de'",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_a_bad_file_is_refused_by_a_sentence(tmp_path, name, text, message):
    with pytest.raises(DragomanError, match=message) as error:
        read(tmp_path / name, text)
    assert str(error.value).count(str(tmp_path)) == 1


@pytest.mark.parametrize("text", [BILLION_LAUGHS, EXTERNAL, "<html></html>"])
def test_a_refusal_of_a_translation_memory_is_one_sentence(tmp_path, text):
    with pytest.raises(DragomanError) as error:
        read(tmp_path / "a.tmx", text)
    told = str(error.value)
    assert told.count("a.tmx") == 1
    assert ".." not in told
    assert "UTF-8" not in told


def test_errors_and_findings_name_the_users_files(tmp_path, capsys):
    path = as_file(tmp_path / "corpus.tmx.gz", [("a b c\u200b", "d e"), ("", "f")])
    assert print_findings(DataSettings(source=path))
    assert f"Lines of {path} (en) with a control or an invisible character" in capsys.readouterr().out
    recipe = small_recipe(tmp_path, tmp_path / "run")
    lines = written(tmp_path / "bad.en.gz", b"a\rb\n")
    for data, message in (
        (DataSettings(source=path, drop_copies=True), f"{path} (en) has too few different sentences"),
        (DataSettings(source=lines, target=lines), f"{lines}, line 1, byte 2: a carriage return"),
    ):
        with pytest.raises(DragomanError) as error:
            open_run(tmp_path / "run", replace(recipe, data=data), World())
        assert str(error.value).startswith(message)
        assert not list((tmp_path / "run").glob("*partial*"))


def test_a_zstd_file_is_read_to_its_end_and_a_damaged_one_is_refused(tmp_path):
    zstd = pytest.importorskip("backports.zstd")
    path = written(tmp_path / "a.zst", b"one\n" * 1000)
    path.write_bytes(path.read_bytes() + zstd.compress(b"two\n"))  # frames follow each other
    assert list(read_lines(path)) == ["one"] * 1000 + ["two"]
    for data in (path.read_bytes()[:-3], b"plain text"):
        (tmp_path / "b.zst").write_bytes(data)
        with pytest.raises(DragomanError, match="b.zst is not a complete zstd file"):
            list(read_lines(tmp_path / "b.zst"))


def test_zstd_without_its_package_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    with pytest.raises(DragomanError, match="a.zst is compressed with zstd.* pip install 'dragoman.zstd.'"):
        list(read_lines(tmp_path / "a.zst"))


# ---- hostile files


PARTS = st.sampled_from(
    [
        *(
            "<tmx>",
            "</tmx>",
            "<body>",
            "</body>",
            "<tu>",
            "</tu>",
            "<seg>",
            "</seg>",
            "</tuv>",
            "<ph>",
            "</ph>",
        ),
        *(
            '<tuv xml:lang="en">',
            '<tuv lang="de-AT">',
            "<tuv>",
            '<header srclang="en"/>',
            "<!--",
            "-->",
            "]]>",
        ),
        *("<![CDATA[", "&amp;", "&x;", "&#0;", "&#xD800;", "\0", "\r\n", "<?xml version='1.0'?>", "<?pi ?>"),
        *(
            "<!DOCTYPE tmx [",
            "]>",
            '<!ENTITY x "y">',
            '<!ENTITY % p SYSTEM "p">',
            "%p;",
            '<!ATTLIST tuv lang CDATA "de">',
        ),
        *(
            DOCTYPE,
            "<?xml version='1.0' encoding='utf-16'?>",
            "<?xml version='1.0' encoding='cp037'?>",
            "text",
            "\ufeff",
        ),
    ]
)
HOSTILE = st.one_of(
    st.binary(max_size=200),
    st.lists(PARTS, max_size=30).map("".join).map(lambda text: text.encode("utf-8", "replace")),
    st.lists(PARTS, max_size=20).map("".join).map(lambda text: text.encode("utf-16", "replace")),
    st.lists(PARTS, max_size=8).map(lambda parts: tmx_of(GOOD, "".join(parts), GOOD).encode()),
)


def refused_or_read(path, data):
    path.write_bytes(data)
    try:
        for source, target in read_parallel(path, EN_DE):
            assert "\n" not in source + target
            (source + target).encode()
    except DragomanError as error:
        if not str(error).startswith(str(path)):
            raise


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile") / "corpus.tmx"


@given(data=HOSTILE)
@example(BILLION_LAUGHS.encode())
@settings(max_examples=60, deadline=None)
def test_a_hostile_file_is_read_or_refused(hostile, data):
    refused_or_read(hostile, data)


@pytest.mark.long
@given(data=HOSTILE)
@settings(max_examples=100_000, deadline=None)
def test_a_hundred_thousand_hostile_files_are_read_or_refused(hostile, data):
    refused_or_read(hostile, data)


def repeated(start, part, megabytes):
    """Bytes that begin like a translation memory and then repeat a part."""
    return start + part * (megabytes * 2**20 // len(part))


@pytest.mark.short_form(1)
@pytest.mark.parametrize(
    ("start", "part", "megabytes"),
    [
        (b"<tmx><body>", GOOD.encode(), 1),
        (b"<tmx><note>", b"word ", 4),
        (b"<tmx><!-- ", b"word ", 4),
        (b"<tmx a='", b"word ", 4),
        (b"<tmx>", b"<a>", 4),
        (b"<tmx><body><tu>", b'<tuv xml:lang="en"><seg>x</seg></tuv>', 4),
        (b'<tmx><body><tu><tuv xml:lang="en"><seg>', "ä".encode(), 4),
        (b'<tmx><body><tu><tuv xml:lang="en"><seg><ph>', b"word ", 4),
    ],
    ids=["units", "note", "comment", "attribute", "depth", "texts", "text", "code"],
)
def test_memory_does_not_grow_with_the_file(tmp_path, start, part, megabytes):
    path = written(tmp_path / "a.tmx.gz", repeated(start, part, megabytes))
    tracemalloc.start()
    try:
        with pytest.raises(DragomanError):
            for _ in tmx.read_tmx(Path(path)):
                pass
        peak = tracemalloc.get_traced_memory()[1]
        assert peak < megabytes * 0.75 * 2**20
    finally:
        tracemalloc.stop()
