"""The text of HTML and XML is translated; tags and everything else come back byte for byte."""

import re
from collections import Counter
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml.html import defs

from dragoman.documents.document import MAX_TAGS
from dragoman.documents.file import Reading
from dragoman.documents.markup import BLOCK_ELEMENTS, VOID, html, read_html, read_markup, read_xml, xml
from dragoman.system.errors import DragomanError
from dragoman.translation.tags import remove_tags
from dragoman.translation.translator import Translator
from tests.document_laws import takes_linear_time

PARTS = (
    "<p>", "</p>", "<P CLASS = 'a'>", "<b>", "</b>", "<i >", "</i\n>", '<a href="x>y" title=it\'s>', "</a>",
    "<br>", "<br/>", "<img alt='a'>", "<!-- no -->", "<!--", "-->", "<!DOCTYPE html>", "<![CDATA[ <b> ]]>",
    "<?php x ?>", "<", "< a", "<1>", "</>", "<x id='1'/>", "<x>", "</x>", "<code>", "</code>", "<pre>",
    "</pre>", "<script>", "</script>", "<style>", "</STYLE>", "<span translate=no>",
    "<span class='a notranslate'>", "</span>", "&amp;", "&lt;b&gt;", "&eacute;", "&nbsp;", "&#39;",
    "&#x2028;", "&unknown;", "&", "One. ", "two", " ", "\n", "\t", "Three!", "\x00", "\u2028", "é", "\xa0",
    "{name}", "https://x.org/?a=b&amp;c=d", "@me", "<g0/>", "<a '", '="', ">", "]]>", "<svg>", "</svg>",
    "<ü>", "\ud800",
)  # fmt: skip
SOURCE = st.one_of(st.text(), st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
READERS = {"html": html, "xml": lambda text, language: xml(text, language, ignore_tags=("x", "code"))}


READ_VALUE = re.compile(r"""((?:alt|title)\s*=\s*)("[^"]*"|'[^']*')""", re.IGNORECASE)


def tags(text, is_html=True):
    """The multiset of tags, comments and declarations; of HTML without the values that people read."""
    sources = (text[token.start : token.end] for token in read_markup(text, is_html) if token.kind != "text")
    return Counter(READ_VALUE.sub(r"\1", source) if is_html else source for source in sources)


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=50)
@given(SOURCE)
def test_unchanged_sentences_give_the_same_bytes(reader, text):
    document = READERS[reader](text, "en")
    assert document.join(document.sentences) == text
    for sentence, segment in zip(document.sentences, document.segments, strict=True):
        assert sentence.strip() == sentence != ""
        assert sentence.splitlines() == [sentence]
        assert any(map(str.isalpha, sentence))
        assert segment.source == text[segment.start : segment.end]
        assert len(dict(segment.marks)) == len(segment.marks) <= MAX_TAGS


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=50)
@given(SOURCE, st.data())
def test_tags_are_kept_with_every_translation(reader, text, data):
    document = READERS[reader](text, "en")
    translations = []
    for segment in document.segments:
        words = data.draw(st.lists(st.sampled_from(["A", "<", "&", "<b>", "<g1/>", "-->", " "]), max_size=4))
        names = data.draw(st.permutations([name for name, _ in segment.marks]))
        translations.append("".join(data.draw(st.permutations([*words, *names]))))
    joined = document.join(translations)
    assert tags(joined, reader == "html") == tags(text, reader == "html")


def element(children):
    return st.tuples(st.sampled_from(["p", "b", "i", "x", "a-b"]), children).map(
        lambda pair: f'<{pair[0]} k="1>2">{"".join(pair[1])}</{pair[0]}>'
    )


WELL_FORMED = st.recursive(
    st.sampled_from(
        ["One. ", "two ", "&amp;", "Three!", "<br/>", "<!-- c -->", "é", "\n", "<![CDATA[<]]>", "@me "]
    ),
    lambda children: element(st.lists(children, max_size=5)),
    max_leaves=25,
).map(lambda text: f"<doc>{text}</doc>")


@settings(max_examples=50)
@given(WELL_FORMED, st.data())
def test_xml_stays_well_formed_with_every_translation(text, data):
    document = xml(text, "en", ignore_tags=("x",))
    translations = [
        " <&> ".join(data.draw(st.permutations([name for name, _ in segment.marks] or ["a"])))
        for segment in document.segments
    ]
    joined = document.join(translations)
    before, after = ET.fromstring(text), ET.fromstring(joined)
    assert Counter(one.tag for one in after.iter()) == Counter(one.tag for one in before.iter())
    for one in before.iter("x"):
        one.tail = None
        assert ET.tostring(one, "unicode") in ET.tostring(after, "unicode")


class Oracle(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=False)
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append(self.get_starttag_text())

    def handle_endtag(self, tag):
        self.found.append(f"</{tag}>")


@settings(max_examples=50)
@given(
    st.lists(
        st.sampled_from(
            [
                "<p>", "</p>", '<a href="x>y" b=\'"\' c=d e>', "</a>", "<BR>", "<!-- <b> -->",
                "text ", "&amp;", "<script>if (a<b) '</p>'</script>", "<style><b></style>",
                "<!DOCTYPE html>", " < ", "<img src=a/b >",
            ]
        ),
        max_size=20,
    ).map("".join)
)  # fmt: skip
def test_tags_are_those_of_another_parser(text):
    oracle = Oracle()
    oracle.feed(text)
    oracle.close()
    own = [text[t.start : t.end] for t in read_markup(text, True) if t.kind not in {"text", "other"}]
    assert own == oracle.found


@pytest.mark.parametrize("inside", ["<wbr>", "<!-- x -->", "<b></b>", "<a id='x'/>"])
def test_what_has_no_words_does_not_cut_a_word(inside):
    read = html if inside == "<wbr>" else xml
    document = read(f"<p>A bi{inside}cycle <i>stops</i></p>", "en")
    (segment,) = document.segments
    assert remove_tags(segment.sentence)[0] == "A bicycle stops"
    assert document.join([segment.sentence.upper().replace("G", "g")]).count(inside) == 1


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('<p><img src=a alt="A dog. It runs."></p>', ("A dog.", "It runs.")),
        ("<meta name=description content='Dogs &amp; cats'><title>Dogs</title>", ("Dogs & cats", "Dogs")),
        ('<meta name="viewport" content="width=device-width"><p>Dog', ("Dog",)),
        ('<input placeholder="Your name" value="secret">', ("Your name",)),
        ('<p title="A dog">One</p>', ("A dog", "One")),
        ('<p>See <img alt="a dog"> here</p>', ("See <g1/> here",)),  # within a sentence it is kept
        ('<p translate="no" title="A dog">One</p>', ()),
        ("<p title=dog>One</p>", ("One",)),  # a value without quotation marks has no spaces
    ],
)
def test_attributes_that_people_read_are_translated(text, sentences):
    document = html(text, "en")
    assert document.sentences == sentences
    assert document.join(sentences) == text


@given(st.text(alphabet="aB \"'<>&=;\n", min_size=1))
def test_a_translated_attribute_is_read_back_and_ends_no_tag(translation):
    document = html('<p><img alt="A dog" id="x"></p>', "en")
    (image,) = [
        dict(attributes) for name, attributes in tags_of(document.join([translation])) if name == "img"
    ]
    expected = translation if translation.strip() else "A dog"
    assert image == {"alt": expected, "id": "x"}


def tags_of(text):
    """The tags of an HTML document and their attributes, as html.parser reads them."""
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda name, attributes: tags.append((name, attributes))
    parser.feed(text)
    parser.close()
    return tags


def test_a_post_of_mastodon():
    text = '<p>Hello <a href="…" class="mention"><span>@x</span></a></p>'
    document = html(text, "en")
    assert document.sentences == ("Hello",)
    assert not document.needs_tags
    assert document.join(["Hallo"]) == text.replace("Hello", "Hallo")
    link = (
        '<a href="https://x.org/ab"><span class="invisible">https://</span><span>x.org/a</span>'
        '<span class="invisible">b</span></a>'
    )
    name = '<span class="h-card" translate="no"><a href="https://m.s/@x">@<span>x</span></a></span>'
    document = html(f"<p>{name} Look. See {link}, or not<br />AT&amp;T</p>", "en")
    assert document.sentences == ("Look.", "See <g1/>, or not", "AT&T")
    assert document.join(["Da.", "Sieh <g1/> & los", "x"]) == (
        f"<p>{name} Da. Sieh {link} &amp; los<br />x</p>"
    )


def test_a_text_of_weblate():
    document = xml('Hello <x id="1"></x>, see <x id="2">%s files</x> in <g>it</g>.', "en", ignore_tags=("x",))
    assert document.sentences == ("Hello <g1/>, see <g2/> in <g3>it</g3>.",)
    assert document.join(["<g3>Da</g3> <g2/> <g1/>"]) == ('<g>Da</g> <x id="2">%s files</x> <x id="1"></x>')


def test_blocks_cut_sentences_and_inline_tags_do_not():
    text = "<div>One <em>two</em> three<ul><li>Four<li>Five. Six</ul>Seven<h1> Eight </h1></div>"
    document = html(text, "en")
    assert document.sentences == ("One <g1>two</g1> three", "Four", "Five.", "Six", "Seven", "Eight")
    document = html("<b>One. Two</b> three <i>four.</i> <u>Five</u>", "en")
    assert document.sentences == ("One.", "Two</g1> three <g2>four.</g2>", "Five")
    assert (
        document.join(["Eins.", "Zwei</g1> <g2>drei</g2>", "x"]) == "<b>Eins. Zwei</b> <i>drei</i> <u>x</u>"
    )
    assert html("One. Two.", "en", split=False).sentences == ("One. Two.",)


def test_the_structure_of_xml_says_what_is_inline():
    text = "<doc>\n<par>One <b>two</b>.</par>\n<par><b>Three</b></par></doc>"
    assert xml(text, "en").sentences == ("One <g1>two</g1>.", "Three")
    assert xml(text, "en", splitting_tags=("b",)).sentences == ("One", "two", "Three")
    assert xml("<a>One</a> <a>Two</a>", "en").sentences == ("One", "Two")
    assert xml("<a>One</a> <a>Two</a>", "en", non_splitting_tags=("a",)).sentences == (
        "<g1>One</g1> <g2>Two</g2>",
    )


@pytest.mark.parametrize(
    "kept",
    [
        "<code>secret</code>", "<pre>secret <b>secret</b></pre>", "<script>'secret' < 3 </b></script>",
        "<STYLE>secret</STYLE>", "<!-- secret -->", "<![CDATA[secret]]>", "<?secret?>", "<!DOCTYPE secret>",
        """<!DOCTYPE r [<!ENTITY a "x]y"><!-- ] --><?x ]?><!ENTITY b '<p>secret</p>'>]>""",
        '<!DOCTYPE r SYSTEM "secret>[secret.dtd" [ <!-- \'secret]> -->]>',
        f'<!DOCTYPE r [<!-- {"secret " * 300}[1]> --><!ENTITY a "{"secret " * 300}]>">]>',
        '<span translate="no">secret <span>secret</span> secret</span>',
        "<b class='x notranslate y'>secret</b>", "<img alt=secret translate=no>", "<kbd>secret</kbd>",
        "<svg><text>secret</text></svg>", "&secret;", "https://secret.org/", "{secret}", "@secret",
        "me@secret.org",
    ],
)  # fmt: skip
def test_the_model_never_reads_what_is_kept(kept):
    for text in (
        kept,
        f"<p>One {kept} two. Three</p>",
        f"{kept} One",
        f"One {kept}",
        f"<p>{kept}</p><p>One</p>",
    ):
        document = html(text, "en")
        assert not any("secret" in sentence for sentence in document.sentences)
        assert kept in document.join(["x"] * len(document.sentences))
        assert "One" not in text or any("One" in sentence for sentence in document.sentences)


@pytest.mark.parametrize(
    "kept",
    [
        "<!-- <b>secret -->", "<!-- secret --!> secret -->",
        "<![CDATA[secret > secret]]>", '<?php echo "<b>secret" > 1 ?>', "&secret;",
        "<x>secret <b>secret</b></x>", "<x k='>'>secret <x>secret</x> secret</x>", "<x>secret</x k='1'>",
        '<!DOCTYPE r [<!ENTITY a "<p>secret</p>">]>', "<x k='secret'/>",
    ],
)  # fmt: skip
def test_the_model_never_reads_what_is_kept_in_xml(kept):
    for text in (kept, f"<p>One {kept} two. Three</p>", f"{kept} One", f"One {kept}", f"<a>One</a>{kept}"):
        document = xml(text, "en", ignore_tags=("x",))
        assert not any("secret" in sentence for sentence in document.sentences)
        assert kept in document.join(["x"] * len(document.sentences))
        assert "One" not in text or any("One" in sentence for sentence in document.sentences)


def test_case_distinguishes_no_names_in_html_and_all_in_xml():
    text = (
        "<p>One <b>two</b><br>three <img alt=a> <code>four</code><script>five</script><title><b></title>"
        "<i translate='no'>six</i> seven. <u class='a notranslate'>eight</u> nine</p>ten"
    )
    for tag in re.finditer("<[^>]*>", text):
        other = text[: tag.start()] + tag[0].upper() + text[tag.end() :]
        assert html(other, "en").sentences == html(text, "en").sentences
    (sentence,) = xml("<doc>One <X>two</X> three</doc>", "en", ignore_tags=("x",)).sentences
    assert sentence == "One <g1>two</g1> three"


@given(st.lists(st.sampled_from(["<x>", "</x>", "<b>", "</b>", "secret", "<x/>"]), max_size=12).map("".join))
def test_ignored_elements_are_never_given_to_the_model(inside):
    inside = re.sub("</?x>", "", inside)
    document = xml(f"One <x>{inside}</x> two.<p><x k='1'>secret</x></p>", "en", ignore_tags=("x",))
    assert not any("secret" in sentence for sentence in document.sentences)


@pytest.mark.parametrize(
    "kept", ["</>", "</ secret>", "</3 secret>", "<!-- secret --!>", "<!--!> secret -->"]
)
def test_what_html_does_not_show_is_kept(kept):
    document = html(f"<p>One {kept} two.</p>", "en")
    assert document.sentences == ("One <g1/> two.",)
    assert document.join(["Eins <g1/> zwei."]) == f"<p>Eins {kept} zwei.</p>"
    assert "secret" not in "".join(document.sentences)


def end_of_comment(text):
    """Where the comment ends that a text begins with, by the states of the HTML standard (13.2.5.43 to 51).

    The states after `<` are left out: they read the same characters.
    """
    state = "start"
    for place, character in enumerate(text[4:], 5):
        if character == ">" and state in {"start", "start dash", "end", "end bang"}:
            return place
        following = {
            "-": {"start": "start dash", "comment": "end dash", "end bang": "end dash"},
            "!": {"end": "end bang"},
        }
        default = "end" if character == "-" else "comment"
        state = following.get(character, {}).get(state, default)
    return len(text)


@given(st.text("-->!<a ", max_size=12).map("<!--{}".format), st.sampled_from(["", "a", "-->", "<b>-->"]))
@example("<!--->", "a-->")
@example("<!---!>", "a-->")
def test_comments_end_as_the_standard_says(text, rest):
    assert read_markup(text + rest, is_html=True)[0].end == end_of_comment(text + rest)
    end = (text + rest).find("-->", 4)  # of XML
    is_abrupt = text.startswith(("<!-->", "<!--->"))
    assert is_abrupt or read_markup(text + rest, False)[0].end == (len(text + rest) if end < 0 else end + 3)


@pytest.mark.parametrize("is_html", [True, False])
def test_an_instruction_ends_with_two_signs_in_xml_and_one_in_html(is_html):
    text = "<?php if (a > b) ?> c"
    end = text.index(">") + 1 if is_html else text.index("?>") + 2
    assert (read_markup(text, is_html)[0].kind, read_markup(text, is_html)[0].end) == ("other", end)


@pytest.mark.parametrize("name", ["title", "textarea", "script", "style"])
def test_an_element_without_tags_ends_with_its_whole_name_alone(name):
    text = f"<{name}>a</{name}s> b"
    closed = [token for token in read_markup(f"{text}</{name}><p>", is_html=True) if token.kind == "end"]
    assert [token.start for token in closed] == [len(text)]


@pytest.mark.parametrize("attribute", ["class='notranslated'", "class=no-notranslate", "translate=none"])
def test_an_element_is_translated_unless_its_attribute_has_the_whole_word(attribute):
    assert html(f"<p>One <b {attribute}>two</b> three.", "en").sentences == ("One <g1>two</g1> three.",)


@pytest.mark.parametrize("number", [9, 10, 12, 13, 32])
def test_white_space_that_is_written_as_a_number_is_a_space_of_its_sentence(number):
    assert html(f"<p>One&#{number};two.", "en").sentences == ("One two.",)


@pytest.mark.parametrize("reader", [html, xml])
def test_a_tag_that_is_named_not_to_end_a_sentence_ends_none_whatever_else_names_it(reader):
    options = {"splitting_tags": ("p",), "non_splitting_tags": ("p",)}
    assert len(reader("<d>One<p>two</p>three</d>", "en", **options).sentences) == 1


@given(st.lists(st.sampled_from(["<b></b>", "<b> </b>", "<i/>", "<!-- c -->", " "]), max_size=5).map("".join))
def test_an_element_without_text_in_a_text_ends_no_sentence(inside):
    assert len(xml(f"<doc>One{inside}two</doc>", "en").sentences) == 1


def are_kept(tokens):
    """Whether each token is in an element `x` or `y`, which are not translated. Its end tag is in it, too."""
    kept, opened, place = [False] * len(tokens), [], 0
    while place < len(tokens):
        kind, name = tokens[place]
        end = place + 1
        if kind == "start" and name in {"x", "y"}:
            first, inside = name, [name]
            while end < len(tokens) and first in inside:
                kind, name = tokens[end]
                if kind == "end" and name not in inside and name in opened:
                    break
                if kind == "start":
                    inside.append(name)
                elif kind == "end" and name in inside:
                    inside.remove(name)
                end += 1
            kept[place:end] = [True] * (end - place)
        elif kind == "start":
            opened.append(name)
        elif kind == "end" and name in opened:
            opened.remove(name)
        place = end
    return kept


@given(st.lists(st.tuples(st.sampled_from(["start", "end", "text"]), st.sampled_from("xybi")), max_size=14))
@example([("start", "x"), ("end", "x"), ("start", "y"), ("end", "x"), ("text", "b"), ("end", "y")])
@example([("start", "x"), ("end", "x"), ("start", "b"), ("start", "x"), ("end", "b"), ("text", "b")])
@example(
    [("start", "b"), ("end", "b"), ("start", "x"), ("end", "b"), ("text", "b"), ("end", "x"), ("text", "b")]
)
@example(
    [("start", "b"), ("start", "x"), ("end", "b"), ("start", "x"), ("end", "b"), ("text", "b"), ("end", "x")]
)
def test_what_is_in_an_element_that_is_kept_is_not_read_and_all_else_is(tokens):
    """The element may have no end tag, and other end tags may have no element."""
    forms = {"start": "<{}>", "end": "</{}>", "text": "word"}
    parts = [
        forms[kind].format(name) + f"{number}" * (kind == "text")
        for number, (kind, name) in enumerate(tokens)
    ]
    read = " ".join(html("<p>".join(parts), "en", ignore_tags=("x", "y")).sentences)
    texts = [number for number, (kind, _) in enumerate(tokens) if kind == "text"]
    kept = are_kept(tokens)
    assert [number for number in texts if re.search(rf"word{number}\b", read)] == [
        number for number in texts if not kept[number]
    ]


def test_a_title_and_a_text_area_contain_text_alone():
    page = "<title>A <code> man</title><textarea><script>a</textarea><p>A dog.</p>"
    document = html(page, "en")
    assert document.sentences == ("A <g1/> man", "a", "A dog.")  # what looks like a tag is kept
    joined = document.join(["B <g1/>", "C", "D"])
    assert joined == "<title>B <code></title><textarea><script>C</textarea><p>D</p>"


@pytest.mark.parametrize("element", ["<source srcset=a>", "<meta content=y>", "<link href=x>"])
def test_elements_without_a_place_on_the_page_do_not_end_a_sentence(element):
    assert len(html(f"<p>A man {element}rides a bike.</p>", "en").sentences) == 1


def test_a_translation_with_control_characters_leaves_xml_well_formed():
    assert xml("<doc>A man</doc>", "en").join(["a\x01b\x1f"]) == "<doc>a b </doc>"


@given(st.text("a\x00\x0b\x1f\x7f\x85\ufffd\ufffe\uffff&<>]'") | st.text(st.characters(codec="utf-8")))
def test_xml_is_well_formed_with_every_translation_of_any_characters(text):
    ET.fromstring(xml("<doc>A man</doc>", "en").join([text]))


def test_labels_and_buttons_have_sentences_of_their_own():
    text = "<label>A name <input></label><button>Yes</button><button>No</button> <output>none</output>"
    assert html(text, "en").sentences == ("A name", "Yes", "No", "none")


def test_a_sentence_with_an_empty_translation_is_kept():
    document = html("<p>One <b>two</b>.</p><p>Three</p>", "en")
    assert document.join(["", "Drei"]) == "<p>One <b>two</b>.</p><p>Drei</p>"
    assert document.join(["<g1></g1> ", " "]) == document.text


def test_an_unclosed_element_that_is_kept_ends_with_its_parent():
    document = html("<div><p translate=no>no</div><p>One</p><b><code>no", "en")
    assert document.sentences == ("One",)


def test_entities_are_unescaped_for_the_model_and_escaped_after_it():
    document = html("<p>AT&amp;T &lt; caf&eacute; &#x27;x&#39; &unknown; y&nbsp;z</p>", "en")
    assert document.sentences == ("AT&T < café 'x' <g1/> y\xa0z",)
    assert document.join(["a & b < <g1/> c > 'd'"]) == "<p>a &amp; b &lt; &unknown; c &gt; 'd'</p>"


def test_entities_that_an_xml_document_defines_are_kept_whatever_html_has():
    own = '<!DOCTYPE book [<!ENTITY copyright "ACME"> <!ENTITY prod "Widget"> <!ENTITY gtk "GTK">]>'
    document = xml(
        f"{own}<book><p>see &prod; and &copyright; now</p><p>see &gtk; &amp; &eacute;</p></book>", "en"
    )
    assert document.sentences == ("see <g1/> and <g2/> now", "see <g1/> & é")
    assert "<p>see &prod; and &copyright; now</p><p>see &gtk; &amp; é</p>" in document.join(
        document.sentences
    ).replace("&eacute;", "é")


def test_marks_that_do_not_fit_come_before_the_text():
    document = html("<p>Big <b>red</b> <i>house</i>.</p>", "en")
    assert document.sentences == ("Big <g1>red</g1> <g2>house</g2>.",)
    good, bad = "<g2>Haus</g2> <g1>rot</g1>", "<p><b></b><i></i> abc</p>"
    assert document.join([good]) == "<p><i>Haus</i> <b>rot</b></p>"
    assert document.join(["abc"]) == bad
    for other in (
        "a<g1>b</g1>c",
        "<g1>a<g2>b</g1>c</g2>",
        "</g1>a<g1>b<g2>c</g2>",
        good + "<g1>",
        good + good,
    ):
        assert document.join([other]).startswith("<p><b></b><i></i> ")


def test_html_takes_the_names_of_tags_that_xml_takes():
    text = "<p>One <X-NAME>Ann</X-NAME> two <mark>three</mark><p>Four"
    assert html(text, "en", ignore_tags=("x-name",)).sentences == (
        "One <g1/> two <g2>three</g2>",
        "Four",
    )
    assert html(text, "en", splitting_tags=("MARK",), ignore_tags=("p",)).sentences == ()
    assert html(text, "en", splitting_tags=("MARK",)).sentences == (
        "One <g1>Ann</g1> two",
        "three",
        "Four",
    )
    assert html("One<br>two", "en", non_splitting_tags=("br",)).sentences == ("One<g1/>two",)


def test_a_tag_without_partner_in_its_sentence_stands_outside_of_pairs():
    document = xml("<doc>x <b>One. Two</b> three <i>four</i></doc>", "en")
    assert document.sentences == ("x <g1>One.", "Two</g1> three <g2>four</g2>")
    assert document.join(["Eins. <g1>x", "<g2>Zwei</g1> drei</g2> vier"]) == (
        "<doc>Eins. <b>x <i>Zwei drei</i></b> vier</doc>"
    )


def test_a_sentence_with_very_many_tags_is_cut_at_them():
    document = html("one <b>two</b> " * MAX_TAGS, "en")
    assert set(document.sentences) == {"one", "two"}
    assert not document.needs_tags


