"""Blocks of extensions of Markdown: what Python-Markdown indents by four columns, and the code of templates.

The first are admonitions and the tabs of MkDocs, the second are Jekyll's and Hugo's `highlight`.
"""

import re

from markdown_it.rules_block import StateBlock

HEAD = re.compile(r'(?:!!!|\?\?\?\+?|===[!+]?(?=[^\n]*"))[ \t]+[\w -]*(?:"([^\n]*)")?[ \t]*')
"""The line that begins one, and its title."""
INDENTATION = 4
CODE = re.compile(r"\{%-?[ \t]*(highlight|codeblock|comment)\b|\{\{[<%][ \t]*(highlight)\b")
"""What begins the code of a template, at the start of a line."""


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


def template_code(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """The rule of markdown-it-py for the code of a template, up to the line that ends it: a token."""
    first = state.bMarks[start_line] + state.tShift[start_line]
    start = CODE.match(state.src, first, state.eMarks[start_line])
    if start is None or state.is_code_block(start_line):
        return False
    name = start[1] or start[2]
    end = re.compile(rf"\{{%-?[ \t]*end{name}\b|\{{\{{[<%][ \t]*/{name}\b")
    for line in range(start_line, end_line):
        if end.search(state.src, state.bMarks[line], state.eMarks[line]):
            if not silent:
                state.push("template_code", "", 0).map = [start_line, line + 1]
                state.line = line + 1
            return True
    return False
