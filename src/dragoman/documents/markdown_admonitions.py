"""Blocks of Python-Markdown whose content is indented by four columns: admonitions, and tabs of MkDocs."""

import re

from markdown_it.rules_block import StateBlock

HEAD = re.compile(r'(?:!!!|\?\?\?\+?|===[!+]?(?=[^\n]*"))[ \t]+[\w -]*(?:"([^\n]*)")?[ \t]*')
"""The line that begins one, and its title."""
INDENTATION = 4


def admonition(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """The rule of markdown-it-py for such a block: a token for its head, and then the blocks in it."""
    first = state.bMarks[start_line] + state.tShift[start_line]
    if state.is_code_block(start_line) or not HEAD.fullmatch(state.src, first, state.eMarks[start_line]):
        return False
    if silent:
        return True
    next_line = last = start_line + 1
    while next_line < end_line:
        if not state.isEmpty(next_line):
            if state.sCount[next_line] - state.blkIndent < INDENTATION:
                break
            last = next_line + 1
        next_line += 1
    state.push("admonition", "", 0).map = [start_line, last]
    former = state.parentType, state.lineMax
    state.parentType, state.lineMax = "admonition", last
    state.blkIndent += INDENTATION
    state.md.block.tokenize(state, start_line + 1, last)
    state.blkIndent -= INDENTATION
    state.parentType, state.lineMax = former
    state.line = last
    return True
