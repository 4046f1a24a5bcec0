"""The tables of measurements in Markdown, from what their programs write as JSON.

The programs write them beside the JSON; `python -m tools.docs.readme_tables` writes them to README files and
pages of the documentation.
Each function takes the contents of one file of results, or of several whose rows stand in one table.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
NAMES = {
    "dragoman": "**Dragoman**",
    "ctranslate2": "CTranslate2",
    "marian": "Marian",
    "openvino": "OpenVINO",
    "transformers": "transformers",
    "plain": "plain FastAPI + CTranslate2",
    "libretranslate": "LibreTranslate, best settings",
    "libretranslate-default": "LibreTranslate, as it comes",
    "joeynmt": "JoeyNMT",
    "torch.nn.Transformer": "torch.nn.Transformer",
    "fairseq": "fairseq",
}
"""Of systems."""


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows]) + "\n"


def shown(value: float | None, digits: int = 0) -> str:
    """A number; nothing for one that was not measured."""
    return "" if value is None else f"{value:,.{digits}f}"


def mean_and_spread(values: Sequence[float], sign: str = "") -> str:
    """The mean, and the standard deviation of several; a value that does not vary, as it is."""
    mean = f"{statistics.mean(values):{sign}.2f}"
    return mean if len(set(values)) == 1 else f"{mean} ± {statistics.stdev(values):.2f}"


def distinct(rows: Iterable[Row], *names: str) -> list[tuple[Any, ...]]:
    """The different values of some columns, in the order of the rows."""
    return list(dict.fromkeys(tuple(row[name] for name in names) for row in rows))


def beam_name(beam: int) -> str:
    """`greedy`, or `beam 4`."""
    return "greedy" if beam == 1 else f"beam {beam}"


def option(found: Row, name: str) -> str | None:
    """What the command of a measurement gives an option; None if it does not name it."""
    words = found["command"].split()
    return words[words.index(name) + 1] if name in words else None


# ---- train.py and decode.py


def train(*results: Row) -> str:
    """A row for each preset, peer and setting of its allocator: target tokens per second, and their ratio."""
    heads = ["preset", "compared with", "allocator and oneDNN", "ours", "theirs", "times as fast"]
    heads += ["GiB, ours", "GiB, theirs"]
    rows = [
        (
            f"`{option(found, '--preset')}`",
            NAMES[row["peer"]],
            "set as ours" if row["allocator_settings"] else "as it comes",
            *(shown(speed(row[whose])) for whose in ("ours", "theirs")),
            f"**{row.get('median_ratio', row['ratio']):.2f}**",
            *(shown(row[whose]["peak_gib"], 1) for whose in ("ours", "theirs")),
        )
        for found in results
        for row in found["rows"]
    ]
    return table(heads, rows)


def speed(measured: Row) -> float:
    """Target tokens per second: the median of the updates, or all of them where a file has no median."""
    return measured.get("median_tokens_per_second", measured["tokens_per_second"])


def train_starts(*results: Row) -> str:
    """A row for each preset, peer and setting of its allocator: seconds until 100 updates are done."""
    rows = [
        (
            f"`{option(found, '--preset')}`",
            NAMES[row["peer"]],
            "set as ours" if row["allocator_settings"] else "as it comes",
            *(shown(row[whose]["seconds_to_100_updates"]) for whose in ("ours", "theirs")),
        )
        for found in results
        for row in found["rows"]
    ]
    return table(["preset", "compared with", "allocator and oneDNN", "ours, s", "theirs, s"], rows)


WAYS = {
    "pytorch": "PyTorch's",
    "compile": "torch.compile",
    "native": "Triton",
    "graphs": "Triton, in CUDA graphs",
}
"""Of gpu_train.py: what computes the steps between matrix products."""


def gpu_train(*results: Row) -> str:
    """A row for each preset and way of training on a GPU; the share is of the peak in bfloat16."""
    heads = ["preset", "text", "kernels", "target tokens/s", "ms an update", "ms of the host"]
    heads += ["share of the peak", "GiB"]
    rows = [
        (
            f"`{found['preset']}`",
            found["text"],
            WAYS[found["way"]],
            shown(found["target_tokens_per_second"]),
            shown(found["milliseconds_per_update"], 1),
            shown(found["host_milliseconds_per_update"], 1),
            f"{found['share_of_peak']:.1%}",
            shown(found["used_gib"], 1),
        )
        for found in results
    ]
    return table(heads, rows)


def products(*results: Row) -> str:
    """A row for each preset and machine: the speed of matrix products alone, and training's share of it."""
    rows = [
        (
            f"`{option(found, '--preset')}`",
            found["machine"],
            found["commit"],
            precision,
            shown(statistics.median(floor["gflops"])),
            f"{floor['share']:.0%}",
        )
        for found in results
        for precision, floor in found["floors"].items()
    ]
    return table(["preset", "machine", "commit", "precision", "products, GFLOP/s", "share"], rows)


