"""Accelerate, transformers' Trainer and Lightning under torchrun, as they are, without a variable."""

import os
import subprocess
import sys

import pytest
import torch.distributed as dist

from distributed.launch import PACKAGE, torchrun, write

pytestmark = [
    pytest.mark.feature("Distributed"),
    pytest.mark.skipif(
        not (dist.is_available() and dist.is_gloo_available()), reason="this PyTorch has no torch.distributed with Gloo"
    ),
]


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch):
    for name in os.environ:
        if name.startswith("ACCELERATE_"):
            monkeypatch.delenv(name)


def run(tmp_path, code, *arguments, **options):
    done = torchrun(write(tmp_path, code), str(tmp_path), *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("done") == 2, done.stdout
    assert "no kernel" not in done.stderr, done.stderr  # what a fall back to the CPU says


# Every rank's losses, averaged, against one process with the joined batches in float64.
COMMON = """
import sys, torch
folder = sys.argv[1]
inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
wanted = inputs.sum(1, keepdim=True)
def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
def alone():
    model, losses = network().double(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    for x, y in zip(inputs.double().split(8), wanted.double().split(8)):
        loss = torch.nn.functional.mse_loss(model(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses
def check(losses, precision):
    # 16 products of numbers near 1 in each sum, and four steps that pass errors on
    bound = 8 * torch.finfo({"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]).eps * 4
    torch.testing.assert_close(losses, alone(), rtol=bound, atol=bound)
"""

ACCELERATE = (
    COMMON
    + """
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState
from accelerate.utils import GradScalerKwargs
dataset = torch.utils.data.TensorDataset(inputs, wanted)
for kind, precision, shards in (
    ("MULTI_GPU", "no", None), ("MULTI_GPU", "bf16", None), ("MULTI_GPU", "fp16", None),
    ("FSDP", "no", 1), ("FSDP", "fp16", 1), ("FSDP", "bf16", 2),
):
    AcceleratorState._reset_state(True)
    plugin = shards and FullyShardedDataParallelPlugin(
        fsdp_version=shards, auto_wrap_policy="size_based_wrap", min_num_params=50)
    scale = GradScalerKwargs(init_scale=16.0)  # no step is left out
    accelerator = Accelerator(mixed_precision=precision, fsdp_plugin=plugin, kwargs_handlers=[scale])
    assert accelerator.distributed_type == kind and accelerator.num_processes == 2, accelerator.state
    assert accelerator.device.type == "ocl", accelerator.device
    if shards == 1:  # makes other parameters of those of the model
        model = accelerator.prepare(network())
        optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters(), lr=0.02))
    else:
        model = network()
        model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.02))
    if precision == "fp16":
        assert accelerator.scaler.is_enabled()
    losses = []
    for x, y in accelerator.prepare(torch.utils.data.DataLoader(dataset, batch_size=4)):
        assert x.device.type == "ocl", x.device
        loss = torch.nn.functional.mse_loss(model(x), y)
        losses.append(accelerator.gather(loss.detach().float()).mean().item())
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    check(losses, precision)
    if precision == "no":
        accelerator.save_state(folder + "/" + kind)
        accelerator.wait_for_everyone()
        noise = torch.rand(5, device="ocl")
        accelerator.load_state(folder + "/" + kind)
        assert torch.equal(noise, torch.rand(5, device="ocl"))
    assert {parameter.device.type for parameter in model.parameters()} == {"ocl"}
assert torch.ocl.fallbacks() == {}, torch.ocl.fallbacks()
print("done\\n", end="", flush=True)
accelerator.end_training()
"""
)


def test_accelerate(tmp_path):
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    run(tmp_path, ACCELERATE)


TRAINER = """
import sys, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
torch.manual_seed(0)
rows = [torch.randint(50, (16,)) for _ in range(16)]
data = [{"input_ids": row, "labels": row} for row in rows]
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=1, n_head=2))
arguments = TrainingArguments(sys.argv[1], max_steps=4, per_device_train_batch_size=2, bf16=True, report_to=[],
                              logging_steps=1, save_steps=2, disable_tqdm=True, learning_rate=0.01)
assert arguments.device.type == "ocl" and arguments.world_size == 2, (arguments.device, arguments.world_size)
def losses(trainer):
    return [row["loss"] for row in trainer.state.log_history if "loss" in row]
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train()
again = Trainer(model=model, args=arguments, train_dataset=data)
again.train(resume_from_checkpoint=sys.argv[1] + "/checkpoint-2")
# The same dropout as well: the state of the device's generator is part of the checkpoint.
assert losses(again) == losses(trainer) and len(losses(again)) == 4, (losses(again), losses(trainer))
values = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
assert values.device.type == "ocl"
other = values.clone()
torch.distributed.broadcast(other, 0)
assert torch.equal(other, values)
assert torch.ocl.fallbacks() == {}, torch.ocl.fallbacks()
print("done\\n", end="", flush=True)
"""


def test_trainer(tmp_path):
    pytest.importorskip("accelerate", reason="Accelerate is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    run(tmp_path, TRAINER)


LIGHTNING = (
    COMMON
    + """
import importlib, os
lightning = importlib.import_module(sys.argv[2])
launched = "LOCAL_RANK" in os.environ
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network, self.losses, self.types = network(), [], set()
    def training_step(self, batch, index):
        x, y = batch
        output = self.network(x)
        loss = torch.nn.functional.mse_loss(output, y)
        assert x.device.type == "ocl" and self.trainer.strategy.root_device.type == "ocl", x.device
        self.types.add(output.dtype)
        self.losses.append(self.trainer.strategy.reduce(loss.detach().float()).item())
        return loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.02)
data = torch.utils.data.TensorDataset(inputs, wanted)
types = {"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
for strategy, precision in (("ddp", "no"), ("ddp", "fp16"), ("fsdp", "bf16"), ("fsdp", "fp16")) if launched else (
        ("auto", "no"), ("auto", "bf16"), ("auto", "fp16")):
    trainer = lightning.Trainer(
        max_epochs=1, strategy=strategy, use_distributed_sampler=False, logger=False, enable_progress_bar=False,
        enable_model_summary=False, enable_checkpointing=False,
        precision={"no": "32", "bf16": "bf16-mixed", "fp16": "16-mixed"}[precision])
    assert trainer.world_size == (2 if launched else 1) and trainer.accelerator.name() == "ocl"
    if precision == "fp16":
        trainer.precision_plugin.scaler._init_scale = 16.0  # no step is left out
        assert trainer.precision_plugin.scaler.is_enabled()
    module = Module()
    parts = torch.utils.data.DistributedSampler(data, trainer.world_size, trainer.global_rank, shuffle=False)
    trainer.fit(module, torch.utils.data.DataLoader(data, 8 // trainer.world_size, sampler=parts))
    assert module.types == {types[precision]}, module.types
    check(module.losses, precision)
assert torch.ocl.fallbacks() == {}, torch.ocl.fallbacks()
print("done\\n", end="", flush=True)
"""
)


def test_lightning(tmp_path):
    pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    run(tmp_path, LIGHTNING, "lightning.pytorch")


def test_lightning_in_one_process(tmp_path):
    pytest.importorskip("pytorch_lightning", reason="Lightning is not installed")
    done = subprocess.run(
        [sys.executable, str(write(tmp_path, LIGHTNING)), str(tmp_path), "pytorch_lightning"],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr


DEVICES = """
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from lightning.fabric import Fabric
count = torch.ocl.device_count()
assert Fabric(devices=1).device == torch.device("ocl", 0)
assert Trainer(devices=[0], logger=False).strategy.root_device == torch.device("ocl", 0)
assert Trainer(devices="-1", logger=False).num_devices == count
assert Trainer(accelerator="cpu", logger=False).strategy.root_device.type == "cpu"
for devices in ([count], "nonsense", [-1], 1.5):
    try:
        Trainer(devices=devices, logger=False)
    except (MisconfigurationException, ValueError, TypeError):
        continue
    raise AssertionError(devices)
print("done")
"""


def test_devices_of_lightning(tmp_path):
    pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    done = subprocess.run(
        [sys.executable, "-c", DEVICES],
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr
