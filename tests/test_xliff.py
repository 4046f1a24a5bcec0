"""XLIFF: the targets that are missing are filled, and inline codes are kept."""

import re

import pytest

from dragoman.documents import xliff
from dragoman.documents.document import MARK
from dragoman.documents.file import Reading
from dragoman.system.errors import DragomanError

READING = Reading("a.xlf", "en", "de")
FIRST = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2"><file source-language="en-US" original="a"><body>
  <trans-unit id="a">
    <source>Open <g id="1">the file</g><x id="2"/>.</source>
    <note>For translators</note>
  </trans-unit>
  <trans-unit id="b"><source>A <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept> word</source>
    <target state="new"/></trans-unit>
  <trans-unit id="c" translate="no"><source>Kept</source></trans-unit>
  <group translate="no"><trans-unit id="d"><source>Kept</source></trans-unit></group>
  <trans-unit id="e"><source>Done</source><target>Fertig</target></trans-unit>
  <trans-unit id="f"><source>One. Two.</source>
    <seg-source><mrk mtype="seg" mid="1">One.</mrk> <mrk mtype="seg" mid="2">Two.</mrk></seg-source>
    <alt-trans><target>Alt</target></alt-trans></trans-unit>
  <trans-unit id="g"><source><![CDATA[a & <b>b</b>]]></source></trans-unit>
  <trans-unit id="h"><source>{n, plural, =1 {one} other {many}}</source></trans-unit>
</body></file></xliff>
"""
SECOND = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en">
<file id="f"><unit id="1"><originalData><data id="d1">x</data></originalData>
<segment id="s1" state="initial">
<source>A <pc id="1">bold</pc> <sc id="2"/>word<ec startRef="2"/>.</source></segment>
<ignorable><source> </source></ignorable>
<segment><source>Two<ph id="3"/> words.</source><target></target></segment>
<segment state="final"><source>Done.</source><target>Fertig.</target></segment></unit>
<unit id="2" translate="no"><segment><source>Kept</source></segment></unit></file></xliff>
"""


def upper(sentence):
    return "".join(
        part if MARK.fullmatch(part) else part.upper() for part in re.split(f"({MARK.pattern})", sentence)
    )


def translate(text, reading=READING):
    file = xliff.read(text.encode(), reading)
    assert file.write([segment.sentence for segment in file.segments]) == text.encode()
    return file.write([upper(segment.sentence) for segment in file.segments]).decode()


def test_a_file_of_version_1_2():
    written = translate(FIRST)
    assert '<file source-language="en-US" original="a" target-language="de">' in written
    assert (
        '<source>Open <g id="1">the file</g><x id="2"/>.</source>\n'
        '    <target state="translated">OPEN <g id="1">THE FILE</g><x id="2"/>.</target>\n    <note>'
    ) in written
    assert (
        '<target state="translated">A <bpt id="1">&lt;b></bpt>BOLD<ept id="1">&lt;/b></ept> WORD</target>'
        in written
    )
    assert written.count("<target>Fertig</target>") == written.count("<target>Alt</target>") == 1
    assert (
        '</seg-source>\n    <target state="translated"><mrk mtype="seg" mid="1">ONE.</mrk> '
        '<mrk mtype="seg" mid="2">TWO.</mrk></target>\n    <alt-trans>'
    ) in written
    assert '<target state="translated">A &amp; &lt;b&gt;B&lt;/b&gt;</target>' in written
    assert written.count("Kept") == 2
    assert written.count("<target") == 6
    assert xliff.read(FIRST.encode(), READING).language == "en-US"
    assert ">FERTIG<" not in written
    assert ">DONE<" in translate(FIRST, Reading("a", "en", "de", everything=True))


def test_a_file_of_version_2():
    written = translate(SECOND)
    assert 'srcLang="en" trgLang="de">' in written
    assert (
        '<segment id="s1" state="translated">\n'
        '<source>A <pc id="1">bold</pc> <sc id="2"/>word<ec startRef="2"/>.</source>\n'
        '<target>A <pc id="1">BOLD</pc> <sc id="2"/>WORD<ec startRef="2"/>.</target></segment>'
    ) in written
    assert '<segment state="translated"><source>Two<ph id="3"/>' in written
    assert '<target>TWO<ph id="3"/> WORDS.</target>' in written
    assert written.count("Kept") == written.count("Fertig.") == 1
    assert '<segment state="final">' in written


@pytest.mark.parametrize(
    "text", ["", "<html></html>", "<xliff>", "<xliff></file>", "<xliff><file></xliff></file>"]
)
def test_what_is_no_xliff_is_refused(text):
    with pytest.raises(DragomanError, match=r"a\.xlf"):
        xliff.read(text.encode(), READING)


def test_a_file_says_what_language_its_translations_are_in():
    text = '<xliff version="2.0" srcLang="en" trgLang="it-IT"><file/></xliff>'
    assert xliff.read(text.encode(), READING).translated_into == "it-IT"
    assert not xliff.read(text.replace(' trgLang="it-IT"', "").encode(), READING).translated_into