def prepare(found: Row) -> str:
    """A row for each size of corpus: time and memory of its preparation."""
    rows = [
        (
            shown(row["pairs"]),
            shown(row["seconds"]),
            shown(row["pairs"] / row["seconds"]),
            shown(row["gib"], 1),
        )
        for row in found["rows"]
    ]
    return table(["pairs", "seconds", "pairs per second", "GiB"], rows)


def decode(found: Row) -> str:
    """A row for each system and precision: sentences per second in batches, and milliseconds one by one."""
    columns = distinct(found["rows"], "beam", "one_by_one")
    cells = {
        (row["system"], row["precision"], row["beam"], row["one_by_one"]): shown(row["milliseconds"], 1)
        if row["one_by_one"]
        else shown(row["sentences_per_second"])
        for row in found["rows"]
    }
    heads = ["system", "precision"]
    heads += [f"{beam_name(beam)}, ms" if alone else beam_name(beam) for beam, alone in columns]
    rows = [
        (NAMES[system], precision, *(cells[system, precision, *column] for column in columns))
        for system, precision in distinct(found["rows"], "system", "precision")
    ]
    return table(heads, rows)


def decode_ratios(*results: Row) -> str:
    """A row for each machine and model: how many times as fast as a peer in the same precision.

    The ranges are those of the numbers of `decode`, over both beams and all precisions.
    """
    peers = ("ctranslate2", "transformers")
    heads = ["machine", "commit", "date", "model"]
    heads += [f"{NAMES[peer]}, {how}" for peer in peers for how in ("in batches", "one by one")]
    rows = []
    for found in results:
        preset = option(found, "--preset")
        model = f"`{preset}`, random weights" if preset else "`small`"
        ratios = [
            times_peer(found["rows"], peer, one_by_one) for peer in peers for one_by_one in (False, True)
        ]
        rows.append((found["machine"], found["commit"], found["date"], model, *map(extent, ratios)))
    return table(heads, rows)


