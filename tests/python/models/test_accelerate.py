"""Hugging Face's Accelerate and transformers' Trainer train on `ocl` without being told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[3] / "python"
pytest.importorskip("accelerate")

ACCELERATOR = """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=2, mixed_precision={precision!r})
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
inputs = torch.randn(32, 8)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)
model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.02), data)
losses = []
for epoch in range(4):
    for batch, wanted in data:
        assert batch.device.type == "ocl", batch.device
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(batch), wanted)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
assert sum(losses[-4:]) < 0.8 * sum(losses[:4]), losses
accelerator.save_state(folder)
kept = [parameter.detach().clone() for parameter in model.parameters()]
with torch.no_grad():
    for parameter in model.parameters(): parameter.zero_()
accelerator.load_state(folder)
assert all(torch.equal(*pair) for pair in zip(kept, model.parameters()))
print(accelerator.device.type, {{parameter.device.type for parameter in model.parameters()}})
"""

TRAINER = """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
torch.manual_seed(0)
tokens = [torch.randint(50, (16,)) for _ in range(16)]
data = [{{"input_ids": row, "labels": row}} for row in tokens]
model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2))
before = [parameter.detach().clone() for parameter in model.parameters()]
arguments = TrainingArguments(output_dir=folder, max_steps=4, per_device_train_batch_size=4, learning_rate=0.01,
                              report_to=[], logging_steps=1, save_steps=2, disable_tqdm=True, {options})
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train()
losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
assert losses[-1] < losses[0], losses
assert not all(torch.equal(old, new.detach().cpu()) for old, new in zip(before, trainer.model.parameters()))
trainer.train(resume_from_checkpoint=folder + "/checkpoint-2")
print(arguments.device.type, {{parameter.device.type for parameter in trainer.model.parameters()}})
"""


def run(code, tmp_path, **environment):
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ACCELERATE_")}
    variables |= {"PYTHONPATH": str(PACKAGE), "TORCH_OCL_FALLBACK": "silent"} | environment
    code = f"import torch, torch_ocl, warnings; warnings.simplefilter('ignore'); folder = {str(tmp_path)!r}\n" + code
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, env=variables, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.feature("Hugging Face Accelerate and Trainer")
@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_accelerator(precision, tmp_path):
    assert run(ACCELERATOR.format(precision=precision), tmp_path) == "ocl {'ocl'}"


OFFLOAD = """
from accelerate import cpu_offload_with_hook
model, hook = cpu_offload_with_hook(torch.nn.Linear(4, 5))
assert model.weight.device.type == "cpu"
output = model(torch.randn(3, 4))
assert model.weight.device.type == "ocl"
hook.offload()
assert model.weight.device.type == "cpu"
print(output.device.type)
"""


@pytest.mark.feature("Hugging Face Accelerate and Trainer")
def test_a_hook_without_a_device_takes_ocl(tmp_path):
    assert run(OFFLOAD, tmp_path) == "ocl"


@pytest.mark.feature("Hugging Face Accelerate and Trainer")
def test_trainer(tmp_path):
    pytest.importorskip("transformers")
    assert run(TRAINER.format(options=""), tmp_path) == "ocl {'ocl'}"


@pytest.mark.parametrize("how", ["use_cpu=True", "ACCELERATE_USE_CPU", "ACCELERATE_TORCH_DEVICE"])
def test_trainer_on_the_cpu_where_that_is_wanted(how, tmp_path):
    pytest.importorskip("transformers")
    options = {"ACCELERATE_USE_CPU": "true", "ACCELERATE_TORCH_DEVICE": "cpu"}
    environment = {how: options[how]} if how in options else {}
    assert run(TRAINER.format(options="" if environment else how), tmp_path, **environment) == "cpu {'cpu'}"


def test_accelerator_on_the_cpu_where_that_is_wanted(tmp_path):
    code = "from accelerate import Accelerator\nprint(Accelerator(cpu=True).device.type)"
    assert run(code, tmp_path) == "cpu"


@pytest.mark.feature("Hugging Face Accelerate and Trainer")
@pytest.mark.parametrize("options", ["bf16=True", "fp16=True"])
def test_trainer_in_mixed_precision(options, tmp_path):
    pytest.importorskip("transformers")
    # The resumed run equals the first one, dropout included.
    code = TRAINER + "again = [row['loss'] for row in trainer.state.log_history if 'loss' in row]\n"
    code += "assert again == losses, (again, losses)\n" + "print(*again, arguments.device.type)\n"
    assert run(code.format(options=options), tmp_path).endswith("ocl")


DEVICE_MAP = """
from accelerate.utils import get_max_memory
from transformers import GPT2Config, GPT2LMHeadModel
memory = get_max_memory()
assert memory[0] > 0 and ("cpu" in memory) != torch.ocl.get_device_properties().is_integrated, memory
reference = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2)).eval()
reference.save_pretrained(folder)
tokens = torch.arange(8)[None]
for choice in ("auto", "balanced", "ocl", 0):
    model = GPT2LMHeadModel.from_pretrained(folder, device_map=choice)
    logits = model(tokens.to("ocl")).logits
    assert logits.device.type == "ocl" and model.lm_head.weight.device.type == "ocl", choice
    torch.testing.assert_close(logits.cpu(), reference(tokens).logits, rtol=1e-5, atol=1e-5)
print(torch.ocl.fallbacks())
"""


@pytest.mark.feature("Hugging Face Accelerate and Trainer")
def test_device_maps(tmp_path):
    pytest.importorskip("transformers")
    assert run(DEVICE_MAP, tmp_path) == "{}"


LINSPACE = """
from transformers import GPT2Config, GPT2LMHeadModel
GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=1, n_head=2)).save_pretrained(folder)
GPT2LMHeadModel.from_pretrained(folder, device_map="ocl")
with torch.device("ocl"):
    print(torch.linspace(0, 1, 5).device.type)
"""


def test_linspace_obeys_the_device_after_loading(tmp_path):
    pytest.importorskip("transformers")
    assert run(LINSPACE, tmp_path) == "ocl"


SAFETENSORS = """
import safetensors, safetensors.torch
path = folder + "/x.safetensors"
safetensors.torch.save_file({"x": torch.arange(6.0).reshape(2, 3)}, path)
for device in ("ocl", "ocl:0", torch.device("ocl"), 0):
    x = safetensors.torch.load_file(path, device=device)["x"]
    assert x.device == torch.device("ocl", 0) and x.tolist() == [[0, 1, 2], [3, 4, 5]], device
    with safetensors.safe_open(path, "pt", device=device) as file:
        assert file.get_tensor("x").device.type == "ocl"
assert safetensors.torch.load_file(path)["x"].device.type == "cpu"
for device, error in (("nonsense", safetensors.SafetensorError), (f"ocl:{torch.ocl.device_count()}", RuntimeError)):
    try:
        safetensors.torch.load_file(path, device=device)
    except error:
        continue
    raise AssertionError(device)
print(torch.ocl.fallbacks())
"""


def test_safetensors(tmp_path):
    pytest.importorskip("safetensors")
    assert run(SAFETENSORS, tmp_path) == "{}"
