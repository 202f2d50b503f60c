"""Random configurations for `side_by_side.py`: a model, a smoother's options, settings, images, and a way to certify.

A configuration is plain JSON data and follows from its number and the seed alone.
"""

import random
from typing import Any

Configuration = dict[str, Any]

#: How many of 100 configurations go each way.
WAYS = {
    "certify": 14,
    "certify_all": 22,
    "lines": 12,
    "run": 16,
    "continued": 11,
    "handed over": 8,
    "predict": 4,
    "commit": 4,
    "bad options": 9,
}
GRAPHS = ("plain", "ties", "nan", "fixed", "crowd")
FUNCTIONS = ("linear", "coarse", "grumpy")
#: One bad choice each, for `Smoother` and for the command line.
BAD_HERE: tuple[dict[str, Any], ...] = (
    {"smoother": {"sigma": "0"}},
    {"smoother": {"sigma": "zero"}},
    {"smoother": {"k": "1/7"}},
    {"smoother": {"batch_size": 0}},
    {"smoother": {"workers": 0}},
    {"smoother": {"threads": 0}},
    {"smoother": {"independence": "hoped for"}},
    {"smoother": {"independence": "measured", "again": 0}},
    {"smoother": {"independence": "assumed", "again": 5}},
    {"smoother": {"untrusted": False, "timeout": 5.0}},
    {"settings": {"n": 0}},
    {"settings": {"n0": 0}},
    {"settings": {"alpha": "1"}},
    {"settings": {"alpha": "-0.1"}},
    {"settings": {"bound": "guess"}},
    {"settings": {"noise": "none"}},
    {"settings": {"seed": ""}},
    {"settings": {"nonce": "12"}},
    {"settings": {"seed": None, "nonce": "ab" * 32}},
    {"labels": [-1]},
    {"labels": [0, 1, 0, 1, 0, 1]},
    {"images": [[[[0, 1], [2, 3]]]]},
)
BAD_WORDS: tuple[tuple[str, ...], ...] = (
    ("--sigma", "0"),
    ("--n", "none"),
    ("--n", "0"),
    ("--alpha", "2"),
    ("--bound", "guess"),
    ("--noise", "loud"),
    ("--independence", "hoped-for"),
    ("--again", "5"),
    ("--layout", "upside-down"),
    ("--limit", "0"),
    ("--every", "0"),
    ("--workers", "0"),
    ("--batch-size", "0"),
    ("--nonce", "12"),
    ("--commitment", "00" * 32),
    ("--commitment", "x"),
    ("--out", "records.xml"),
    ("--out", "nowhere/run.db"),
    ("--no-such-option",),
    ("--timeout", "5", "--out", "records.jsonl"),
    ("--engine", "ships", "--out", "run.db"),
    ("--config", "missing.toml"),
    ("--weights", "missing.safetensors"),
    ("--device", "toaster"),
    ("--dtype", "bf16"),
)


def draw(number: int, seed: int, graphs: dict[str, str]) -> Configuration:
    """The configuration of this number; `graphs` are the paths of the graphs by name."""
    chance = random.Random(f"{seed} {number}")
    way = _way(number)
    images = _images(chance)
    labels = [chance.randrange(3) for _ in images] if chance.random() < 0.7 else None
    model = _model(chance, way)
    found: Configuration = {
        "number": number,
        "way": way,
        "name": model,
        "model": graphs.get(model, model),
        "callable": False,
        "images": images,
        "labels": labels,
        "smoother": _smoother(chance, model, way),
        "settings": _settings(chance, number),
    }
    if found["smoother"].get("again") and chance.random() < 0.85:  # what measured independence goes with
        found["settings"] |= {"bound": "clopper-pearson", "noise": chance.choice(("fresh", "shared"))}
    if way in ("certify", "certify_all"):
        found["callable"] = model in FUNCTIONS
        return found
    return _bad(chance, found) if way == "bad options" else {**found, **_commands(chance, found)}


def _way(number: int) -> str:
    """The ways take turns, in a fixed order that mixes them."""
    ways = [way for way, share in WAYS.items() for _ in range(share)]
    return ways[number * 37 % len(ways)]


def _images(chance: random.Random) -> list[Any]:
    """One to four images, from dark to bright; all but flat."""
    found = []
    for _ in range(chance.randint(1, 4)):
        grey = chance.choice((20, 60, 100, 120, 135, 160, 200, 235))
        rows = [[min(255, max(0, grey + chance.randint(-15, 15))) for _ in range(4)] for _ in range(4)]
        found.append([rows])
    return found


def _model(chance: random.Random, way: str) -> str:
    """A graph, mostly; a function, or a factory of one or of a torch module."""
    if way in ("continued", "handed over"):  # graphs can be interrupted from outside
        return chance.choices((*GRAPHS, "toy_models:make_grumpy"), (4, 3, 3, 2, 1, 1))[0]
    if way in ("certify", "certify_all"):
        return chance.choices((*GRAPHS, *FUNCTIONS, "toy_models:make_torch"), (6, 5, 5, 3, 2, 3, 2, 1, 1))[0]
    factories = tuple(f"toy_models:make_{name}" for name in (*FUNCTIONS, "torch"))
    return chance.choices((*GRAPHS, *factories), (6, 5, 5, 3, 2, 2, 2, 2, 1))[0]


