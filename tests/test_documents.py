"""Plain texts are cut into sentences, and come back with everything else as it was."""

import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.documents.document import (
    MARK,
    MAX_TAGS,
    Piece,
    Segment,
    Slot,
    compose,
    is_plain,
    plain_segments,
    segments_of,
)
from dragoman.documents.file import Reading
from dragoman.documents.markup import html
from dragoman.documents.plain import PLAIN, plain_blocks, plain_text, read
from dragoman.system.errors import DragomanError
from dragoman.translation.cut_text import cut_text, gap_between
from dragoman.translation.sentence_ends import WINDOW, sentence_ends
from dragoman.translation.translator import Translator
from tests.document_laws import takes_linear_time

PARTS = (
    "Dr. Smith came. ", "z. B. ", "He left! ", "3.14 ", "1. Januar ", "...", "…", "„So.“ ", "(No.) ", "a",
    "B. ", " ", "\t", "\n", "\r\n", "\r", "\x0c", "\x00", "\u2028", "\u2029", "\x85", "\ufeff", "\ud800",
    "\u3000", "\xa0", "。", "はい。", "- ", "1. ", "> ", "* ", "# ", "[x] ", "https://a.org/b?c=d.e",
    "(www.x.org)", "me@x.org", "@me", "{name}", "<b>", "</b>", "<g0/>", "<", ">", "{", "}", "&amp;",
)  # fmt: skip
TEXT = st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
LANGUAGES = st.sampled_from(["en", "de", "fr", "ja", "ru", "und", "pt-BR", "", "\ud800", "x" * 100])


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Dr. Smith met Mr. Jones at 5 p.m. on Monday.|He left."),
        ("en", "See e.g. the book.|It costs $3.50."),
        ("en", "It is 3.14 exactly.|J. R. R. Tolkien wrote it."),
        ("en", "Wait... what?|No!|Is it?!|Yes."),
        ("en", 'He said: "Come here."|Then he left.'),
        ("en", "The U.S. Army came.|It went."),
        ("de", "Das ist z. B. gut.|Das gilt u. a. für ihn, d. h. für alle.|Ja."),
        ("de", "Am 1. Januar kam er.|Im 19. Jahrhundert war es so.|Die 2. Frage ist schwer."),
        ("de", "Er sagte: „Komm her.“|Dann ging er."),
        ("de", "Prof. Dr. Müller zahlt 1.000,50 Euro.|J. S. Bach nicht."),
        ("de", "Er starb im Jahr 1999.|Dann kam sie am 3. Mai."),
        ("da", "Han kom den 1. Januar.|Det var godt."),
        ("en", "Wait… what is it?|No… or yes.|Well."),
        ("fr", "M. Dupont est là.|Mme. Dupont aussi.|Quoi ?|Rien !"),
        ("FR", "M. Dupont dit : «M. Roux est là (Mme. Roux aussi.|Puis rien."),
        ("fr", "Il a dit : « Viens. »|Puis il est parti."),
        ("es", "El Sr. García vino.|¿Qué tal?|¡Bien!"),
        ("ru", "Это т. е. хорошо.|В 1999 г. он умер.|А. С. Пушкин писал."),
        ("hi", "यह अच्छा है।|वह गया।"),
        ("ar", "كيف حالك؟|أنا بخير."),
        ("und", "Hello there.|Good bye."),
        ("not a language", "Hello there.|Good bye."),
        ("en", "Go to www.example.com/a.b.|It is good."),
        ("en", "We use ASP.NET here.|Node.JS or Vue.JS too."),
        ("fr", "Un dossier avec CACHEDIR.TAG et des fichiers .NET ici."),
        ("en", "See https://x.org/?q=A.B!C.D and www.x.org/a.b.|Then go."),
    ],
)
def test_sentences_end_where_they_end(language, text):
    document = plain_text(text.replace("|", " "), language)
    assert [document.text[first:last] for first, last in document.spans] == text.split("|")


ORDINALS = (
    *("bs", "cs", "da", "de", "et", "fi", "fo", "hr", "hu"),
    *("is", "lb", "lv", "nb", "nn", "no", "sk", "sl", "sr"),
)
"""Languages that write a full stop after ordinal numbers."""


