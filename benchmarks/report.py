"""Makes docs/generated/performance.md and pictures from a result file, and compares two result files."""

import json
import re
from pathlib import Path


def load(path):
    return json.loads(Path(path).read_text())


def merged(parts):
    """One set of results of several, each of one native device and one other: a process of its own for each driver,
    whose threads would otherwise disturb the other's. The other devices are named by their platforms; each keeps the
    native times that it ran against ("native_of")."""
    if len(parts) == 1:
        return parts[0]
    result = {"about": {}, "peaks": {}, "cases": {}, "first_step": {}}
    for part in parts:
        native = part["about"]["native"]
        (device,) = (name for name in part["about"] if name.startswith(("ocl", "cuda")))
        platform = re.search(r"platform='(.*?)'", part["about"][device])[1]
        label = f"{device.split(':')[0]} ({platform})"
        only = (
            []
            if part["cases"]
            else [kind.replace("_", " ") for kind in ("first_step", "scaling", "dlprimitives") if part.get(kind)]
        )
        measured = ", ".join([label, *only])
        for key, value in part["about"].items():
            name = label if key == device else key
            before = result["about"].setdefault(name, value)
            if before != value:
                result["about"][name] = f"{before}; {value} ({measured})"
        for peak in part["peaks"].values():
            result["peaks"][label] = peak
        for name, case in part["cases"].items():
            if "error" in case or "error" in result["cases"].get(name, {}):
                result["cases"][name] = case if "error" in case else result["cases"][name]
                continue
            empty = {"devices": {}, "ratio": {}, "native_of": {}, "to_float64": {}, "contended": False, "fallbacks": []}
            whole = result["cases"].setdefault(name, {**case, **empty})
            whole["devices"] |= {native: case["devices"][native], label: case["devices"][device]}
            whole["native_of"][label] = case["devices"][native]
            whole["ratio"][label] = case["ratio"][device]
            whole["contended"] |= case["contended"]
            if "to_float64" in case:
                whole["to_float64"] |= {label: case["to_float64"][device]}
            whole["fallbacks"] = sorted({*whole["fallbacks"], *case.get("fallbacks", [])})
        for name, runs in part.get("first_step", {}).items():
            result["first_step"].setdefault(name, {}).update(
                {kind.replace(device.split(":")[0], label): run for kind, run in runs.items()}
            )
        for name, runs in part.get("dlprimitives", {}).items():
            (result.setdefault("dlprimitives", {}).setdefault(name, {})[label],) = runs.values()
        for name, counts in part.get("scaling", {}).items():
            for count, run in counts.items():
                whole = result.setdefault("scaling", {}).setdefault(name, {}).setdefault(count, {})
                whole.update(
                    run
                    if "error" in run
                    else {native if which == native else label: axes for which, axes in run.items()}
                )
    return result


def time_text(seconds):
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.2f} us"


def rate_text(result, seconds):
    if result.get("operations"):
        return f"{result['operations'] / seconds / 1e9:.0f} GFLOP/s"
    if result.get("bytes"):
        return f"{result['bytes'] / seconds / 1e9:.1f} GB/s"
    return ""


def part_of_peak(results, result, device):
    """Achieved part of the device's measured peak: of multiply-adds where operations are counted, of bandwidth where
    bytes are; None without either."""
    peaks = results.get("peaks", {}).get(device)
    if not peaks or "error" in result:
        return None
    seconds = result["devices"][device]["seconds"]
    if result.get("operations"):
        return result["operations"] / seconds / peaks["flops"]
    if result.get("bytes"):
        return result["bytes"] / seconds / peaks["bytes"]
    return None


def worst(results, device, count=10):
    """[(part of the peak, name)] of the cases that are furthest from what the device can do."""
    parts = ((part_of_peak(results, result, device), name) for name, result in results["cases"].items())
    return sorted((part, name) for part, name in parts if part is not None)[:count]


def _rows(results, group, native, other):
    for name, result in results["cases"].items():
        if result["group"] != group:
            continue
        if "error" in result:
            yield f"| {name} | | | | | {result['error'].replace('|', ' ')} |"
            continue
        mine, theirs = (
            result["devices"][other]["seconds"],
            result.get("native_of", {}).get(other, result["devices"][native])["seconds"],
        )
        notes = "contended" if result["contended"] else ""
        if other in result.get("to_float64", {}):
            notes += " errors to float64, native's first: {:.2g}, {:.2g}".format(*result["to_float64"][other])
        part = part_of_peak(results, result, other)
        if result.get("fallbacks"):
            notes += " runs on the CPU: " + ", ".join(result["fallbacks"])
        times = f"{time_text(theirs)} | {time_text(mine)} {rate_text(result, mine)}"
        of_peak = "" if part is None else f"{part:.0%}"
        yield f"| {name} | {times} | {of_peak} | {result['ratio'][other]:.2f} | {notes.strip()} |"


