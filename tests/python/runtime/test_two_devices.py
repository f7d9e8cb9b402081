"""Two devices of different platforms in one process: contexts, generators, caches of their own, and copies between
them."""

import glob
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

feature = pytest.mark.feature

SCRIPT = """
import torch, torch_ocl
assert torch.ocl.device_count() >= 2, torch.ocl.device_count()
names = {torch.ocl.get_device_properties(i).platform_name for i in range(2)}
assert len(names) == 2, names
import torch.nn.functional as F

def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        x = torch.rand(32, 8, generator=generator).to(device)
        y = torch.randint(3, (32,), generator=generator).to(device)
        optimizer.zero_grad(); loss = F.cross_entropy(model(x), y); loss.backward(); optimizer.step()
    assert model[0].weight.device == torch.device(device)
    return loss.item()

losses = [train("ocl:0"), train("ocl:1"), train("cpu")]
assert max(losses) - min(losses) < 1e-5, losses
x = torch.arange(1000.0, device="ocl:0").view(10, 100)
for view in (x, x.t(), x[2:7, ::3], x.half()):
    y = view.to("ocl:1", non_blocking=True)
    assert y.device.index == 1 and torch.equal(y.cpu(), view.cpu()) and torch.equal(y.to("ocl:0"), view)
assert torch.empty_like(x, device="ocl:1").copy_(x.t().reshape(10, 100)).device.index == 1
with torch.ocl.device(1):
    assert torch.empty(1, device="ocl").device.index == 1 and torch.ocl.current_device() == 1
    with torch.ocl.device_of(x): assert torch.ocl.current_device() == 0
assert torch.ocl.current_device() == 0
for f in (lambda: x + x.to("ocl:1"), lambda: x @ x.t().to("ocl:1"),
          lambda: F.layer_norm(x, (100,), torch.ones(100, device="ocl:1")),
          lambda: F.embedding(torch.tensor([1], device="ocl:1"), x)):
    try: f(); torch.ocl.synchronize(); raise SystemExit("no error")
    except RuntimeError as error: assert "same device" in str(error), error
torch.manual_seed(7)
a, b = torch.rand(100, device="ocl:0"), torch.rand(100, device="ocl:1")
assert torch.equal(a.cpu(), b.cpu())  # one Philox, one seed
states = torch.ocl.get_rng_state_all(); torch.rand(3, device="ocl:1")
assert torch.equal(states[0], torch.ocl.get_rng_state(0)) and not torch.equal(states[1], torch.ocl.get_rng_state(1))
assert torch.ocl.memory_allocated(0) > 0 and torch.ocl.memory_allocated(1) > 0
w = torch.ones(4, device="ocl:0", requires_grad=True)   # a graph over both devices
((w * 2).to("ocl:1") * 3).sum().backward()
assert w.grad.device.index == 0 and w.grad.tolist() == [6] * 4
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 3)).to("ocl:0")
batch = torch.rand(10, 8)
out = torch.nn.DataParallel(model)(batch)   # half of the batch on each device
half = torch.cat([model(batch[:5].to("ocl:0")), model(batch[5:].to("ocl:0"))])
assert out.device.index == 0 and torch.allclose(out, half, atol=1e-5)
out.square().sum().backward(); whole = model[0].weight.grad.clone(); model.zero_grad()
half.square().sum().backward(); assert torch.allclose(whole, model[0].weight.grad, atol=1e-4)
add_one = torch.ocl.compile_kernel("__kernel void add_one(__global float* x) { x[get_global_id(0)] += 1; }")
for i in (0, 1):
    values = torch.zeros(5, device=f"ocl:{i}")
    add_one(values[1:])
    assert values.tolist() == [0, 1, 1, 1, 1]
s0, s1 = torch.Stream("ocl:0"), torch.Stream("ocl:1")
with s1: assert torch.ocl.current_device() == 1 and torch.accelerator.current_stream() == s1
event = torch.ocl.Event(); event.record(s0); event.wait(s1); s1.synchronize()
import io; buffer = io.BytesIO(); torch.save(b, buffer); buffer.seek(0)
assert torch.load(buffer).device.index == 1; buffer.seek(0)
assert torch.load(buffer, map_location={"ocl:1": "ocl:0"}).device.index == 0
for i in range(2): torch.accelerator.synchronize(i)
print("passed", not torch.ocl.fallbacks())
"""


def drivers():
    """Driver libraries of two platforms, found where the loader and pip put them; [] when there are not two."""
    system = [
        Path(file).read_text().strip()
        for file in sorted(
            glob.glob("/etc/OpenCL/vendors/*.icd")
            + glob.glob(os.path.join(os.environ.get("OCL_ICD_VENDORS", ""), "*.icd"))
        )
    ]
    pip = glob.glob(os.path.join(sys.prefix, "lib", "libintelocl.so"))
    pocl = [name for name in system if "pocl" in name] or glob.glob("/usr/lib/*/libpocl.so.2*")[:1]
    intel = [name for name in system if "intel" in name] or pip
    return [pocl[0], intel[0]] if pocl and intel else []


@feature("Several devices")
def test_two_platforms(tmp_path):
    libraries = drivers()
    if len(libraries) < 2:
        pytest.skip("only one OpenCL driver is installed")
    for i, library in enumerate(libraries):
        (tmp_path / f"{i}.icd").write_text(library + "\n")
    variables = {k: v for k, v in os.environ.items() if k not in ("TORCH_OCL_VISIBLE_DEVICES", "OCL_ICD_FILENAMES")}
    variables |= {
        "OCL_ICD_VENDORS": str(tmp_path),
        "LD_LIBRARY_PATH": os.pathsep.join([os.path.join(sys.prefix, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]),
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split() == ["passed", "True"], done.stdout + done.stderr


@feature("Peer access")
def test_peers(device):
    assert torch.ocl.can_device_access_peer(0, 0)