@pytest.mark.parametrize("language", [*ORDINALS, "de-AT", "NB", "en", "fr", "es"])
def test_a_full_stop_after_a_day_ends_no_sentence_where_ordinals_have_one_and_after_a_year_it_does(language):
    for number in [1, 9, 10, 31, 99, 100, 1999]:
        is_ordinal = number < 100 and language.lower().split("-")[0] in ORDINALS
        document = plain_text(f"Abcd efgh {number}. Xyzd efgh.", language)
        assert len(document.sentences) == 1 + (not is_ordinal)


@given(
    st.sampled_from(
        ["", "amber birch", "Amber birch.", "Amber. Birch.", "amber\nbirch", "Amber.\u2028Birch."]
    ),
    st.text(" \t\n\r\u2028", max_size=3),
    st.text(" \t\n\r\u2028", max_size=3),
)
def test_white_space_around_a_text_makes_no_sentence_of_it(text, before, after):
    sentences = list(plain_text(text, "en").sentences)
    assert cut_text(before + text + after, "en").sentences == cut_text(text, "en").sentences == sentences


@pytest.mark.parametrize(
    "title", ["Dr.", "Pr.", "M.", "MM.", "Me.", "Mgr.", "Mlle.", "Mme.", "Mmes.", "St.", "Ste.", "env."]
)
def test_a_french_abbreviation_ends_no_sentence(title):
    assert len(plain_text(f"Voici {title} Dupont et les autres.", "fr").sentences) == 1


@given(
    st.sampled_from(["en", "fr", "it", "pt", "pl", "ru", "de", "es", "und"]),
    st.sampled_from(["approx.", "vol.", "Ch.", "Tel.", "(eq.", "max.", "no.", "pag.", "n.", "рис.", "Art."]),
    st.integers(0, 3000),
    st.sampled_from(["number", "dogs", "last"]),
)
def test_an_abbreviation_before_a_number_ends_no_sentence_and_another_word_does(language, word, number, end):
    for behind in (f" {number}", f"\xa0{number}", f" ({number})", "\xa0Ab"):
        assert len(plain_text(f"Zebra {word}{behind} {end}.", language).sentences) == 1
    if language in {"en", "fr", "it"}:  # others begin no sentence with a number
        assert len(plain_text(f"Zebra {word}xyzd. {number} {end}.", language).sentences) == 2


@pytest.mark.parametrize("letter", ["a", "e\u0301", "क\u094d\u200dष", "a👨\u200d👩\u200d👧", "กำ"])
def test_a_line_without_ends_and_spaces_is_cut_between_letters(letter):
    text = "x" + letter * 9_000
    document = plain_text(text, "en")
    assert 2 < len(document.sentences) < 20
    assert document.join(document.sentences) == text
    for sentence in document.sentences[1:]:
        assert not unicodedata.combining(sentence[0])
        assert "\u200d" not in (sentence[0], sentence[-1])


def test_scripts_without_spaces_are_cut():
    for language, text in (("ja", "これはペンです。|本当？|はい！"), ("zh", "我来了。|真的吗？|是的！")):
        assert "|".join(plain_text(text.replace("|", ""), language).sentences) == text


@settings(max_examples=50)
@given(TEXT, LANGUAGES, st.booleans())
def test_the_laws_of_a_text(text, language, split):
    document = plain_text(text, language, split)
    assert document.join(document.sentences) == text
    written = ""
    end = 0
    for sentence, (first, last), segment in zip(
        document.sentences, document.spans, document.segments, strict=True
    ):
        assert sentence.strip() == sentence != ""
        assert any(map(str.isalpha, sentence))
        assert sentence.splitlines() == [sentence]
        assert all(
            character.isprintable() or character.isspace() or ord(character) > 159 for character in sentence
        )
        assert end <= first < last
        assert segment.source == text[first:last]
        assert segment.marks or sentence == text[first:last]
        written += text[end:first] + text[first:last]
        end = last
    assert written + text[end:] == text


@settings(max_examples=50)
@given(TEXT, LANGUAGES, st.booleans())
def test_a_plain_block_is_cut_as_any_block(text, language, split):
    for block in plain_blocks(text):
        if is_plain(text, block, PLAIN):
            fast = list(plain_segments(block[0], language, split, PLAIN))
            assert fast == list(segments_of(text, block, language, split, PLAIN))


