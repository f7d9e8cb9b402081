"""The table of operators as Markdown, generated from the rows and from the schemas of the onnx package."""

from onnx import defs

from . import operators, registry

_FAMILIES = {
    "activations": "Activations",
    "attention": "Attention",
    "casts": "Casts",
    "constants": "Constants",
    "control": "Control flow",
    "convolution": "Convolutions",
    "elementwise": "Elementwise",
    "gather": "Indexing",
    "images": "Images and boxes",
    "learning": "ai.onnx.ml",
    "linear": "Matrix products",
    "losses": "Losses",
    "normalization": "Normalization",
    "pooling": "Pooling",
    "quantization": "Quantization",
    "random": "Random numbers",
    "recurrent": "Recurrent layers",
    "reductions": "Reductions",
    "resize": "Resize",
    "sequences": "Sequences and optionals",
    "shapes": "Shapes and copies",
    "signals": "Signals",
    "text": "Text",
    "training": "Training",
}


def by_function() -> list[tuple[str, str]]:
    """Operators without a row that the onnx package writes in other operators."""
    found = set()
    for schema in defs.get_all_schemas():
        key = (schema.domain, schema.name)
        if key not in registry.TABLE and (schema.has_function or schema.has_context_dependent_function):
            found.add(key)
    return sorted(found)


def missing() -> list[tuple[str, str]]:
    """Operators of the newest opsets that are not supported."""
    all_keys = {(schema.domain, schema.name) for schema in defs.get_all_schemas() if not schema.deprecated}
    return sorted(all_keys - set(registry.TABLE) - set(by_function()))


def _full(key: tuple[str, str]) -> str:
    return f"`{key[0]}.{key[1]}`" if key[0] else f"`{key[1]}`"


def markdown() -> str:
    """All rows by family, with the opset from which each holds."""
    if len(operators.__all__) + 1 < len(_FAMILIES):
        raise AssertionError("a family has no file")
    lines = ["| family | operators, and the opsets from which their rows hold |", "|---|---|"]
    for family, title in _FAMILIES.items():
        cells = []
        for key, rows in sorted(registry.TABLE.items()):
            versions = [row.since for row in rows if row.family == family]
            if versions:
                cells.append(f"{_full(key)} {', '.join(map(str, versions))}")
        lines.append(f"| {title} | {'; '.join(cells)} |")
    lines += ["", f"By the function bodies of the onnx package: {', '.join(map(_full, by_function()))}."]
    lines += ["", f"Not supported: {', '.join(map(_full, missing()))}."]
    return "\n".join(lines)
