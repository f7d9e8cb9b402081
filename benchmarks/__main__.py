"""Benchmarks of `ocl` against native CPU PyTorch (and CUDA where present), alternating in one process.

python -m benchmarks run [--only TEXT ...] [--output FILE]     measures; prints a line per case
python -m benchmarks scaling [--output FILE]                   adds to FILE: time per image by batch, size and threads
python -m benchmarks dlprimitives PROGRAM NETWORKS             adds to FILE: steps beside dlprimitives' own program
python -m benchmarks compare BEFORE AFTER                      what became faster and slower
python -m benchmarks report FILE ...                           writes docs/generated/performance.md and a picture
"""

import argparse
import json
import sys
from pathlib import Path

import torch

import torch_ocl  # noqa: F401  registers `ocl` where autoload is off

from . import report


def selected(words, quick):
    from .cases import all_cases

    for case in all_cases():
        text = f"{case.group} {case.name}"
        if words and not any(word in text for word in words):
            continue
        if quick and case.group == "convolution" and "backward" in case.name:
            continue
        yield case


def run(args):
    from .first_step import cold_and_warm
    from .models import IMAGE_NETWORKS
    from .peaks import larger, peaks
    from .runner import description, memory_and_builds, run_case
    from .timing import keep_heap

    devices = [torch.device(name) for name in args.devices.split(",")]
    heap = "kept by malloc, no fresh pages" if args.keep_heap and keep_heap() else "malloc as it is"
    results = report.load(args.output) if args.append and args.output.exists() else {"cases": {}, "first_step": {}}
    about = description(devices) | {"heap": heap}
    if results.get("about", about) | {"date": about["date"]} != about:
        print(f"{args.output} was measured elsewhere or of another commit: not appended", file=sys.stderr)
        return 2
    measured = [results["peaks"]] if "peaks" in results else []

    def measure_peaks():
        measured.append({str(d): peaks(d) for d in devices if d.type == "ocl"})

    measure_peaks()
    results["about"] = about
    for case in selected(args.only, args.quick):
        result = results["cases"][case.name] = run_case(case, devices, args.rounds)
        print(summary_line(case.name, result), flush=True)
    if args.first_step:
        for name in IMAGE_NETWORKS:
            results["first_step"][name] = cold_and_warm(name)
            print(
                f"first step {name:40} "
                + ", ".join(f"{k} {v.get('first', v.get('error'))}" for k, v in results["first_step"][name].items())
            )
    measure_peaks()
    results["peaks"] = {name: larger(*(run[name] for run in measured)) for name in measured[-1]}
    results["memory"] = {str(device): memory_and_builds(device) for device in devices[1:]}
    written(results, args.output)
    for device in results["peaks"]:
        print(
            f"furthest from the peak of {device}: "
            + "; ".join(f"{name} {part:.0%}" for part, name in report.worst(results, device))
        )
    print(f"written: {args.output}")
    return int(any("error" in result for result in results["cases"].values()))


def started(args, devices):
    """The results that a part is added to."""
    from .runner import description

    return (
        report.load(args.output)
        if args.output.exists()
        else {"about": description([torch.device(name) for name in devices]), "cases": {}, "peaks": {}}
    )


def written(results, output):
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1))
    return 0


def scale(args):
    from .scaling import cliffs, scaling

    results = started(args, args.devices.split(","))
    for name in args.models:
        for training in (True, False):
            measured = results.setdefault("scaling", {})[f"{name} {'train' if training else 'eval'}"] = scaling(
                name, training, args.devices.split(","), args.rounds
            )
            for count, part in measured.items():
                lines = [part["error"]] if "error" in part else [*cliffs(part)] or ["no cliff"]
                print(
                    *(f"{name} {'train' if training else 'eval'}, {count} threads: {line}" for line in lines),
                    sep="\n",
                    flush=True,
                )
    return written(results, args.output)