@pytest.mark.short_form(2)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "part",
    [
        "<b>", "a <b>", "<", "<a ", "<!--", "<!", "</a", '<a " ="', "<a =\"'", "<p>Hi there. ",
        "&amp", "&", "<code>", "<b>x</i>", "<b translate=no>", "a\x01", "<script>", "&lt;b&gt; ", "<?",
        "<!DOCTYPE[", "<!DOCTYPE a", '<!DOCTYPE a "', "<!DOCTYPE a [<?]>", "<!DOCTYPE a [<!--]>",
        "<!DOCTYPE a [\"']>",
        "<a =", "= ", "<a\t=\t", "www.x?&amp;",
    ],
)  # fmt: skip
def test_the_time_is_linear(reader, part):
    def work(length):
        text = part * (length // len(part))
        document = READERS[reader](text, "en")
        assert document.join(document.sentences) == text

    takes_linear_time(work, 20_000)


@pytest.mark.parametrize(
    "tag", ["<a href=http://x.org/>", "<a b='c' href= x/>", '<a href="x">', "<a href=x >"]
)
def test_a_slash_of_a_value_without_quotes_does_not_end_an_element(tag):
    (sentence,) = html(f"<p>{tag}This page</a> is new.</p>", "en").sentences
    assert sentence == "<g1>This page</g1> is new."


@pytest.mark.parametrize(
    "tag", ["<a/>", '<a href="x"/>', "<a href='a=b'/>", "<a href=x />", '<a href="a b=c"/>']
)
def test_a_slash_after_a_value_ends_an_element(tag):
    (sentence,) = html(f"<p>{tag}This page is new.</p>", "en").sentences
    assert "</g1>" not in sentence


def test_deep_nesting_takes_linear_time():
    def work(depth):
        assert html("<b>" * depth + "One two" + "</b>" * depth, "en").sentences == ("One two",)

    takes_linear_time(work, 10_000)


def test_a_document_is_translated(trained):
    translator = Translator.load(trained / "run", device="cpu")
    text = "<p CLASS=x>amber <b>birch</b> cedar</p>\n<!-- c --><p>delta <code>x</code> ember</p>"
    document = html(text, "en")
    assert document.needs_tags
    joined = document.join(translator.translate(document.sentences, keep_tags=True))
    assert tags(joined) == tags(text)
    assert joined.startswith("<p CLASS=x>")
    assert "</p>\n<!-- c --><p>" in joined
    assert re.sub("<code>x</code>|<[^>]*>", "", joined).split() == [
        "AMBER",
        "BIRCH",
        "CEDAR",
        "DELTA",
        "EMBER",
    ]
    assert joined.count("<code>x</code>") == 1


@given(st.lists(st.booleans(), min_size=1, max_size=4))
def test_a_pair_of_tags_that_ends_with_a_sentence_stays_in_it(within):
    """The space after the sentence is within the pair, or after it."""
    parts = ["One <b>word. </b>" if is_within else "One <b>word.</b> " for is_within in within]
    segments = html(f"<p>{''.join(parts)}</p>", "en").segments
    assert len(segments) == len(within)
    assert all(len(re.findall("</?g1>", segment.sentence)) == 2 for segment in segments)


@pytest.mark.parametrize(
    "mark",
    [
        "<sup>[1]</sup>",
        "<sup><a>2</a></sup>",
        "<a><sup>2, 3</sup></a>",
        "<a>*</a>",
        "<a>[4]</a>",
        "<sup>[b]</sup>",
    ],
)
def test_the_mark_of_a_footnote_is_kept(mark):
    document = html(f"<p>One{mark} two.{mark} Three <b>4</b>.</p>", "en")
    assert document.sentences == ("One<g1/> two.", "Three <g1>4</g1>.")
    assert document.join(["Eins<g1/> zwei.", "Drei <g1>4</g1>."]) == (
        f"<p>Eins{mark} zwei.{mark} Drei <b>4</b>.</p>"
    )


def test_a_sentence_may_begin_with_what_is_kept():
    document = html(
        "<p>One two. <code>x</code> is three. It is e.g. <code>x</code>. {name} is four.</p>", "en"
    )
    assert document.sentences == ("One two.", "is three.", "It is e.g. <g1/>.", "is four.")


def test_a_translated_page_names_its_language():
    page = '<!-- <html lang="en"> --><HTML class="a" lang="en-GB"><p lang="en">One</p></HTML>'
    document = read_html(page.encode(), Reading("a.html", "en", "de"))
    assert document.write(["One"]).decode() == page
    assert document.write(["Eins"]).decode() == page.replace("en-GB", "de").replace("One", "Eins")
    unknown = read_html(page.encode(), Reading("a.html", "en", "und"))
    assert unknown.write(["Eins"]).decode() == page.replace("One", "Eins")


# ---- elements and attributes, by the HTML standard

BLOCKS = ["address", "article", "aside", "audio", "blockquote", "body", "button", "canvas", "caption",
    "center", "col", "colgroup", "dd", "details", "dialog", "dir", "div", "dl", "dt", "fieldset",
    "figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6",
    "head", "header", "hgroup", "html", "label", "legend", "li", "main", "menu", "meter", "nav", "noscript",
    "object", "ol", "optgroup", "option", "output", "p", "progress", "search", "section", "select", "slot",
    "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "video", "title",
    "textarea"]  # fmt: skip
"""What is not displayed as `inline` (15.3 of the standard), and what is a box or a text of its own."""
INLINES = [
    "a",
    "abbr",
    "b",
    "bdi",
    "bdo",
    "cite",
    "data",
    "dfn",
    "em",
    "font",
    "i",
    "ins",
    "del",
    "mark",
    "q",
    "ruby",
    "s",
    "small",
    "span",
    "strong",
    "sub",
    "sup",
    "time",
    "tt",
    "u",
    "x-y",
]
VOIDS = [
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "track",
    "wbr",
    "param",
]
KEPT = [
    "script",
    "style",
    "xmp",
    "iframe",
    "noembed",
    "noframes",
    "code",
    "pre",
    "kbd",
    "samp",
    "var",
    "svg",
    "math",
]


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_element_ends_a_sentence(name):
    document = html(f"<div>One <{name}>two</{name}> three</div>", "en")
    assert document.sentences == ("One", "two", "three")


def test_the_block_elements_are_those_of_lxml_too():
    assert {*defs.block_tags} - {"isindex", "ins", "del"} <= BLOCK_ELEMENTS
    assert {*defs.empty_tags} - {"isindex", "frame", "basefont"} == VOID


@pytest.mark.parametrize("name", INLINES)
def test_all_other_elements_stand_in_a_sentence(name):
    assert html(f"<div>One <{name}>two</{name}> three</div>", "en").sentences == ("One <g1>two</g1> three",)


@pytest.mark.parametrize("name", VOIDS)
def test_an_element_without_an_end_tag_holds_no_text(name):
    """What follows is beside it, and a space stands in the place of a picture."""
    kinds = {token.kind for token in read_markup(f"a<{name}>b</{name}>", is_html=True)}
    assert kinds == {"text", "empty", "end"}
    assert {token.kind for token in read_markup(f"<{name}>", is_html=False)} == {"start"}
    splits = name in {"br", "hr", "col", "base", "embed"}
    assert len(html(f"<p>One<{name} translate=no>two", "en").sentences) == 1 + splits


@pytest.mark.parametrize("name", KEPT)
def test_an_element_of_code_is_kept(name):
    assert html(f"<div>One <{name}>no <b>no</b> no</{name}> three</div>", "en").sentences in {
        ("One <g1/> three",), ("One", "three")
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["script", "style", "xmp", "iframe", "noembed", "noframes", "title", "textarea"]
)
def test_in_an_element_of_raw_text_there_are_no_tags(name):
    tokens = read_markup(f"<{name}>a<b>c</b></{name}>", is_html=True)
    assert [token.kind for token in tokens] == ["start", "text", "end"]
    assert [token.kind for token in read_markup("<plaintext>a</plaintext >b", is_html=True)] == [
        "start",
        "text",
        "end",
        "text",
    ]


@pytest.mark.parametrize("name", ["alt", "title", "placeholder", "aria-label", "aria-description", "TITLE"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_an_attribute_that_people_read_is_translated(name, quote):
    page = f"<p {name} = {quote}One{quote} class={quote}no{quote}>Two</p>"
    document = html(page, "en")
    assert document.join(document.sentences) == page
    assert document.join(["A", "B"]) == page.replace("One", "A").replace("Two", "B")
    assert html(page.replace(quote, ""), "en").sentences == ("Two",)


@pytest.mark.parametrize(
    "name", ["value", "content", "href", "data-title", "name", "aria-labelledby", "lang"]
)
def test_another_attribute_is_kept(name):
    assert html(f'<p {name}="One">Two</p>', "en").sentences == ("Two",)


@pytest.mark.parametrize(
    ("attribute", "is_read"),
    [*((f'name="{name}"', True) for name in ("description", "Description", "twitter:title",
        "twitter:description")),
     *((f'property="{name}"', True) for name in ("og:title", "og:description")),
     *((f'name="{name}"', False) for name in ("keywords", "author", "viewport", "og:image", "title")),
     ("", False)],
)  # fmt: skip
def test_a_description_of_a_page_is_translated(attribute, is_read):
    page = f'<meta content="One" {attribute}><p>Two</p>'
    assert html(page, "en").sentences == (("One", "Two") if is_read else ("Two",))
    assert html(page.replace("meta", "x-y"), "en").sentences == ("Two",)


@given(
    st.lists(
        st.sampled_from(['<img alt="x">', "<b title='y'>", "</b>", "one", ". Two", "<br>", " "]), max_size=8
    ).map("".join)
)
def test_an_attribute_is_translated_where_its_tag_stands_in_no_sentence(text):
    document = html(text, "en")
    places = [match.start(1) for match in re.finditer("(?:alt=\"|title=')(.)", text)]
    texts = [segment for segment in document.segments if segment.source not in {"x", "y"}]
    outside = [
        place for place in places if not any(segment.start <= place < segment.end for segment in texts)
    ]
    assert [segment.start for segment in document.segments if segment.source in {"x", "y"}] == outside


@pytest.mark.parametrize(
    ("attributes", "is_kept"),
    [("translate=no", True), ("TRANSLATE='NO'", True), ("translate = \"no\"", True),
        ("class='a NoTranslate'", True), ("translate=yes", False),
     ("translate", False), ("id='translate' lang=no", False), ("class=translate", False)],
)  # fmt: skip
@pytest.mark.parametrize("form", ["<p>One <{} {}>no</{}> two</p>", "<p>One <img {1} alt='no'> two</p>"])
def test_an_element_says_that_it_is_not_translated(attributes, is_kept, form):
    (sentence,) = html(form.format("b", attributes, "b"), "en").sentences
    assert ("no" in sentence) == (not is_kept and "img" not in form)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("<a href='>'>", ["start"]), ('<a href=">" b=\'"\'>', ["start"]), ("<a b'>'>", ["start", "text"]),
        ("<a/>", ["empty"]), ("</a/>", ["end"]),
        ("<a b=c/>", ["start"]), ("<_a>", ["start"]), ("<:a>", ["start"]), ("<1a>", ["text"]),
        ("< a>", ["text"]), ("<é>", ["start"]),
        ("</", ["text"]), ("</>", ["other"]), ("<a", ["text"]), ("<a <b>", ["text", "start"]),
        ("<![CDATA[>]]>", ["other"]), ("<!x>y", ["other", "text"]),
        ("<?x>y", ["other", "text"]), ("<!DOCTYPE a [<!ENTITY b '>'>]>c", ["other", "text"]),
        ("<!doctype[]>c", ["other", "text"]),
        ("<!DOCTYPE a [ [ ] x ]>c", ["other", "text"]),
    ],
)  # fmt: skip
def test_the_tokens_of_a_page(text, kinds):
    tokens = read_markup(text, is_html=True)
    assert [token.kind for token in tokens] == kinds
    assert "".join(text[token.start : token.end] for token in tokens) == text


@pytest.mark.parametrize(
    ("source", "shown"),
    [("&amp;", "&"), ("&eacute;", "é"), ("&eacute", "é"), ("&#233;", "é"), ("&#xE9;", "é"), ("&#XE9", "é"),
        ("&nbsp;", "\xa0"), ("&#x1F600;", "😀"),
     ("&foo.bar-b_c;", "<g1/>"), ("&copyright;", "©right;"), ("&x", "&x"), ("&", "&"), ("&#10;", " "),
     ("&#12;", " "), ("a\n\t b", "a b")],
)  # fmt: skip
def test_an_entity_is_read_as_its_character(source, shown):
    assert html(f"<p>One{source}two</p>", "en").sentences == (f"One{shown}two",)
    own = f"<!DOCTYPE d [<!ENTITY\n{source[1:-1]}\t'x'>]><d>One{source}two</d>"
    if source in {"&eacute;", "&foo.bar-b_c;"}:
        assert xml(own, "en").sentences == ("One<g1/>two",)


@pytest.mark.parametrize(
    ("page", "language"),
    [("<html lang=de>", "de"), ("<HTML LANG='en-GB'>", "en-GB"),
        ("<!-- c --><html a=b lang=\" fr \">", "fr"), ("<p lang=de>", ""), ("<html>", ""),
     ("<html xml:lang=de>", ""), ("", "")],
)  # fmt: skip
def test_a_page_says_its_language(page, language):
    document = read_html(f"{page}<p>One".encode(), Reading("a", "en", "it"))
    assert document.language == language
    written = document.write(["Uno"]).decode()
    assert written == (page.replace(language, "it") if language else page) + "<p>Uno"
    assert document.write(["One"]).decode() == page + "<p>One"


def test_an_xml_document_says_its_language():
    for page, language in (
        ("<a xml:lang='de'>", "de"),
        ("<a lang='de'>", ""),
        ("<a/>", ""),
        ("<?x?><a XML:LANG='de'>", "de"),
    ):
        assert read_xml(f"{page}One".encode(), Reading("a", "en", "it")).language == language


@pytest.mark.parametrize(
    ("declaration", "encoding", "is_read"),
    [('<?xml version="1.0" encoding="UTF-8"?>', "utf-8", True),
        ("<?xml version='1.0' encoding='utf8'?>", "utf-8-sig", True),
     ('<?xml version="1.0" encoding="latin1"?>', "utf-8", False),
     ('<?xml version="1.0" encoding="UTF-16"?>', "utf-16", True),
     ('<?xml version="1.0" encoding="UTF-8"?>', "utf-16", False), ("<meta charset=utf-8>", "utf-8", True),
     ("<META CHARSET='koi8-r'>", "utf-8", False),
     ('<meta http-equiv=x content="text/html; charset=latin1">', "utf-8", False),
     ("<meta charset=nothing>", "utf-8", False),
     ("<!-- <meta charset=latin1> --><meta charset=utf-8>", "utf-8", True),
     (" " * 300 + "<meta charset=latin1>", "utf-8", False),
     ("<p>encoding=latin1</p>", "utf-8", True)],
)  # fmt: skip
def test_a_page_is_in_the_encoding_that_it_declares(declaration, encoding, is_read):
    content = f"{declaration}<p>One é</p>".encode(encoding)
    if is_read:
        document = read_html(content, Reading("a", "en", "de"))
        assert document.write(document.sentences) == content
        assert document.sentences[-1] == "One é"
    else:
        with pytest.raises(DragomanError, match="says that its encoding is"):
            read_html(content, Reading("a", "en", "de"))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("<d>one <b>two</b></d>", ["one <g1>two</g1>"]), ("<d><b>one</b><i>two</i></d>", ["one", "two"]),
        ("<d>\n<b>one</b>\n<i/>two</d>", ["one</g> <g/>two"]),
        ("<d><b>one</b>,<i>two</i></d>", ["one</g1>,<g2>two"]),
        ("<d><e><b>one</b></e> two</d>", ["one", "two"]), ("<b>one</b> two", ["one</g1> two"]),
        ("<d><e>one</e></x><f>two</f></d>", ["one", "two"]),
        ("<d><e>one<f>two</d><g>three</g>", ["one<g1>two", "three"]),
    ],
)  # fmt: skip
def test_an_element_of_xml_is_in_a_sentence_if_its_parent_has_text(text, sentences):
    found = [re.sub(r"\A<g\d+>|</g\d+>\Z", "", sentence) for sentence in xml(text, "en").sentences]
    assert [re.sub(r"\d", "", one) for one in found] == [
        re.sub(r"\d", "", re.sub(r"\A<g\d+>|</g\d+>\Z", "", one)) for one in sentences
    ]
    split = xml("<d>one <b>two</b> three</d>", "en", splitting_tags=("b",), non_splitting_tags=("i",))
    assert split.sentences == ("one", "two", "three")


