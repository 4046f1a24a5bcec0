"""The deliberate bugs of tools/mutants.toml can be tried: `python tools/mutants.py` tries them."""

from tools.mutants import ROOT, read_mutants


def test_each_mutant_changes_a_text_that_occurs_once():
    mutants = read_mutants()
    for mutant in mutants:
        text = (ROOT / "src" / mutant.file).read_text("utf-8")
        assert text.count(mutant.text) == 1, mutant
        assert mutant.replacement != mutant.text, mutant
        assert all((ROOT / file).exists() for file in mutant.test_files), mutant
    assert len({mutant.bug for mutant in mutants}) == len(mutants)
