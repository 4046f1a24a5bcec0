"""Sentence boundaries for MiniSBD, the segmenter of Argos Translate: rules as weights of a small network.

Argos Translate splits a paragraph into sentences before it translates. A package that has its own MiniSBD
model needs no network for that.

A rule gives the classes that the characters around a place may have. The first convolution has one filter a
rule, whose sum reaches the rule's length where all characters fit. The second one adds up: a sentence ends at
a place that fits a rule of `ENDS` and no rule of `ABBREVIATIONS`.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CLASSES = "_?au0.!。)“ "
"""The classes by their id: padding, other characters, lower-case letters, upper-case letters, digits, full
stops, other terminators, terminators that no space follows, closing quotes and brackets, the quote that
closes in German and opens in English and Chinese, spaces."""
MEMBERS = {".": ".", "!": "!?…؟।", "。": "。！？", ")": ")]}\"'”’»›」』）", "“": "“", " ": " "}
NOT_LETTER = "_?0.!。)“ "
NOT_LOWER = "?u0.!。)“ "
Rule = dict[int, str]
"""For each place, counted from the last character of a sentence, the classes that fit."""
ENDS: list[Rule] = [
    {0: ".!", 1: " ", 2: NOT_LOWER},
    {-1: ".!", 0: ")“", 1: " ", 2: NOT_LOWER},
    {0: "。", 1: "_?au0.!“ "},
    {-1: "。", 0: ")"},
]
ABBREVIATIONS: list[Rule] = [
    {-1: "0", 0: "."},  # am 3. Oktober
    {-2: NOT_LETTER, -1: "au", 0: "."},  # J. Smith, U.S., z. B.
    {-3: NOT_LETTER, -2: "u", -1: "a", 0: "."},  # Dr.
    {-4: NOT_LETTER, -3: "u", -2: "a", -1: "a", 0: "."},  # Mrs.
]
BEFORE, AFTER = 4, 2  # the places of a rule
TAGS = 5  # that MiniSBD knows
INSIDE, SENTENCE_END = 0, 2
OPSET, IR_VERSION = 13, 8  # which onnxruntime 1.10 reads


def write(path: Path) -> None:
    """Write the model as MiniSBD reads it: units [B N], features [B N 0] → scores [B N tags]."""
    rules = ENDS + ABBREVIATIONS
    fits = np.zeros((len(rules), len(CLASSES), BEFORE + 1 + AFTER), np.float32)
    for number, rule in enumerate(rules):
        for place, classes in rule.items():
            fits[number, [CLASSES.index(class_name) for class_name in classes], BEFORE + place] = 1
    scores = np.zeros((TAGS, len(rules), 1), np.float32)
    scores[SENTENCE_END, : len(ENDS)], scores[SENTENCE_END, len(ENDS) :] = 2, -2 * len(ENDS)
    constants = {
        "margins": np.array([0, BEFORE, 0, AFTER]),
        "classes": np.array(len(CLASSES)),
        "off_on": np.array([0, 1], np.float32),
        "fits": fits,
        "one_less": np.array([1 - len(rule) for rule in rules], np.float32),
        "scores_of_rules": scores,
        "scores_without": np.eye(TAGS, dtype=np.float32)[INSIDE],
    }
    nodes = [
        helper.make_node("Pad", ["units", "margins"], ["padded"]),
        helper.make_node("OneHot", ["padded", "classes", "off_on"], ["one_hot"], axis=1),
        helper.make_node("Conv", ["one_hot", "fits", "one_less"], ["sums"]),
        helper.make_node("Relu", ["sums"], ["matches"]),
        helper.make_node("Conv", ["matches", "scores_of_rules", "scores_without"], ["by_tag"]),
        helper.make_node("Transpose", ["by_tag"], ["scores"], perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "sentence-boundaries",
        [
            helper.make_tensor_value_info("units", TensorProto.INT64, ["B", "N"]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["B", "N", "F"]),
        ],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["B", "N", TAGS])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="dragoman"
    )
    config = {"batch_size": 32, "max_seqlen": 1000, "feat_funcs": []}
    properties = {"lang_code": "", "config": config, "vocab": vocabulary(), "lexicon": None}
    helper.set_model_props(
        model,
        {name: value if isinstance(value, str) else json.dumps(value) for name, value in properties.items()},
    )
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def vocabulary() -> dict[str, object]:
    """MiniSBD's table of units, where the id of a character is that of its class."""
    ids = {"<PAD>": CLASSES.index("_"), "<UNK>": CLASSES.index("?")}
    for character in map(chr, range(sys.maxunicode + 1)):
        if character.islower():
            ids[character] = CLASSES.index("a")
        elif character.isupper():
            ids[character] = CLASSES.index("u")
        elif character.isdecimal():
            ids[character] = CLASSES.index("0")
    ids |= {
        character: CLASSES.index(class_name)
        for class_name, members in MEMBERS.items()
        for character in members
    }
    return {"lang": "", "lower": False, "_unit2id": ids, "_id2unit": ["<PAD>", "<UNK>"]}