@settings(max_examples=50)
@given(TEXT, st.text(alphabet="aä <>&{}/g0\n", max_size=9))
def test_addresses_are_kept_with_every_translation(text, translation):
    document = plain_text(text, "en")
    joined, spans = document.join_with_spans([translation] * len(document.sentences))
    end = written = 0
    for segment, (first, last) in zip(document.segments, spans, strict=True):
        assert joined[written:first] == text[end : segment.start]
        own = joined[first:last]
        assert all(own.count(source) >= 1 for _, source in segment.marks)
        if not segment.marks:
            expected = translation if translation.strip() else segment.source
            assert own in (expected, f"{expected} ")  # a space between sentences
        end, written = segment.end, last
    assert joined[written:] == text[end:]


def test_what_stands_between_sentences_is_kept():
    text = "\ufeff  One.  Two!\t Three. \r\n\r\n\tFour\x0cFive\u2028Six. \n\n"
    document = plain_text(text, "en")
    assert document.sentences == ("One.", "Two!", "Three.", "Four", "Five", "Six.")
    joined, spans = document.join_with_spans("abcdef")
    assert joined == "\ufeff  a  b\t c \r\n\r\n\td\x0ce\u2028f \n\n"
    assert [joined[first:last] for first, last in spans] == list("abcdef")


def test_marks_of_lists_are_kept():
    text = "- One\n  * Two\n1. Three. Four\n> > Five\n>Six\n## Seven\n- [x] Eight\n-5 degrees\n***\n12.5\n"
    document = plain_text(text, "en")
    assert document.sentences == (
        "One", "Two", "Three.", "Four", "Five", "Six", "Seven", "Eight", "-5 degrees",
    )  # fmt: skip
    assert document.join([s.upper() for s in document.sentences]) == text.replace("x", "X").upper().replace(
        "[X]", "[x]"
    )


def test_a_byte_order_mark_hides_no_mark_of_a_list():
    document = plain_text("\ufeff# One\n\ufeff- [x] Two", "en")
    assert document.sentences == ("One", "Two")
    assert document.join(["a", "b"]) == "\ufeff# a\n\ufeff- [x] b"


def test_text_is_not_cut_without_split():
    assert plain_text("One. Two.\nThree. Four.", "en", split=False).sentences == ("One. Two.", "Three. Four.")


def test_addresses_become_marks():
    document = plain_text("See https://x.org/a_(b). Mail me.you@x.org, please! No {name} here.", "en")
    assert document.needs_tags
    assert document.sentences == ("See <g1/>.", "Mail <g1/>, please!", "No <g1/> here.")
    assert document.join(["Siehe <g1/>.", "Bitte <g1/> !", "nichts"]) == (
        "Siehe https://x.org/a_(b). Bitte me.you@x.org ! {name} nichts"
    )
    document = plain_text("<b>No</b> name here.", "en")
    assert document.sentences == ("<b>No</b> name here.",)
    assert not document.needs_tags


@pytest.mark.parametrize(
    ("text", "sentence", "translated"),
    [
        ("@bob: A dog runs.", "A dog runs.", "@bob: Ein Hund läuft."),
        ("%s, A dog runs.", "A dog runs.", "%s, Ein Hund läuft."),
        ("(www.x.org) A dog runs.", "(<g1/>) A dog runs.", None),
        ("A dog %1$s runs.", "A dog <g1/> runs.", None),
        ("A {{ dog }} runs.", "A <g1/> runs.", None),
    ],
)
def test_marks_beside_an_address_at_the_start_stay_with_it(text, sentence, translated):
    document = plain_text(text, "en")
    assert document.sentences == (sentence,)
    if translated:
        assert document.join(["Ein Hund läuft."]) == translated


def test_addresses_at_the_edges_need_no_alignment():
    for text in ("https://x.org/", "me@x.org", "- @me@x.org", " www.x.org, https://x.org/?a=b#c."):
        assert plain_text(text, "en").sentences == ()
    document = plain_text("@me read it: https://x.org", "en")
    assert document.sentences == ("read it:",)
    assert not document.needs_tags


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("in https://x.com/にある and", "https://x.com/"),
        ("in (http://x.com) and", "http://x.com"),
        ("in [http://x.com] and", "http://x.com"),
        ("in <https://x.com/a> and", "https://x.com/a"),
        ("in https://de.org/wiki/Käse_(Essen)? and", "https://de.org/wiki/Käse_(Essen)"),
        ("in a.b+c@mail.x.org. And", "a.b+c@mail.x.org"),
        ("ask @user@x.social, or", "@user@x.social"),
    ],
)
def test_an_address_ends_where_it_ends(text, address):
    (segment,) = plain_text(text, "und", split=False).segments
    assert [source for _, source in segment.marks] in ([address], [f"<{address}>"])


