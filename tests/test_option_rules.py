"""Rules beside the fields of settings: what breaks one is refused by the field's name, and no more is."""

import ast
import math
import re
import types
import typing
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.cli.verbs import commands
from dragoman.model.settings import ModelSettings
from dragoman.pipeline.settings import AdaptationSettings
from dragoman.search.settings import SearchSettings
from dragoman.system.errors import OptionError, OptionMessage
from dragoman.system.options import (
    BOUNDS,
    Excludes,
    Needs,
    OnlyWith,
    check_rules,
    check_values,
    is_in_use,
    stated,
)
from dragoman.system.toml import MAX_NUMBER

VALUES: dict[Any, list[Any]] = {bool: [True, False], str: ["a"], Path: [Path("a")]}
VALUES |= {tuple[int, ...]: [(1, 2)], tuple[str, ...]: [("a",)], tuple[Path, ...]: [(Path("a"),)]}
FEW = settings(max_examples=4)


def classes_of(kind: type) -> Iterator[type]:
    """A class of settings, and those of the settings within."""
    yield kind
    for hint in typing.get_type_hints(kind).values():
        if is_dataclass(hint):
            yield from classes_of(typing.cast(type, hint))


CLASSES = list(dict.fromkeys(kind for verb in commands().values() for kind in classes_of(verb.settings)))
LIMITS = [(kind, limit, name) for kind in CLASSES for limit in BOUNDS for name in stated(kind, limit)]
RULES = [
    (kind, name, rule) for kind in CLASSES for name, rules in stated(kind, "rules").items() for rule in rules
]
LAW = {"ids": lambda value: getattr(value, "__name__", None) or str(value)}


def unchecked(kind: type, values: dict[str, Any]) -> Any:
    """Settings of a class as they are before they check themselves."""
    made, given_values = object.__new__(kind), required(kind) | values
    for each in fields(kind):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        object.__setattr__(made, each.name, given_values.get(each.name, default))
    return made


def required(kind: type) -> dict[str, Any]:
    """Values of the fields that have no default."""
    names = [each.name for each in fields(kind) if each.default is each.default_factory is MISSING]
    return {name: some_values(type_of(kind, name))[0] for name in names}


def some_values(hint: Any) -> list[Any]:
    """Values of a type that is no number."""
    is_choice = typing.get_origin(hint) is typing.Literal
    return [*typing.get_args(hint)] if is_choice else VALUES[hint]


def type_of(kind: type, name: str) -> Any:
    """The type of a field, without None and without a second one."""
    hint = typing.get_type_hints(kind)[name]
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint)[0] if is_union else hint


def values_in_use(kind: type, name: str) -> st.SearchStrategy[Any]:
    """Values within bounds with which the option is in use."""
    hint = type_of(kind, name)
    if hint in (int, float):
        least = max(stated(kind, limit).get(name, 0) for limit in ("at_least", "above"))
        most = min(stated(kind, limit).get(name, MAX_NUMBER) for limit in ("at_most", "below"))
        numbers = st.integers(math.ceil(least), math.floor(most)) if hint is int else st.floats(least, most)
        values = numbers.filter(lambda value: is_within(kind, name, value))
    else:
        values = st.sampled_from(some_values(hint))
    return values.filter(lambda value: is_in_use(unchecked(kind, {name: value}), name, ()))


def is_within(kind: type, name: str, value: float) -> bool:
    """Whether a number is within the bounds that exclude themselves."""
    above, below = (stated(kind, limit).get(name) for limit in ("above", "below"))
    return (above is None or value > above) and (below is None or value < below)


def draw_valid(data: st.DataObject, kind: type, name: str) -> dict[str, Any]:
    """A value of an option with which it is in use, and values of the others that its rules ask for."""
    values = {name: data.draw(values_in_use(kind, name), name)}
    for rule in stated(kind, "rules").get(name, ()):
        if isinstance(rule, OnlyWith):
            values[rule.other] = data.draw(st.sampled_from(rule.values), rule.other)
        elif isinstance(rule, Needs):
            values |= draw_valid(data, kind, rule.other)
    return values


@pytest.mark.short_form(28)
@pytest.mark.parametrize(("kind", "limit", "name"), LIMITS, **LAW)
@FEW
@given(data=st.data())
def test_a_number_beyond_its_bound_is_refused_by_its_name_and_the_bound_is_not(kind, limit, name, data):
    bound, is_whole = stated(kind, limit)[name], type_of(kind, name) is int
    distance = data.draw(st.integers(1, 9)) if is_whole else bound * data.draw(st.floats(1e-9, 1)) or 1
    beyond = bound - distance if limit in ("at_least", "above") else bound + distance
    for wrong in [beyond, *([bound] if limit in ("above", "below") else [])]:
        with pytest.raises(
            OptionError, match=f"{name} is .*; it must be {limit.replace('_', ' ')}"
        ) as raised:
            kind(**required(kind) | {name: (int if is_whole else float)(wrong)})
        assert raised.value.fields == (name,)
    check_values(unchecked(kind, {name: data.draw(values_in_use(kind, name))}))


