"""README.md's picture, numbers and tested drivers, from other pages: no number is typed in by hand.

Writes docs/generated/networks.svg (bars of the networks against native PyTorch) and the blocks of README.md between
markers: the
numbers from docs/generated, the drivers from docs/use/tested.md. `python tools/generate_docs.py` runs it;
tests/python/test_documents.py compares.
"""

import math
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "generated"
PLAIN = re.compile(r"(\w+) train")  # a network's training step, without options


def sections(text, prefix):
    """{rest of the heading: [cells of each row]} of the tables under the headings that begin with `prefix`."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if heading.startswith(prefix):
            rows = [line.strip("| ").split(" | ") for line in body.splitlines() if line.startswith("| ")]
            found[heading.removeprefix(prefix).lstrip(", ")] = rows[1:]
    return found


def fact(text, name):
    return re.findall(rf"^- {name}: (.*)$", text, re.MULTILINE)[0]


def networks():
    """{driver: {network: native time / device time}} of the training steps on the CPU drivers."""
    text = (GENERATED / "performance.md").read_text()
    drivers = {}
    for heading, rows in sections(text, "networks").items():
        (name,) = re.findall(r"\((.*)\)", heading)
        driver = {"Portable Computing Language": "PoCL", "Intel(R) OpenCL": "Intel's CPU runtime"}.get(name, name)
        named = {PLAIN.fullmatch(row[0]): float(row[4]) for row in rows}
        drivers[driver] = {match[1]: ratio for match, ratio in named.items() if match}
    return drivers


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def numbers():
    """A row each: the CPU drivers against PyTorch on the CPU, a GPU against CUDA."""
    text = (GENERATED / "performance.md").read_text()
    where = f"{fact(text, 'processor')}, {fact(text, 'cores')} cores, torch {fact(text, 'torch')}, {fact(text, 'date')}"
    lines = ["| training step | against | times as fast | measured on |", "|---|---|---|---|"]
    for driver, ratios in networks().items():
        names = f"{len(ratios)} networks on {driver}"
        lines.append(f"| {names} (geometric mean) | PyTorch on the CPU | **{mean(ratios.values()):.2f}** | {where} |")
    text = (GENERATED / "gpu.md").read_text()
    (rows,) = sections(text, "networks").values()
    where = f"{fact(text, 'cuda').split(',')[0]}, torch {fact(text, 'torch')}, {fact(text, 'date')}"
    # the GPU's rows are "network batch precision": memory order as it comes, each precision for itself
    kinds = {kind: [float(row[4]) for row in rows if row[0].endswith(kind)] for kind in ("fp32", "tf32")}
    count = min(map(len, kinds.values()))
    speeds = ", ".join(f"**{mean(ratios):.2f}** in {kind}" for kind, ratios in kinds.items())
    lines.append(f"| {count} networks (geometric mean) | CUDA and cuDNN | {speeds} | {where} |")
    return "\n".join(lines)


def tested():
    """The table of docs/use/tested.md without its last column."""
    lines = [line for line in (ROOT / "docs" / "use" / "tested.md").read_text().splitlines() if line.startswith("|")]
    return "\n".join("|".join(line.split("|")[:5]) + "|" for line in lines)


def readme():
    """README.md with the blocks between its markers written anew."""
    text = (ROOT / "README.md").read_text()
    for name, block in (("numbers", numbers()), ("tested", tested())):
        between = re.compile(rf"(<!-- {name}:.*? -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        parts = between.split(text)  # before, opening marker, closing marker, behind
        count = (len(parts) - 1) // 3
        if count != 1:
            raise ValueError(f"README.md has {count} blocks between the markers of {name!r}")
        text = f"{parts[0]}{parts[1]}{block}\n{parts[2]}{parts[3]}"
    return text


def picture():
    """Bars: how many times faster a training step is than on PyTorch's CPU device; the line is PyTorch itself."""
    drivers = networks()
    names = [name for name in next(iter(drivers.values())) if all(name in ratios for ratios in drivers.values())]
    row, bar, left, right = 34, 12, 120, 620
    scale = (right - left) / (max(max(ratios.values()) for ratios in drivers.values()) * 1.08)
    height = 60 + row * len(names)
    text = (GENERATED / "performance.md").read_text()
    caption = f"{fact(text, 'processor')}, {fact(text, 'cores')} cores, {fact(text, 'date')}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" viewBox="0 0 720 {height}" role="img"',
        '     aria-label="Training steps against PyTorch on the CPU" font-family="sans-serif" font-size="13">',
        f'<rect width="720" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="20" fill="#333">Training step: times as fast as PyTorch on the CPU ({caption})</text>',
    ]
    colours = dict(zip(drivers, ("#2b6cb0", "#dd8a2e"), strict=False))
    for i, name in enumerate(names):
        top = 36 + i * row
        parts.append(f'<text x="{left - 8}" y="{top + 17}" text-anchor="end" fill="#333">{name}</text>')
        for j, (driver, ratios) in enumerate(drivers.items()):
            y, width = top + j * (bar + 1), ratios[name] * scale
            parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar}" fill="{colours[driver]}"/>')
            parts.append(
                f'<text x="{left + width + 5:.1f}" y="{y + 10}" font-size="11" fill="#333">{ratios[name]:.2f}</text>'
            )
    x = left + scale
    parts.append(f'<line x1="{x:.1f}" y1="30" x2="{x:.1f}" y2="{height - 26}" stroke="#333" stroke-dasharray="4 3"/>')
    for j, driver in enumerate(drivers):
        x = left + j * 160
        parts.append(f'<rect x="{x}" y="{height - 18}" width="12" height="12" fill="{colours[driver]}"/>')
        parts.append(f'<text x="{x + 18}" y="{height - 8}" fill="#333">{driver}</text>')
    parts.append(f'<text x="{left + 340}" y="{height - 8}" fill="#333">dashed: PyTorch on the CPU</text>')
    return "\n".join([*parts, "</svg>", ""])


def write():
    (GENERATED / "networks.svg").write_text(picture())
    (ROOT / "README.md").write_text(readme())


if __name__ == "__main__":
    write()
