"""Records the programs that networks use, for kernels that are compiled ahead of time (cmake/Ahead.cmake).

    python tools/record_programs.py [--build build/cmake] [--add]

Runs training steps and inference of the networks below on a CPU device, with registers as wide as the processor's and
as narrow as AVX2's, and writes kernels_cl/ahead/programs.txt: kernel file and definitions of every program, sorted,
each once. What clang does not compile for both levels is left out and named (kernels that use instructions which one
of them lacks). --add keeps what the list has.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "kernels_cl" / "ahead" / "programs.txt"

CLASSIFIERS = ["alexnet", "resnet18", "resnet50", "vgg11", "mobilenet_v2", "mobilenet_v3_small"]
WARMUPS = [  # batch, edge of the images, further arguments
    (8, 128, ["--optimizer", "SGD"]),
    (8, 224, ["--optimizer", "AdamW"]),
    (1, 224, ["--inference"]),
]

# Run by a child: a decoder that is trained and generates, and an encoder, of PyTorch's own layers.
LANGUAGE_MODELS = """
import torch
from torch import nn
from torch.nn import functional as F

def blocks(causal, batch, length, heads):
    torch.manual_seed(0)
    tokens = nn.Embedding(1000, 128).to("ocl")
    places = nn.Embedding(128, 128).to("ocl")
    layer = nn.TransformerEncoderLayer(128, heads, 512, 0.1, "gelu", batch_first=True, norm_first=causal)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to("ocl")
    head = nn.Linear(128, 1000).to("ocl")
    parameters = [p for part in (tokens, places, body, head) for p in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, 1e-3)
    mask = nn.Transformer.generate_square_subsequent_mask(length, device="ocl") if causal else None
    words = torch.randint(1000, (batch, length)).to("ocl")

    def run():
        x = tokens(words) + places(torch.arange(length, device="ocl"))
        return head(body(x, mask=mask, is_causal=causal))

    for _ in range(2):
        optimizer.zero_grad()
        loss = F.cross_entropy(run().flatten(0, 1), words.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        loss.item()
    body.eval()
    with torch.no_grad():
        run()[:, -1].softmax(-1).argmax(-1).tolist()

for causal in (True, False):
    blocks(causal, 4, 64, 4)
    blocks(causal, 1, 16, 2)
    blocks(causal, 4, 64, 2)
with torch.no_grad():
    for width in (32, 64):
        q = torch.randn(1, 4, 64, width).to("ocl")
        F.scaled_dot_product_attention(q, q, q, is_causal=True).cpu()
        F.scaled_dot_product_attention(q[:, :, :1], q, q).cpu()
"""


def parts(text: str) -> list[str]:
    """The programs of a list, each with its line "== FILE"."""
    return [part for part in re.split(r"(?m)^(?=== )", text) if part]


def wanted(program: str) -> bool:
    file = program.split("\n", 1)[0].removeprefix("== ")
    return not file.startswith("selftest/") and not file.endswith(".gpu.cl")


def run(command: list[str], recorded: Path, narrow: bool) -> None:
    environment = os.environ | {"TORCH_OCL_RECORD_PROGRAMS": str(recorded), "TORCH_OCL_VISIBLE_DEVICES": "portable"}
    if narrow:
        environment["TORCH_OCL_VECTOR_FLOATS"] = "8"
    print("+", " ".join(command)[:100].split("\n")[0], "narrow" if narrow else "", flush=True)
    subprocess.run(command, env=environment, check=True)


def record(recorded: Path) -> list[str]:
    for narrow in (False, True):
        for batch, size, more in WARMUPS:
            arguments = [*CLASSIFIERS, "--batch", str(batch), "--size", str(size), *more]
            run([sys.executable, "-m", "torch_ocl", "warmup", *arguments], recorded, narrow)
        run([sys.executable, "-c", LANGUAGE_MODELS], recorded, narrow)
    return parts(recorded.read_text())


def compiles(programs: list[str], build: Path, folder: Path) -> Iterable[str]:
    """Those that have functions and that clang compiles, with the options of the build."""
    (folder / "list").write_text("".join(programs))
    subprocess.run([build / "torch_ocl_ahead", "write", folder / "list", folder], check=True)
    settings = (build / "CMakeCache.txt").read_text()
    clang = re.search(r"AHEAD_CLANG:FILEPATH=(.*)", settings)
    options = re.search(r"AHEAD_OPTIONS:INTERNAL=(.*)", settings)
    if not clang or not options:
        raise SystemExit(f"{build} does not compile kernels ahead of time")
    for number, program in enumerate(programs):
        if "__asm__(AHEAD_NAME(" not in (folder / "x86-64-v3" / f"{number}.cl").read_text():
            continue  # none of its kernels is called as a function
        for level in ("x86-64-v3", "x86-64-v4"):
            file = folder / level / f"{number}.cl"
            command = [clang[1], *options[1].split(";"), f"-march={level}", "-c", file, "-o", os.devnull]
            answer = subprocess.run(command, capture_output=True, text=True)
            if answer.returncode:
                errors = [line for line in answer.stderr.splitlines() if "error:" in line]
                print(f"left out: {program.split(chr(10), 1)[0]}, {level}: {errors[:1]}")
                break
        else:
            yield program


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cmake")
    parser.add_argument("--add", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = record(folder / "recorded")
        if options.add:
            programs += parts(LIST.read_text())
        programs = sorted({program for program in programs if wanted(program)})
        kept = list(compiles(programs, options.build, folder))
    LIST.write_text("".join(kept))
    print(f"{len(kept)} programs in {LIST.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