def extent(values: Sequence[float], digits: int = 2) -> str:
    """From the least to the greatest value; nothing if there are none."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}" if values else ""


def times_peer(rows: Sequence[Row], peer: str, one_by_one: bool) -> list[float]:
    """How many times as fast ours is, in each precision and with each beam that both have."""
    chosen = [row for row in rows if row["one_by_one"] == one_by_one]
    found = {(row["system"], row["precision"], row["beam"]): row for row in chosen}
    pairs = [
        (row, found[peer, precision, beam])
        for (system, precision, beam), row in found.items()
        if system == "dragoman" and (peer, precision, beam) in found
    ]
    if one_by_one:
        return [theirs["milliseconds"] / ours["milliseconds"] for ours, theirs in pairs]
    return [ours["sentences_per_second"] / theirs["sentences_per_second"] for ours, theirs in pairs]


def same_translations(found: Row) -> str:
    """A row for each system and precision: the share of translations that are ours in float32."""
    rows = [row for row in found["rows"] if not row["one_by_one"]]
    cells = {(row["system"], row["precision"], row["beam"]): row["same_as_ours_in_float32"] for row in rows}
    beams = [beam for (beam,) in distinct(rows, "beam")]
    lines = [
        (NAMES[system], precision, *(f"{cells[system, precision, beam]:.1%}" for beam in beams))
        for system, precision in distinct(rows, "system", "precision")
    ]
    return table(["system", "precision", *map(beam_name, beams)], lines)


def onnx_search(found: Row) -> str:
    """A row for each program: processor time of a sentence, and how many translations are those of C++."""
    names = {
        "onnxruntime": "onnxruntime, exported graphs",
        "PyTorch": "Dragoman, PyTorch",
        "C++": "Dragoman, C++",
    }
    rows = [
        (title, shown(found[name]["ms_a_sentence"], 1), str(found[name]["same_as_cpp"]))
        for name, title in names.items()
    ]
    return table(["program", "ms per sentence", "translations as by C++"], rows)


# ---- sizes.py


def sizes(found: Row) -> str:
    """A line for each model, system and precision."""
    columns = [("bleu", "BLEU", 2), ("sentences_per_second", "sentences/s", 0), ("milliseconds", "ms", 1)]
    kind = ("model", "system", "precision")
    beams = [beam for (beam,) in distinct(found["rows"], "beam")]
    heads = ["model", "parameters, millions", "system", "precision", "MB"]
    heads += [f"{title}, beam {beam}" for _, title, _ in columns for beam in beams]
    by_beam = {(*(row[name] for name in kind), row["beam"]): row for row in found["rows"]}
    lines = []
    for own in distinct(found["rows"], *kind):
        same = [by_beam[*own, beam] for beam in beams]
        row = same[0]
        parameters, size = shown(row["parameters"] / 1e6, 2), shown(row["file_megabytes"], 1)
        if "packed_megabytes" in row:
            size += f" ({row['packed_megabytes']:.1f})"
        start = [row["model"], parameters, NAMES[row["system"]], row["precision"], size]
        cells = [shown(one.get(name), digits) for name, _, digits in columns for one in same]
        lines.append([*start, *cells, "" if row["alike"] is None else f"{row['alike']:.1%}"])
    return table([*heads, "as ours in float32"], lines)


def sizes_ratios(found: Row) -> str:
    """A row for each other system: how many times as fast ours is, over all models, precisions and beams."""
    kind = ("model", "precision", "beam")
    ours = {tuple(row[name] for name in kind): row for row in found["rows"] if row["system"] == "dragoman"}
    rows = []
    for (system,) in distinct(found["rows"], "system"):
        if system != "dragoman":
            pairs = [
                (ours[tuple(row[name] for name in kind)], row)
                for row in found["rows"]
                if row["system"] == system
            ]
            batches = [own["sentences_per_second"] / row["sentences_per_second"] for own, row in pairs]
            alone = [row["milliseconds"] / own["milliseconds"] for own, row in pairs]
            rows.append((NAMES[system], extent(batches, 1), extent(alone, 1)))
    return table(["compared with", "in batches", "one by one"], rows)


# ---- students.py

TEACHER = "teacher"


def students(found: Row) -> str:
    """A line for each model and beam, with BLEU and speed in each precision; BLEU is the mean over seeds.

    How many times as fast as the teacher a student is stands in parentheses.
    """
    columns = [("sentences_per_second", "sentences/s", 0), ("milliseconds", "ms", 2)]
    precisions = [precision for (precision,) in distinct(found["rows"], "precision")]
    heads = ["model", "parameters, millions", "beam"]
    heads += [f"{name}, {each}" for name in ("BLEU", "sentences/s", "ms") for each in precisions]
    by_kind = {(row["model"], row["beam"], row["precision"]): row for row in found["rows"]}
    lines = []
    for model, beam in distinct(found["rows"], "model", "beam"):
        own = [by_kind[model, beam, precision] for precision in precisions]
        cells = [mean_and_spread(row["bleu"]) for row in own]
        for name, _, digits in columns:
            for row in own:
                teacher = by_kind[TEACHER, beam, row["precision"]][name]
                cells.append(shown(row.get(name), digits) + times_teacher(row.get(name), teacher))
        lines.append([model, shown(own[0]["parameters"] / 1e6, 2), str(beam), *cells])
    return table(heads, lines)


def times_teacher(value: float | None, teacher: float) -> str:
    """How many times as fast or as short a student is; nothing for the teacher itself."""
    if value is None or value == teacher:
        return ""
    return f" ({max(value / teacher, teacher / value):.2f} ×)"


def student_differences(found: Row) -> str:
    """A line for each student and what it is compared with: the difference of BLEU, and p of each seed."""
    kind = ("model", "precision", "beam", "beside")
    lines = []
    for own in distinct(found["comparisons"], *kind):
        same = [row for row in found["comparisons"] if tuple(row[name] for name in kind) == own]
        difference = mean_and_spread([row["difference"] for row in same], sign="+")
        lines.append([*map(str, own), difference, ", ".join(f"{row['p']:.3f}" for row in same)])
    return table(["student", "precision", "beam", "compared with", "BLEU, difference", "p"], lines)


# ---- adaptation.py


def student_validation(found: Row) -> str:
    """A line for each kind of model: the BLEU of greedy translations of the validation text."""
    teacher = found["rows"][0]["validation"][0]
    lines = []
    for row in found["rows"]:
        differences = [value - teacher for value in row["validation"]]
        beside = mean_and_spread(differences, "+") if any(differences) else ""
        lines.append([row["model"], mean_and_spread(row["validation"]), beside])
    return table(["model", "BLEU, validation, greedy", "compared with the teacher"], lines)


def adaptation(found: Row) -> str:
    """A row a model: BLEU of each seed, the mean, and the mean change from the initial model."""
    seeds = list(found["bleu"].values())
    initial, *_ = seeds[0]
    old, new = seeds[0][initial]
    lines = []
    for model in seeds[0]:
        cells = [model]
        for test in (old, new):
            values, before = ([each[name][test] for each in seeds] for name in (model, initial))
            mean = statistics.mean(values)
            each_seed = values if len(set(values)) > 1 else values[:1]
            cells += [", ".join(shown(value, 2) for value in each_seed), shown(mean, 2)]
            cells.append("" if model == initial else f"{mean - statistics.mean(before):+.2f}")
        lines.append(cells)
    return table(["model", f"{old} (old)", "mean", "change", f"{new} (new)", "mean", "change"], lines)


# ---- minutes.py


def minutes(*results: Row) -> str:
    """A row for each run: the minutes that were asked for, those that it took, and what it learned."""
    heads = ["asked", "condition", "took", "error", "updates", "BLEU, validation, greedy", "BLEU, test"]
    heads.append("commit, date and machine")
    lines = []
    for found in results:
        for number, run in enumerate(found["runs"]):
            error = run["seconds"] / (60 * run["minutes"]) - 1
            cells = [f"{run['minutes']:g} min", run["condition"], f"{run['seconds']:.0f} s", f"{error:+.1%}"]
            cells += [
                f"{run['updates']:,}",
                shown(run["validation"]["bleu"], 2),
                shown(run["test"]["BLEU"], 2),
            ]
            where = f"{found['commit']}, {found['date']}, {found['machine']}"
            lines.append([*cells, "" if number else where])
    return table(heads, lines)


# ---- restricted_attention.py


def augmented_text(found: Row) -> str:
    """A row for each kind of training text and dropout: scores of the seeds, and of the first row's."""
    heads = ["training text", "dropout", "BLEU, validation, greedy", "BLEU, test", "chrF2, test"]
    heads += ["BLEU compared with the first row", "p"]
    first, *_ = found["rows"]
    lines = []
    for row in found["rows"]:
        pairs = zip(row["bleu"], first["bleu"], strict=True)
        differences = [] if row is first else [one - other for one, other in pairs]
        lines.append(
            [
                row["text"],
                str(row["dropout"]),
                *(mean_and_spread(row[score]) for score in ("validation", "bleu", "chrf2")),
                mean_and_spread(differences, "+") if differences else "",
                ", ".join(f"{p:.3f}" for p in row.get("p", [])),
            ]
        )
    return table(heads, lines)