def _scaling_tables(results):
    """Milliseconds per image: a row for every number of threads and device, a column for every batch size or image
    size."""
    from .scaling import BATCH_OF_SIZES, CLIFF, SIZE_OF_BATCHES, cliffs

    titles = {
        "batch": f"batch, images of {SIZE_OF_BATCHES} x {SIZE_OF_BATCHES}",
        "size": f"image edge, batches of {BATCH_OF_SIZES}",
    }
    yield from [
        "## Scaling",
        "",
        f"Milliseconds per image. A step is called a cliff when the next larger batch makes an image, or the next "
        f"larger image a pixel, {CLIFF} times dearer.",
        "",
    ]
    for name, counts in results["scaling"].items():
        good = {count: part for count, part in counts.items() if "error" not in part}
        for axis, title in titles.items():
            points = next(iter(next(iter(good.values())).values()))[axis] if good else {}
            yield from [
                f"{name}, {title}:",
                "",
                f"| threads | device | {' | '.join(points)} |",
                f"|{'---|' * (len(points) + 2)}",
            ]
            for count, part in good.items():
                for device, axes in part.items():
                    times = " | ".join(f"{1e3 * seconds:.3g}" for seconds in axes[axis].values())
                    yield f"| {count} | {device} | {times} |"
            yield ""
        found = [f"{count} threads, {line}" for count, part in good.items() for line in cliffs(part)]
        yield from [f"Cliffs of {name}: {'; '.join(found) or 'none'}.", ""]


def _beside_dlprimitives(results):
    """Seconds of a training step by either library, a row for every network, the columns of every driver."""
    devices = list(dict.fromkeys(device for runs in results["dlprimitives"].values() for device in runs))
    yield from ["## Beside dlprimitives", ""]
    yield (
        "Training steps by dlprimitives' `dlprim_benchmark` and by `ocl` in turns, a process each "
        "(benchmarks/dlprimitives.py says what a step is)."
    )
    yield ""
    yield "| network | batch |" + "".join(f" dlprimitives | {device} | ratio |" for device in devices)
    yield f"|{'---|' * (2 + 3 * len(devices))}"
    for name, runs in results["dlprimitives"].items():
        cells = []
        for device in devices:
            run = runs.get(device, {"error": "not run"})
            if "error" in run:
                cells += [run["error"].replace("|", " ").replace("\n", " ")[:120], "", ""]
            else:
                cells += [
                    time_text(run["dlprimitives"]),
                    time_text(run["ocl"]),
                    f"{run['dlprimitives'] / run['ocl']:.1f}",
                ]
        batch = next((run["batch"] for run in runs.values() if "batch" in run), "")
        yield f"| {name} | {batch} | {' | '.join(cells)} |"
    yield ""