@settings(max_examples=30)
@given(
    st.lists(
        st.sampled_from(
            ["<rt>a</rt>", "<rp>(</rp><rt>b</rt><rp>)</rp>", "<rt>c", " <rtc><rt>d</rt></rtc>\n"]
        ),
        max_size=4,
    ),
    st.randoms(use_true_random=False),
)
def test_annotations_of_ruby_stay_behind_its_words(annotations, chance):
    rubies = [f"<ruby>word{annotation}</ruby>" for annotation in annotations]
    document = html(f"<p>One {' and '.join(rubies)} two.</p>", "en")
    (sentence,) = document.sentences
    units = re.findall(r"<g\d+>.*?</g\d+>|\w+", sentence)
    chance.shuffle(units)
    written = document.join([" ".join(units)])
    assert sorted(re.findall("<ruby>.*?</ruby>", written, re.DOTALL)) == sorted(rubies)


def test_ruby_with_text_behind_an_annotation_is_kept():
    ruby = "<ruby>a<rt>b</rt>c<rt>d</rt></ruby>"
    document = html(f"<p>One {ruby} two.</p>", "en")
    assert document.sentences == ("One <g1/> two.",)
    assert document.join(["<g1/> Zwei."]) == f"<p>{ruby} Zwei.</p>"