def _smoother(chance: random.Random, model: str, way: str) -> dict[str, Any]:
    graph, torch = model in GRAPHS, model.endswith("torch")
    options: dict[str, Any] = {
        "sigma": chance.choice(("0.25", "0.5", "1/3", "0.12")),
        "k": chance.choice(("6", "6", "1", "2")),
        "threads": chance.choice((1, 1, 2)),
    }
    if model != "fixed" and chance.random() < 0.8:
        options["batch_size"] = chance.choice((1, 3, 10, 16, 32, 50))
    if (graph or torch) and chance.random() < 0.3:
        options["workers"] = 2
    options |= _independence(chance, model, graph)
    apart = way not in ("continued", "handed over") and (options["independence"] != "measured" or way == "bad options")
    if graph and apart and chance.random() < 0.14:
        options["untrusted"] = True
    if way in ("certify", "certify_all") and chance.random() < 0.2:
        options["grid"], options["k"] = chance.choice(((256, 15), (300, 255), (256, 51))), "4"
    return options


def _independence(chance: random.Random, model: str, graph: bool) -> dict[str, Any]:
    if model.endswith("grumpy"):  # a check would meet its errors at random
        return {"independence": "assumed"}
    if chance.random() < (0.6 if model == "crowd" else 0.1 if graph else 0.04):
        return {"independence": "measured", "again": chance.randint(1, 30)}
    if model == "crowd":  # a check would find it out or not, at random
        return {"independence": "assumed"}
    if not graph:
        return {"independence": chance.choice(("assumed", "assumed", "auto", "checked"))}
    return {"independence": chance.choice(("auto", "auto", "auto", "proved", "checked", "assumed"))}


def _settings(chance: random.Random, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "n0": chance.choice((1, 5, 20, 33, 100)),
        "n": chance.choice((20, 101, 200, 320, 500, 999)),
        "alpha": chance.choice(("0.001", "0.001", "1/20", "0.01", "0.25")),
        "bound": chance.choice(("clopper-pearson", "clopper-pearson", "hoeffding", "runner-up")),
        "noise": chance.choice(("fresh", "fresh", "shared", "batchwise")),
        "seed": f"seed {number}",
    }
    if chance.random() < 0.5:
        found["nonce"] = f"{chance.getrandbits(256):064x}"
    return found


def _bad(chance: random.Random, found: Configuration) -> Configuration:
    """One choice that cannot be."""
    if chance.random() < 0.5:
        bad = chance.choice(BAD_HERE)
        joined = {name: {**found[name], **value} for name, value in bad.items() if isinstance(value, dict)}
        return {**found, **bad, **joined, "callable": found["name"] in FUNCTIONS, "way": "certify_all", "bad": True}
    words = _words(found) if chance.random() < 0.8 else []
    return {**found, "commands": [{"words": ["certify", *words, *chance.choice(BAD_WORDS)]}], "bad": True}


def _words(found: Configuration) -> list[str]:
    """The configuration as options of the command line."""
    words = [found["model"], "data.npz"]
    for name, value in {**found["smoother"], **found["settings"]}.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def _commands(chance: random.Random, found: Configuration) -> Configuration:
    """The command lines of a way, one after the other."""
    words, way = _words(found), found["way"]
    if chance.random() < 0.2:
        words += ["--every", "2"]
    if chance.random() < 0.2:
        words += ["--limit", "2"]
    if way == "predict":
        return {"commands": [{"words": ["predict", *_for_prediction(found), "--out", "answers.jsonl"]}]}
    if way == "commit":
        asked = [word for word in words if word not in ("--nonce", found["settings"].get("nonce"))]
        to_file = {"words": ["commit", *asked, "--out", "promise.txt"]}
        return {"commands": [{"words": ["commit", *asked], "output": "text"}, to_file]}
    if way == "lines":
        out = chance.choice(("records.jsonl", "records.jsonl", "records.tsv"))
        audit = [{"words": ["verify", out, "--json"], "output": "json"}] if out.endswith("jsonl") else []
        return {"commands": [{"words": ["certify", *words, "--out", out]}, *audit]}
    certify = ["certify", *words, "--out", "run.db"]
    if way == "run" and chance.random() < 0.15 and not found["smoother"].get("untrusted"):
        certify += ["--no-votes"]
    again = [{"words": certify}, {"words": certify}] if way != "run" or chance.random() < 0.2 else [{"words": certify}]
    rest = [*again, *_after(chance, found)]
    if way == "run":
        return {"commands": rest}
    first = {"words": certify, "interrupt": chance.randint(5, 60)}
    return {"first": first, "commands": rest} if way == "handed over" else {"commands": [first, *rest]}


def _after(chance: random.Random, found: Configuration) -> list[Configuration]:
    """What is done with a finished run: exports, and an audit."""
    suffix = chance.choice(("tsv", "csv", "parquet"))
    exports = [{"words": ["runs", "export", "run.db", "--to", f"export.{each}"]} for each in ("jsonl", suffix)]
    words = ["verify", "run.db", "--json"]
    if chance.random() < 0.6:
        words += ["--model", found["model"], "--data", "data.npz", "--replay", "all"]
        words += ["--untrusted"] if found["smoother"].get("untrusted") else []
    return [*exports, {"words": ["runs", "show", "run.db"]}, {"words": words, "output": "json"}]


def _for_prediction(found: Configuration) -> list[str]:
    """Only the options that predict takes."""
    taken = {name: value for name, value in found["smoother"].items() if name != "again"}
    if taken.get("independence") == "measured":
        taken["independence"] = "assumed"
    settings = {name: found["settings"][name] for name in ("n", "alpha")}
    return _words({**found, "smoother": taken, "settings": settings})