def restricted_attention(*results: Row) -> str:
    """A row for each measurement: milliseconds of full and of restricted attention."""
    heads = ["machine, date", "mask", "n", "r", "full, ms", "restricted, ms", "times as fast"]
    lines = [
        (
            f"{found['machine']}, {found['date']}",
            "causal" if row["causal"] else "none",
            shown(row["positions"]),
            shown(row["neighbourhood"]),
            *(shown(row[name], 1) for name in ("full_ms", "restricted_ms", "ratio")),
        )
        for found in results
        for row in found["rows"]
    ]
    return table(heads, lines)


# ---- guided_alignment.py

MEASURES = {
    "tags": "tags right",
    "tags_around_phrases": "tags right, two words",
    "alignment_error_rate": "alignment error rate",
}
"""In percent."""


def guided_alignment(*results: Row) -> str:
    """A row for each loss and text: means over seeds, with the links that tags use."""
    rows = [row for found in results for row in found["rows"]]
    lines = []
    for text in ("valid", "test2016"):
        for (guide,) in distinct(rows, "guide"):
            same = [row[text] for row in rows if row["guide"] == guide]
            used = [each["product_mutual"] for each in same]
            cells = [mean_and_spread([each[name] for each in used]) for name in MEASURES]
            ahead = "" if guide == "ordinary" else ", ".join(map(points_ahead, used))
            loss = "ordinary" if guide == "ordinary" else "guided"
            lines.append([text, loss, *cells, mean_and_spread([each["bleu"] for each in same]), ahead])
    return table(["text", "loss", *MEASURES.values(), "BLEU", "tags ahead, each seed"], lines)