def beside_dlprimitives(args):
    from .dlprimitives import beside

    results = started(args, ("cpu", "ocl"))
    for name in args.models:
        run = beside(name, args.program, args.networks, args.device, args.rounds)
        results.setdefault("dlprimitives", {}).setdefault(name, {})["ocl"] = run
        print(
            f"{name} train: " + (run.get("error") or f"dlprimitives / ocl {run['dlprimitives'] / run['ocl']:.1f}"),
            flush=True,
        )
    return written(results, args.output)


def summary_line(name, result):
    if "error" in result:
        return f"{name:60} FAILED {result['error']}"
    times = ", ".join(f"{device} {report.time_text(facts['seconds'])}" for device, facts in result["devices"].items())
    ratios = ", ".join(f"{ratio:.2f}" for ratio in result["ratio"].values())
    extra = " contended" if result["contended"] else ""
    if result.get("fallbacks"):
        extra += f" FALLBACK {','.join(result['fallbacks'])}"
    return f"{name:60} {times:36} ratio {ratios}{extra}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("run")
    measuring.add_argument(
        "--devices",
        default="cpu,cuda,ocl" if torch.cuda.is_available() else "cpu,ocl",
        help="the first is the native one",
    )
    measuring.add_argument("--only", nargs="*", default=[], help="cases whose group or name contains one of these")
    measuring.add_argument("--quick", action="store_true", help="leave out the backward passes of single convolutions")
    measuring.add_argument(
        "--first-step", action="store_true", help="also the first step in fresh processes, cold and warm"
    )
    measuring.add_argument(
        "--append",
        action="store_true",
        help="keep the other cases of the output: a run in parts, of one commit and set-up",
    )
    measuring.add_argument("--rounds", type=int, default=7)
    measuring.add_argument("--output", type=Path, default=Path("results/benchmark.json"))
    measuring.add_argument(
        "--keep-heap",
        action="store_true",
        help="malloc keeps freed memory: native operators without page faults, a harder comparison",
    )
    scaling = commands.add_parser("scaling")
    scaling.add_argument("--devices", default="cpu,ocl", help="the first is the native one")
    scaling.add_argument("--models", nargs="*", default=["resnet18"])
    scaling.add_argument("--rounds", type=int, default=3)
    scaling.add_argument("--output", type=Path, default=Path("results/benchmark.json"))
    peer = commands.add_parser("dlprimitives")
    peer.add_argument("program", type=Path, help="its dlprim_benchmark")
    peer.add_argument("networks", type=Path, help="its folder docs/nets_for_benchmark")
    peer.add_argument("--device", default="0:0", help="PLATFORM:DEVICE, as that program counts them")
    peer.add_argument("--models", nargs="*", default=["alexnet", "resnet18", "mobilenet_v2", "resnet50", "vgg16"])
    peer.add_argument("--rounds", type=int, default=2)
    peer.add_argument("--output", type=Path, default=Path("results/benchmark.json"))
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    reporting = commands.add_parser("report")
    reporting.add_argument(
        "files", type=Path, nargs="+", help="several: one for each driver, of processes of their own"
    )
    reporting.add_argument("--output", type=Path, default=Path("docs/generated/performance.md"))
    args = parser.parse_args()
    if args.command == "run":
        return run(args)
    if args.command == "scaling":
        return scale(args)
    if args.command == "dlprimitives":
        return beside_dlprimitives(args)
    if args.command == "compare":
        lines, slower = report.compare(report.load(args.before), report.load(args.after))
        print("\n".join(lines) or "no change above 10 %")
        return int(slower > 0)
    results, pictures = report.merged([report.load(file) for file in args.files]), {}
    for name, draw in report.PLOTS.items():
        path = args.output.with_name(f"{args.output.stem}_{name}.png")
        if draw(results, path):
            pictures[name] = path.name
    args.output.write_text(report.markdown(results, pictures))
    print(f"written: {args.output}, {', '.join(pictures.values())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