@pytest.mark.parametrize(
    ("text", "translations", "joined"),
    [
        ("一。二。", ["One.", "Two."], "One. Two."),
        ("一。二。", ["One.", "二。"], "One.二。"),
        ("One. Two.", ["一。", "二。"], "一。二。"),
        ("One. Two.\nThree.", ["一。", "二。", "三。"], "一。二。\n三。"),
        ("One. Two.", ["Eins.", "二。"], "Eins. 二。"),
        ("一。二。", ["一。", "二。"], "一。二。"),
    ],
)
def test_sentences_have_spaces_between_them_where_their_script_has(text, translations, joined):
    document = plain_text(text, "zh" if text[0] == "一" else "en")
    assert document.join(translations) == joined
    assert document.join(document.sentences) == text


@given(TEXT, st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]))
def test_a_file_keeps_its_encoding(text, encoding):
    text = "\ufeff" + text.replace("\0", " ").encode("utf-8", "ignore").decode()
    document = read(text.encode(encoding), Reading("a.txt", "en", "de"))
    assert document.write(document.sentences) == text.encode(encoding)
    written = document.write(["Ä"] * len(document.segments)).decode(encoding)
    assert written.count("Ä") >= len(document.segments)


def test_the_number_of_translations_is_that_of_the_sentences():
    with pytest.raises(DragomanError, match="2 sentences, and there are 1"):
        plain_text("One. Two.", "en").join(["Eins."])


def test_windows_of_a_long_line_are_cut_like_the_line():
    text = "One two three four. " * 1000
    assert len(text) > 4 * WINDOW
    assert set(plain_text(text, "en").sentences) == {"One two three four."}
    assert sentence_ends("x" * (2 * WINDOW + 1), "en") == [WINDOW, 2 * WINDOW]