def points_ahead(measured: Row) -> str:
    """By how many points more tags are right than with the ordinary loss, with a 95 % interval."""
    low, high = measured["tags_ahead"]["interval"]
    return f"{measured['tags_ahead']['points']:+.1f} ({low:.1f} to {high:.1f})"


# ---- stop_rules.py

BASELINE = "W have finished"
PROGRAMS = {
    BASELINE: "fairseq, CTranslate2",
    "2 W have finished": "CTranslate2 with patience 2",
    "none can become the best, of 2 W candidates": "Tensor2Tensor",
    "W have finished, none is better now than the W-th": "Hugging Face",
    "W have finished, none is better now than the best": "**Dragoman**",
    "the likeliest ends": "OpenNMT-py",
    "W have finished, the beam shrinks": "Marian",
}
"""Programs with a rule as their default, or with the option that is named."""


def stop_rules(found: Row, beam: int = 4, penalty: str = "α = 0.6") -> str:
    """BLEU by the first rule, and differences from it by the others; runs of one name stand in one column.

    An asterisk is p < 0.05. Steps and changed translations are means of the models.
    """
    rows = [row for row in found["rows"] if (row["beam"], row["penalty"]) == (beam, penalty)]
    by_rule = defaultdict(dict)
    for row in rows:
        by_rule[row["rule"]][row["model"]] = row
    first = by_rule[BASELINE]
    columns = defaultdict(list)
    for model in first:
        columns[model.rpartition("/")[2]].append(model)
    lines = []
    for rule, own in by_rule.items():
        cells = [
            ", ".join(gained(own[model], first[model]) for model in models) for models in columns.values()
        ]
        steps = statistics.mean(own[model]["steps"] / first[model]["steps"] for model in first)
        changed = statistics.mean(row["changed"] for row in own.values())
        lines.append([rule, PROGRAMS.get(rule, ""), *cells, f"{steps:.3f}", f"{changed:.1%}"])
    return table(["a search ends when", "programs", *columns, "steps", "changed"], lines)


def gained(row: Row, first: Row) -> str:
    """The BLEU of the first rule, or the difference from it."""
    if row["rule"] == BASELINE:
        return shown(row["BLEU"], 2)
    return f"{row['BLEU'] - first['BLEU']:+.2f}{'*' * (row['p'] < 0.05)}"


def stop_rule_gains(*results: Row) -> str:
    """What Dragoman's rule gains over the first one: a row for each beam size and length penalty.

    An asterisk is p < 0.05.
    """
    ours = next(rule for rule, program in PROGRAMS.items() if program == NAMES["dragoman"])
    rows = [row for found in results for row in found["rows"]]
    by_kind = {(row["beam"], row["penalty"], row["rule"], row["model"]): row for row in rows}
    columns = defaultdict(list)
    for (model,) in distinct(rows, "model"):
        columns[model.rpartition("/")[2]].append(model)
    lines = []
    for beam, penalty in distinct(rows, "beam", "penalty"):
        gains = {
            model: gained(row, by_kind[beam, penalty, BASELINE, model])
            for (*setting, rule, model), row in by_kind.items()
            if (*setting, rule) == (beam, penalty, ours)
        }
        cells = [", ".join(gains[each] for each in models if each in gains) for models in columns.values()]
        lines.append([str(beam), penalty.replace("power 1", "length"), *cells])
    return table(["beam", "length penalty", *columns], lines)


# ---- inspection_costs.py and inspection_peers.py


def inspections(found: Row) -> str:
    """A row for each length of a sentence: times, memory and size of the HTML file."""
    heads = [
        "tokens",
        "translation by PyTorch",
        "inspection",
        "memory before inspection",
        "memory",
        "HTML file",
    ]
    rows = [
        (
            str(row["tokens"]),
            *(f"{shown(row[name], 2)} s" for name in ("translation_seconds", "inspection_seconds")),
            *(f"{shown(row[name])} MB" for name in ("memory_before_mb", "memory_mb")),
            f"{shown(row['html_mb'], 2)} MB",
        )
        for row in found["rows"]
    ]
    return table(heads, rows)


def attributions(found: Row) -> str:
    """A row for each length of a sentence: times of integrated gradients and of value zeroing."""
    heads = ["tokens", "integrated gradients", "with target tokens", "value zeroing"]
    names = ("source_seconds", "both_seconds", "value_zeroing_seconds")
    rows = [
        (str(row["tokens"]), *(f"{shown(row[name], 1)} s" for name in names)) for row in found["attributions"]
    ]
    return table(heads, rows)


def beside_inseq(found: Row) -> str:
    """A row for each length of a sentence: times, and how far apart the contributions are."""
    heads = ["tokens", "Dragoman", "inseq", "times as long", "largest difference", "largest contribution"]
    rows = [
        (
            str(row["tokens"]),
            *(f"{shown(row[name], 2)} s" for name in ("our_seconds", "their_seconds")),
            shown(row["ratio"], 2),
            *(f"{row[name]:.1g} nats" for name in ("difference", "largest")),
        )
        for row in found["rows"]
    ]
    return table(heads, rows)


def beside_circuitsvis(found: Row) -> str:
    """A row for each page: its size."""
    rows = [
        (row["page"], *(shown(row[name], 2) for name in ("offline_mb", "online_mb")))
        for row in found["pages"]
    ]
    return table(["page", "MB, works offline", "MB, loads a script"], rows)


# ---- serve.py

HOW = {"connections": "connections", "texts": "sentences a request", "rate": "rate"}


def medians(rows: Sequence[Row]) -> list[Row]:
    """The medians over the rounds, with the share of the offline translator in the same round."""
    speeds = defaultdict(list)
    for row in rows:
        if row["measured"] == "offline":
            speeds[row["round"]].append(row["sentences_per_second"])
    kinds = defaultdict(list)
    for row in rows:
        share = {}
        if row["measured"] == "saturation" and row["round"] in speeds:
            share = {"share_of_offline": row["sentences_per_second"] / statistics.mean(speeds[row["round"]])}
        kind = (row["measured"], *(row.get(name) for name in (*HOW, "system")))
        if "round" in row:
            kinds[kind].append(row | share)
    order = {
        name: number
        for number, name in enumerate(("offline", "saturation", "open loop", "overhead", "beside"))
    }
    return [median(same) for kind, same in sorted(kinds.items(), key=lambda each: order[each[0][0]])]


def median(same: Sequence[Row]) -> Row:
    """The medians of several measurements of the same, and their sums of errors."""
    names = [name for name, value in same[0].items() if isinstance(value, float)]
    found = same[0] | {name: statistics.median(row[name] for row in same) for name in names}
    sums = {name: sum(row[name] for row in same) for name in ("errors", "unanswered") if name in found}
    return {name: value for name, value in (found | sums).items() if name not in ("round", "when")}