def markdown(results, pictures=()):
    """The text of docs/generated/performance.md."""
    about, native = results["about"], results["about"]["native"]
    others = [name for name in about if name.startswith(("ocl", "cuda"))]
    lines = ["# Performance", "", "Generated by `python -m benchmarks report`; do not edit.", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += ["", "Ratios are native time / device time of the same process (above 1 the device is faster), medians "
        "of alternating rounds.",
              "Outputs were compared before anything was timed: losses and all gradients of a training step. Where "
              "two float32 results may differ by more than 1% (a",
              "deep network doubles rounding errors layer by layer), both are compared with float64, and the device "
              "may be 1.5 times as far from it as native.", ""]  # fmt: skip
    for device, peak in results.get("peaks", {}).items():
        lines += [f"Measured peak of {device}: {peak['flops'] / 1e9:.0f} GFLOP/s from registers, "
            f"{peak['bytes'] / 1e9:.1f} GB/s streaming. \"Of peak\" counts the operations of the",
                  "definition, so algorithms that need fewer (Winograd) can pass 100%, and bytes that have to move, "
                  "so data that stays in caches can.", ""]  # fmt: skip
    pictures = dict(pictures)
    if "ratios" in pictures:
        lines += [f"![native time / device time]({pictures['ratios']})", ""]
    notes = Path(__file__).parent / "notes.md"
    if notes.exists():
        lines += [notes.read_text().strip(), ""]
    for other in others:
        for group in dict.fromkeys(result["group"] for result in results["cases"].values()):
            lines += [
                f"## {group}, {other}",
                "",
                f"| case | {native} | {other} | of peak | ratio | |",
                "|---|---|---|---|---|---|",
            ]
            lines += [*_rows(results, group, native, other), ""]
    if "roofline" in pictures:
        lines += [f"![achieved part of the peak]({pictures['roofline']})", ""]
    for other in others:
        if worst(results, other):
            lines += [f"## Furthest from the peak, {other}", ""]
            lines += [*(f"{i}. {name}: {part:.0%}" for i, (part, name) in enumerate(worst(results, other), 1)), ""]
    if results.get("scaling"):
        lines += _scaling_tables(results)
    if results.get("dlprimitives"):
        lines += [*_beside_dlprimitives(results)]
    if results.get("first_step"):
        lines += ["## First training step in a fresh process", ""]
        if "first_step" in pictures:
            lines += [f"![first training step]({pictures['first_step']})", ""]
        kinds = list(next(iter(results["first_step"].values())))
        peaks = [kind for kind in kinds if kind.endswith(" warm")]
        lines += [
            f"| network | {' | '.join(kinds)} | {' | '.join(f'peak memory, {kind[:-5]}' for kind in peaks)} |",
            f"|{'---|' * (1 + len(kinds) + len(peaks))}",
        ]
        for name, runs in results["first_step"].items():
            cells = [
                time_text(runs[kind]["first"]) if "first" in runs[kind] else runs[kind].get("error", "")
                for kind in kinds
            ]
            cells += [
                f"{runs[kind]['peak_bytes'] / 2**20:.0f} MiB" if "peak_bytes" in runs[kind] else "" for kind in peaks
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def plot(results, path):
    """Bars of the ratios, one panel per group."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    groups = {}
    for name, result in results["cases"].items():
        for ratio in list(result.get("ratio", {}).values())[:1]:
            groups.setdefault(result["group"], []).append((name, ratio))
    if not groups:
        return False
    heights = [max(2, len(rows)) for rows in groups.values()]
    figure, axes = pyplot.subplots(len(groups), 1, figsize=(9, 1.2 * len(groups) + 0.24 * sum(heights)), squeeze=False,
                                   gridspec_kw={"height_ratios": heights})  # fmt: skip
    for axis, (group, rows) in zip(axes[:, 0], groups.items()):
        names, ratios = zip(*reversed(rows))
        axis.barh(names, ratios, color=["#2a7" if ratio >= 1 else "#c73" for ratio in ratios])
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(group, fontsize=10, loc="left")
        axis.tick_params(labelsize=7)
    axes[-1, 0].set_xlabel("native time / device time")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    return True


def plot_first_steps(results, path):
    """Bars of the first training step: native, with empty caches, with a warm cache."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = {
        name: runs
        for name, runs in results.get("first_step", {}).items()
        if all("first" in run for run in runs.values())
    }
    if not steps:
        return False
    figure, axis = pyplot.subplots(figsize=(9, 3))
    kinds = list(next(iter(steps.values())))
    width = 0.8 / len(kinds)
    for i, kind in enumerate(kinds):
        axis.bar(
            [x + width * i for x in range(len(steps))],
            [runs[kind]["first"] for runs in steps.values()],
            0.93 * width,
            label=kind,
        )
    axis.set_xticks([x + (0.8 - width) / 2 for x in range(len(steps))], list(steps))
    axis.set_ylabel("first step, seconds")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    return True


def plot_roofline(results, path):
    """Rates of all cases with counted operations or bytes, as parts of the measured peak."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    devices = list(results.get("peaks", {}))
    if not devices:
        return False
    figure, axis = pyplot.subplots(figsize=(9, 4))
    for device in devices:
        parts = sorted(
            part for result in results["cases"].values() if (part := part_of_peak(results, result, device)) is not None
        )
        axis.plot([(i + 0.5) / len(parts) for i in range(len(parts))], parts, marker=".", label=device)
    axis.axhline(1, color="black", linewidth=0.8)
    axis.set_xlabel("part of the cases")
    axis.set_ylabel("achieved part of the measured peak")
    axis.set_yscale("log")
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    return True


# Each draws into a file and says whether there was anything to draw.
PLOTS = {"ratios": plot, "roofline": plot_roofline, "first_step": plot_first_steps}


def compare(before, after, threshold=0.1):
    """Lines about every case whose device time changed by more than `threshold`; and the number that became slower."""
    lines, slower = [], 0
    for name, new in after["cases"].items():
        old = before["cases"].get(name)
        if old is None or "error" in old or "error" in new:
            if old is None or ("error" in old) != ("error" in new):
                change = "now fails: " + new["error"] if "error" in new else "works now"
                lines.append(f"{name:60} {'new' if old is None else change}")
            continue
        for device, ratio in new.get("ratio", {}).items():
            if device not in old.get("ratio", {}):
                continue
            change = ratio / old["ratio"][device]
            if abs(change - 1) > threshold:
                slower += change < 1
                lines.append(
                    f"{name:60} {device} ratio {old['ratio'][device]:.2f} -> {ratio:.2f} "
                    f"({'faster' if change > 1 else 'SLOWER'})"
                )
    return lines, slower