@pytest.mark.parametrize(
    "part", ["a", "a. ", "“", "Dr. ", "www.", "a@", "@a", "{", "<a ", "(", "http://(", "\n", "> "]
)
def test_the_time_is_linear(part):
    def work(length):
        text = part * (length // len(part))
        document = plain_text(text, "en")
        assert document.join(document.sentences) == text

    takes_linear_time(work, 40_000)


def test_a_text_is_translated(trained):
    translator = Translator.load(trained / "run", device="cpu")
    text = "- amber birch cedar\r\n\r\n\tdelta ember https://x.org/ fjord\n  "
    document = plain_text(text, "en")
    assert document.sentences == ("amber birch cedar", "delta ember <g1/> fjord")
    translations = translator.translate(document.sentences, keep_tags=document.needs_tags)
    joined = document.join(translations)
    assert joined.startswith("- AMBER BIRCH CEDAR\r\n\r\n\t")
    assert joined.endswith("\n  ")
    assert joined.count("https://x.org/") == 1
    assert not MARK.search(joined)


@given(TEXT, st.text(max_size=9))
def test_a_slot_in_which_nothing_is_translated_is_as_the_file_has_it_and_else_it_is_written(
    text, translation
):
    document = plain_text(text, "en")
    end = len(text)
    for write in (None, str.upper):
        slotted = replace(document, slots=(Slot(0, end, "former", write),) if end else ())
        unchanged = slotted.join(document.sentences)
        assert unchanged == ("former" if end else text)
        joined = document.join([translation] * len(document.sentences))
        if joined != text:
            assert slotted.join([translation] * len(document.sentences)) == (write or str)(joined)


@pytest.mark.parametrize("mark", ["a)", "(b)", "(12)", "3)", "4.", "☐", "→", "♪", "- [ ]"])
def test_the_mark_of_a_list_is_in_no_sentence(mark):
    assert plain_text(f"{mark} One two.", "en").sentences == ("One two.",)


SIGNS = st.sampled_from(["", "•", "☐", "♪ ♫", "→", "★★★", "😀", "❤\ufe0f", "👨\u200d👩\u200d👧", "____"])


@given(SIGNS, SIGNS, st.sampled_from(["One", "One two.", "One. Two.", "x ★ y", "x_y"]))
def test_a_text_between_signs_has_the_sentences_of_the_text(before, behind, text):
    """These are bullets, boxes, notes, emoji and blanks to fill in, which models do not know."""
    before, behind = f"{before} " * bool(before), f" {behind}" * bool(behind)
    sentences = plain_text(text, "en").sentences
    for document in (
        plain_text(before + text + behind, "en"),
        html(f"<p>{before}<b>{text}</b>{behind}</p>", "en"),
        html(f"<p><i>{before}</i>{text}<u>{behind}</u></p>", "en"),
    ):
        assert document.sentences == sentences
        upper = document.join([sentence.upper() for sentence in sentences])
        assert upper == document.text.replace(text, text.upper())


@given(st.lists(st.tuples(st.sampled_from("Aé•😀. "), st.booleans()), min_size=1, max_size=9))
def test_characters_written_as_references_have_the_sentences_of_the_text(characters):
    """Signs at the edges of a text stay outside only apart from its words, however these are written."""
    text = "".join(character for character, _ in characters)
    written = "".join(
        f"&#{ord(character)};" if is_reference and not character.isspace() else character
        for character, is_reference in characters
    )
    assert html(f"<p>{written}</p>", "en").sentences == html(f"<p>{text}</p>", "en").sentences


@given(st.one_of(st.characters(categories=["So"]), st.sampled_from("•‣⁃")))
def test_a_sign_before_a_text_ends_no_sentence_and_hides_none(sign):
    assert sentence_ends(f"{sign} One dog. Two cats.", "en") == [len(sign) + 10]


# ---- addresses, marks and gaps, each by its kind


BEHIND = ["", *".,;:!?])»”’。ก한中", "\u2009x", " >"]


@pytest.mark.parametrize(
    "address",
    [
        "https://x.org/a", "http://x.org", "ftp://x.org/a.b", "www.x.org/a?b=c&d=e", "https://x.org/(a)b",
        "a+b.c-d@x-y.org", "@user", "@a.b-c", "@user@x.social",
        "https://x.org:80/a,b;c", "{name}", "%s", "___", "________",
    ],
)  # fmt: skip
def test_an_address_is_kept_without_the_marks_behind_it(address):
    for mark in BEHIND:
        # A letter of any script is one of a name.
        after = f" {mark}" if address[0] == "@" and mark.isalpha() else mark
        text = f"One word {address}{after} and more"
        (segment,) = plain_text(text, "und", split=False).segments
        assert [source for _, source in segment.marks] == [address]
        assert segment.sentence == text.replace(address, "<g1/>")


@pytest.mark.parametrize(
    "text",
    [
        "a://b c",
        "x/@user b",
        "me@x",
        "a.@user x",
        "xwww.x.org a",
        "50 % s",
        "1 @ 2",
        "@@user b",
        "a___b",
        "__ b",
    ],
)
def test_what_is_no_address_is_text(text):
    (segment,) = plain_text(f"One {text}", "und", split=False).segments
    assert not segment.marks


@pytest.mark.parametrize("mark", [",", ";", ":", "%", ")", "]", "»", "”", "’", ",”"])
@pytest.mark.parametrize("address", ["{name}", "@bob", "me@x.org"])
def test_marks_that_touch_an_address_at_the_start_stay_with_it(mark, address):
    assert plain_text(f"{address}{mark} A dog runs.", "en").sentences == ("A dog runs.",)
    assert plain_text(f"{mark} A dog runs.", "en").sentences == (f"{mark} A dog runs.",)
    assert plain_text(f"{{name}}{mark}1 dog", "en").sentences == (f"{mark}1 dog",)


@pytest.mark.parametrize(
    "mark", ["-", "*", "+", "•", "◦", "▪", "●", "■", "–", "—", "☐", "☑", "☒", "✓", "✗", "→", "♪", "#",
        "######", "1.", "123.", "1)", "(12)", "123)", "A)", "(b)",
             "[ ]", "[x]", "[X]"]
)  # fmt: skip
def test_each_mark_of_a_list_needs_a_space_behind_it(mark):
    for before in ("", "> ", ">", " \t", "- "):
        assert plain_text(f"{before}{mark} One two.", "en").sentences == ("One two.",)
    assert plain_text(f"{mark}One two.", "en", split=False).sentences == (f"{mark}One two.",)
    assert plain_text(f"One {mark} two", "en", split=False).sentences == (f"One {mark} two",)


@pytest.mark.parametrize("mark", ["1234.", "#######", "abc)", "[y]", "~", "1:"])
def test_other_marks_are_text(mark):
    assert plain_text(f"{mark} One two", "en", split=False).sentences == (f"{mark} One two",)


def paired(names):
    """Marks with words, nested as their names say."""
    return " ".join(f"{name}w" for name in names)


MARKS = ["<g1>", "</g1>", "<g2>", "</g2>", "<g3/>"]


def is_nested(names):
    """Whether nothing is left once pairs with nothing between them are taken out again and again."""
    text = "".join(names).replace("<g3/>", "")
    while (shorter := re.sub(r"<g(\d)></g\1>", "", text)) != text:
        text = shorter
    return not text


@given(st.permutations(MARKS) | st.lists(st.sampled_from(MARKS), min_size=4, max_size=6))
def test_marks_stand_where_a_translation_has_them_if_they_are_nested_and_before_it_if_not(names):
    segment = Segment(
        "<g1>a</g1> <g2>b</g2> <g3/>c",
        0,
        9,
        "<b>a</b> <i>b</i> <x/>c",
        PLAIN,
        tuple(zip(MARKS, ["<b>", "</b>", "<i>", "</i>", "<x/>"], strict=True)),
    )
    written = segment.restore(paired(names))
    expected = paired(names)
    for name, source in segment.marks:
        expected = expected.replace(name, source)
    if sorted(names) == sorted(MARKS) and is_nested(names):
        assert written == expected
    else:
        assert written == "<b></b><i></i><x/> " + paired([""] * len(names))


@given(st.permutations(["</g1>", "<g2>", "<g3>", "</g3>", "<g4/>"]))
def test_tags_whose_partners_are_elsewhere_keep_their_order_outside_of_pairs(names):
    marks = tuple(
        zip(["</g1>", "<g3>", "</g3>", "<g4/>", "<g2>"], ["</b>", "<i>", "</i>", "<x/>", "<u>"], strict=True)
    )
    segment = Segment("x", 0, 9, "y", PLAIN, marks)
    written = segment.restore("".join(names))
    if names.index("<g3>") > names.index("</g3>"):
        assert written == "</b><i></i><x/><u> "
        return
    assert written.replace("<i>", "").replace("</i>", "").replace("<x/>", "") == "</b><u>"
    inside = written[written.index("<i>") : written.index("</i>")]
    assert not {"</b>", "<u>"} & {inside[place : place + 4] for place in range(len(inside))} | {"<u>"} & {
        inside[-3:]
    }
    assert ("<x/>" in inside) == (names.index("<g3>") < names.index("<g4/>") < names.index("</g3>"))
    for tag, mark in (("</b>", "</g1>"), ("<u>", "<g2>")):
        if names.index(mark) < names.index("<g3>") and mark == "</g1>":
            assert written.index(tag) < written.index("<i>")


@pytest.mark.parametrize(
    ("text", "translations", "joined"),
    [
        ("一。 二。", ["One.", "Two."], "One. Two."), ("One. Two.", ["一。", "Zwei."], "一。 Zwei."),
        ("One. Two.", ["Eins.", "二。"], "Eins. 二。"),
        ("One.  Two.", ["一。", "二。"], "一。  二。"), ("一。二。三。", ["A.", "B.", "C."], "A. B. C."),
        ("One.\tTwo.", ["一。", "二。"], "一。\t二。"),
        ("One. Two. Three.", ["One.", "二。", "三。"], "One. 二。三。"),
        ("한국어. 둘.", ["一。", "二。"], "一。二。"),
    ],
)  # fmt: skip
def test_the_gap_between_two_sentences_is_that_of_their_scripts(text, translations, joined):
    assert plain_text(text, "zh" if text[0] == "一" else "en").join(translations) == joined


@pytest.mark.parametrize(
    ("gap", "sources", "translations", "expected"),
    [
        ("", ("One!", "Two"), ("Eins!", "Zwei"), ""), (" ", ("One!", "Two"), ("Eins!", "Zwei"), " "),
        ("", ("一！", "二"), ("Eins!", "Zwei"), " "), ("", ("One!", "二"), ("Eins!", "Zwei"), " "),
        ("", ("一！", "Two"), ("Eins!", "Zwei"), " "), ("", ("One!", "Two"), ("一！", "二"), ""),
    ],
)  # fmt: skip
def test_a_space_is_added_only_where_a_script_without_spaces_had_none(gap, sources, translations, expected):
    assert gap_between(gap, sources, translations) == expected


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["A.", "x", ""])), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_slots_are_written_one_by_one(parts, gap):
    """A slot has what stands in it, and what is around it stays. No space goes over its edge."""
    text, slots, expected = "", [], ""
    for number, (is_slot, translation) in enumerate(parts):
        inside = f"[One {number}. Two.]"
        source = f"<{number}>"
        if is_slot:
            slots.append(Slot(len(text), len(text) + len(inside), source, str.upper if number % 2 else None))
        changed = f"[{translation} Two.]" if translation else inside
        if is_slot and translation:
            expected += changed.upper() if number % 2 else changed
        else:
            expected += source if is_slot else changed
        text += inside + "\n" * gap
        expected += "\n" * gap
    matches = re.finditer(r"One \d\. Two\.", text)
    blocks = [[Piece("text", match[0], match.start(), match.end())] for match in matches]
    document = replace(compose(text, blocks, "en", True, PLAIN), slots=tuple(slots))
    translations = []
    for _, translation in parts:
        translations += [translation, "Two."]
    assert document.join(translations) == expected