def serve(found: Row) -> str:
    """A row for each system: sentences per second by connections, and milliseconds at a rate of requests."""
    rows = medians(found["rows"])
    full = [row for row in rows if row["measured"] == "saturation" and row["texts"] == 1]
    loops = [row for row in rows if row["measured"] == "open loop"]
    connections = [count for (count,) in distinct(full, "connections")]
    heads = ["system", *(f"sentences/s, {count} connections" for count in connections)]
    heads += ["p50, p95 at half of its own saturation", "p50, p95 at the rate of all"]
    lines = []
    for (system,) in distinct(full, "system"):
        speeds = {row["connections"]: row for row in full if row["system"] == system}
        times = {row["rate"]: row for row in loops if row["system"] == system}
        cells = [of_offline(speeds[count], system) for count in connections]
        cells += [
            f"{times[rate]['p50_ms']:.1f}, {times[rate]['p95_ms']:.1f} ms at "
            f"{times[rate]['requests_per_second']:.0f}/s"
            for rate in ("own", "common")
        ]
        lines.append([NAMES[system], *cells])
    return table(heads, lines)


def of_offline(row: Row, system: str) -> str:
    """Sentences per second; ours with the share of what the offline translator reaches."""
    share = f" ({row['share_of_offline']:.0%} of offline)" if system == "dragoman" else ""
    return f"{row['sentences_per_second']:.0f}{share}"


def serve_short(found: Row) -> str:
    """Milliseconds of short sentences: what HTTP adds, and what a long sentence beside them does."""
    rows = {row["measured"]: row for row in medians(found["rows"])}
    overhead, beside = rows["overhead"], rows["beside"]
    lines = [
        ("median, by the translator", overhead["direct_ms"]),
        ("median, by the server", overhead["http_ms"]),
        ("p95", beside["alone_p95_ms"]),
        ("p95, beside long texts", beside["whole_p95_ms"]),
        ("p95, beside long texts that are translated in parts", beside["parts_p95_ms"]),
    ]
    return table(["short sentences", "ms"], [(title, shown(value, 1)) for title, value in lines])


# ---- single runs of recipes


def models(*results: Row) -> str:
    """A row for each model and search: scores on test data; for each model its training."""
    lines = []
    for found in results:
        training = found["training"]
        trained = (
            f"{training['minutes']:.0f} minutes, {training['updates']:,} updates, "
            f"{found['parameters'] / 1e6:.1f} M parameters"
        )
        origin = ", ".join(training[name] for name in ("commit", "date", "machine"))
        first = [trained, f"`{training['command']}`", origin]
        for row in found["rows"]:
            scores = ", ".join(map(score_in_words, row["scores"]))
            lines.append([found["task"], row["search"], scores, *first])
            first = ["", "", ""]
    return table(["task", "search", "score", "training", "command", "commit, date and machine"], lines)


def score_in_words(score: Row) -> str:
    """Its value and name; error rates (WER, PER) are in percent."""
    return f"{score['value']:.2f} {'% ' * score['name'].endswith('ER')}{score['name']}"


def earlier_models(found: Row) -> str:
    """A row for each run that was recorded by hand: its scores on test data, its training, and where."""
    lines = []
    for row in found["rows"]:
        training = []
        if "minutes" in row:
            conditions = f" {row['conditions']}" if "conditions" in row else ""
            alone = f" ({row['minutes_alone']} without)" if "minutes_alone" in row else ""
            minutes = f"{row['minutes']:g} minutes{conditions}{alone}"
            training = [minutes, f"{row['parameters']} M parameters"]
        scores = ", ".join(f"{value:.2f} {name}" for name, value in row["scores"].items())
        origin = ", ".join(row[name] for name in ("commit", "date", "machine") if name in row)
        lines.append([row["task"], scores, ", ".join(training), row.get("recipe", ""), origin])
    return table(["task", "score", "training", "recipe", "commit, date and machine"], lines)


def parsing(found: Row) -> str:
    """A row for each search of one parser: recall, precision and F1, and F1 by length of the sentence."""
    lengths = found["rows"][0]["by_length"]
    lines = []
    for row in found["rows"]:
        scores = [shown(row.get(name), 2) for name in ("recall", "precision", "F1")]
        by_length = row.get("by_length", {})
        lines.append([row["search"], *scores, *(shown(by_length.get(each), 2) for each in lengths)])
    return table(["search", "recall", "precision", "F1", *lengths], lines)