@pytest.mark.short_form(15)
@pytest.mark.parametrize(("kind", "name", "rule"), RULES, **LAW)
@FEW
@given(data=st.data())
def test_what_breaks_a_rule_is_refused_by_its_name_and_what_keeps_it_is_not(kind, name, rule, data):
    valid = draw_valid(data, kind, name)
    check_rules(unchecked(kind, valid))
    others = rule.others if isinstance(rule, Excludes) else (rule.other,)
    for other in others:
        if isinstance(rule, Needs):
            wrong = {each: value for each, value in valid.items() if each != other}
        elif isinstance(rule, Excludes):
            wrong = {name: valid[name], other: data.draw(values_in_use(kind, other), other)}
        else:
            known = typing.get_args(type_of(kind, other))
            wrong = valid | {other: data.draw(st.sampled_from(sorted({*known} - {*rule.values})), other)}
        with pytest.raises(OptionError) as raised:
            rule.check(unchecked(kind, wrong), name, ())
        assert raised.value.fields[:2] == (name, other)
        with pytest.raises(OptionError) as raised:
            check_rules(unchecked(kind, wrong))
        assert raised.value.fields[0] in wrong
        if kind not in (AdaptationSettings, ModelSettings):  # a recipe may have a part of these
            with pytest.raises(OptionError):
                kind(**required(kind) | wrong)


@pytest.mark.parametrize("kind", CLASSES, **LAW)
def test_the_names_of_rules_are_fields(kind):
    names = {each.name for each in fields(kind)}
    for rules in stated(kind, "rules").values():
        for rule in rules:
            others = rule.others if isinstance(rule, Excludes) else (rule.other,)
            assert names.issuperset([*others, *OptionError(getattr(rule, "because", "")).fields])


@pytest.mark.parametrize(
    ("values", "name", "other"),
    [
        ({"temperature": 1.0}, "beam_size", "temperature"),
        ({"temperature": 1.0}, "diversity", "temperature"),
        ({"length_power": 1.0}, "length_penalty", "length_power"),
        ({}, "sampling_seed", "temperature"),
        ({}, "diversity", "groups"),
    ],
)
def test_a_default_that_is_given_counts_if_it_is_not_off(values, name, other):
    search = SearchSettings(**values)
    check_rules(search, {"top_k", "top_p", "groups", "n_best", "split", "min_length"})
    with pytest.raises(OptionError) as raised:
        check_rules(search, {name})
    assert set(raised.value.fields) == {name, other}


ALWAYS_IN_EFFECT = {"beam_size", "length_penalty", "diversity", "sampling_seed", "batch_tokens"}
"""Options of a search whose defaults are not off."""


@pytest.mark.parametrize("name", stated(SearchSettings, "rules"))
@FEW
@given(data=st.data())
def test_a_default_that_is_off_counts_as_left_out_when_it_is_given(name, data):
    valid = draw_valid(data, SearchSettings, name)
    check_rules(
        unchecked(SearchSettings, valid),
        {each.name for each in fields(SearchSettings)} - ALWAYS_IN_EFFECT - {*valid},
    )


# ---- the names of options in sentences

FLOORS = ("system", "model", "text", "search", "native", "translation", "training", "evaluation", "interop")
SOURCES = [
    path
    for floor in (*FLOORS, "pipeline")
    for path in sorted((Path(dragoman.__file__).parent / floor).rglob("*.py"))
    if "quality" not in path.parts  # what two verbs print
]
COMMAND = re.compile(r"dragoman [a-z]+ .*?(?=[.;](\s|$)|$)", re.MULTILINE)
"""A command for a shell, in a sentence."""


def sentences_of(node: ast.AST) -> Iterator[str]:
    """The strings of a program without docstrings, with something in the place of a value."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "\0" for part in child.values)
            yield "".join(map(str, parts))
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif not isinstance(child, ast.Expr) or not isinstance(child.value, ast.Constant):
            yield from sentences_of(child)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_sentence_for_python_too_names_no_flag(path):
    """`OptionMessage` names a setting, and the command line writes its flag."""
    for sentence in sentences_of(ast.parse(path.read_text())):
        if " " in sentence:
            assert not re.search(r"(?<![\w-])--[a-z]", COMMAND.sub("", sentence)), sentence


def test_a_message_names_settings_that_are_options():
    known = {name for verb in commands().values() for name in verb.options}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
                "OptionError",
                "OptionMessage",
            }:
                (sentence,) = [*sentences_of(ast.Tuple(node.args[:1]))] or [""]
                values = dict.fromkeys(str(keyword.arg) for keyword in node.keywords)
                fields_named = {*OptionMessage(sentence, **values).fields}
                assert fields_named <= known, (path, fields_named - known)