def test_a_sentence_has_fifty_marks_at_most():
    for count in (MAX_TAGS - 1, MAX_TAGS, MAX_TAGS + 1):
        text = " ".join(f"word {{name{number}}}" for number in range(count)) + " end"
        assert len(plain_text(text, "en").segments) == (1 if count <= 50 else count + 1)
    assert MAX_TAGS == 50


@pytest.mark.parametrize(
    ("mark", "is_kept"),
    [("<a>[1]</a>", True), ("<a>[12]</a>", True), ("<a>[b]</a>", True), ("<a>[ab]</a>", False),
        ("<a>*</a>", True), ("<a>†‡§¶</a>", True), ("<a>1</a>", False),
     ("<sup>1</sup>", True), ("<sup>1,2</sup>", True), ("<sup>(12) [3]</sup>", True),
     ("<sup>ab</sup>", False), ("<sup>1234567890123</sup>", False),
     ("<sup>123456789012</sup>", True), ("<a><sup>3</sup></a>", True), ("<sup><a>3</a></sup>", True),
     ("<sup></sup>", True)],
)  # fmt: skip
def test_the_mark_of_a_footnote_is_one_mark(mark, is_kept):
    (segment,) = html(f"<p>One{mark} two", "en").segments
    assert [source for _, source in segment.marks] == ([mark] if is_kept else re.findall("<[^>]*>", mark))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<b>One</b> two", "<g1>One</g1> two"), ("<b>One two</b>", "One two"),
        ("<b><i>One</i> two</b>", "<g1>One</g1> two"), ("<i/>One <i/>two<i/>", "One <g1/>two"),
        ("One <b> </b>two", "One <g1/>two"), ("One <b><i></i></b> two", "One <g1/> two"),
        ("<b> One </b> two ", "<g1> One </g1> two"), ("bi<wbr>cycle", "bi<g1>cycle"),
        ("bi <wbr>cycle", "bi <g1/>cycle"), ("a<wbr> b", "a<g1/> b"),
        ("<b>One</i> two</b> x", "<g1>One<g2></g2> two</g1> x".replace("<g2></g2>", "</g2>")),
        ("One</b> two", "One</g1> two"), ("One</b> two</i> three<b> x", "One</g1> two</g2> three<g3> x"),
        ("{a}<b>One</b>, two{b}", "<g1>One</g1>, two"), ("One {a}{b} two", "One <g1/> two"),
        ("One {a} {b} two", "One <g1/> <g2/> two"),
    ],
)  # fmt: skip
def test_tags_become_marks_where_they_are_needed(text, sentence):
    assert html(f"<p>{text}</p>", "en").sentences == (sentence,)
