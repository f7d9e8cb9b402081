"""Programs that call libraries."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F

from .own import draw
from .own_models import trained
from .programs import program


@program("load_file and safe_open straight to the device, of every type", "safetensors")
def safetensors_files(device):
    from safetensors import safe_open
    from safetensors.torch import load_file, load_model, save_file, save_model

    tensors = {str(dtype): draw(4, 6).to(dtype) for dtype in (
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool,
        torch.float8_e4m3fn)}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "x.safetensors")
        save_file(tensors, file)
        loaded = load_file(file, device=device)
        assert loaded.keys() == tensors.keys() and all(t.device.type == device for t in loaded.values())
        with safe_open(file, "pt", device=device) as opened:
            part = opened.get_slice("torch.float32")[1:3, ::1]
        again = str(Path(folder) / "y.safetensors")
        save_file({name: tensor.to(device) for name, tensor in tensors.items()}, again)
        same = load_file(again)
        assert all(torch.equal(same[n].float(), t.float()) for n, t in tensors.items())
        model, other = torch.nn.Linear(3, 2).to(device), torch.nn.Linear(3, 2).to(device)
        save_model(model, again)
        load_model(other, again, device=device)
    return [*[t.float() for t in loaded.values()], part, other.weight]


@program("Whisper: a loss, its gradients, generated tokens", "transformers", terms=40000)
def transformers_whisper(device):
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=60, num_mel_bins=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_source_positions=20,
        max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        suppress_tokens=None, begin_suppress_tokens=None)  # fmt: skip
    model = WhisperForConditionalGeneration(config).eval().to(device)
    mel, labels = draw(2, 8, 40).to(device), torch.randint(3, 60, (2, 6)).to(device)
    result = model(input_features=mel, labels=labels)
    result.loss.backward()
    return [result.loss, result.logits, model.model.encoder.conv1.weight.grad]


@program("BERT: masked language modelling, with padding", "transformers", terms=40000)
def transformers_bert(device):
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
                        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)  # fmt: skip
    model = BertForMaskedLM(config).to(device)
    tokens = torch.randint(3, 60, (2, 9)).to(device)
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5]).to(device)
    loss = lambda: model(input_ids=tokens, attention_mask=mask, labels=tokens.masked_fill(mask == 0, -100)).loss
    return trained(model, torch.optim.SGD(model.parameters(), lr=0.05), loss, 2)


@program("a vision transformer of timm's: a training step, features", "timm", terms=40000)
def timm_vit(device):
    import timm

    model = timm.create_model("test_vit", num_classes=5, img_size=32).to(device)
    images, labels = draw(2, 3, 32, 32).to(device), torch.tensor([1, 3]).to(device)
    loss = lambda: F.cross_entropy(model(images), labels)
    return [*trained(model, torch.optim.SGD(model.parameters(), lr=0.02), loss, 2), model.forward_features(images)]


@program("GCN, GAT and SAGE layers, pooling, batches of graphs", "torch_geometric", terms=8000)
def geometric(device):
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_max_pool, global_mean_pool

    graphs = [Data(x=draw(n, 5), edge_index=torch.randint(0, n, (2, 3 * n))) for n in (4, 7)]
    batch = Batch.from_data_list(graphs).to(device)
    layers = torch.nn.ModuleList([GCNConv(5, 8), GATConv(8, 4, heads=2), SAGEConv(8, 6)]).to(device)

    def run():
        x = batch.x
        for layer in layers:
            x = layer(x, batch.edge_index).tanh()
        return torch.cat([global_mean_pool(x, batch.batch), global_max_pool(x, batch.batch)], -1)

    return [*trained(layers, torch.optim.SGD(layers.parameters(), lr=0.05), lambda: run().square().sum(), 2), run()]


@program("metrics of classes and of numbers", "torchmetrics")
def torchmetrics_values(device):
    from torchmetrics import MeanSquaredError, PearsonCorrCoef
    from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC, MulticlassConfusionMatrix

    scores, labels = draw(40, 4).softmax(-1).to(device), torch.randint(0, 4, (40,)).to(device)
    values = [metric(num_classes=4).to(device)(scores, labels)
              for metric in (MulticlassAccuracy, MulticlassAUROC, MulticlassConfusionMatrix)]  # fmt: skip
    one, other = scores[:, 0].contiguous(), scores[:, 1].contiguous()
    return [*values, MeanSquaredError().to(device)(one, other), PearsonCorrCoef().to(device)(one, other)]


@program("a tiny UNet and schedulers: a loss, denoising steps", "diffusers", terms=40000)
def diffusers_unet(device):
    from diffusers import DDIMScheduler, UNet2DModel

    model = UNet2DModel(sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
                        norm_num_groups=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8).to(device)  # fmt: skip
    scheduler, noise, image = DDIMScheduler(), draw(2, 3, 8, 8).to(device), draw(2, 3, 8, 8).to(device)
    steps = torch.tensor([10, 700]).to(device)
    loss = F.mse_loss(model(scheduler.add_noise(image, noise, steps), steps).sample, noise)
    loss.backward()
    scheduler.set_timesteps(2)
    sample = noise
    with torch.no_grad():
        for t in scheduler.timesteps:
            sample = scheduler.step(model(sample, t).sample, t, sample).prev_sample
    return [loss, model.conv_in.weight.grad, sample]


@program("transforms, boxes, suppression, region pooling", "torchvision", terms=2000)
def torchvision_images(device):
    from benchmarks.models.images import import_torchvision

    torchvision = import_torchvision()
    from torchvision.transforms import v2

    image = draw(2, 3, 16, 16).sigmoid().to(device)
    changed = v2.functional.adjust_contrast(v2.functional.resize(image, [10, 12], antialias=True), 1.4)
    turned = v2.functional.rotate(v2.functional.hflip(image), 30.0)
    corners = (torch.rand(12, 2) * 8).to(device)
    boxes = torch.cat([corners, corners + 3 + torch.rand(12, 2).to(device)], 1)
    overlap = torchvision.ops.box_iou(boxes, boxes)
    lost = torchvision.ops.generalized_box_iou_loss(boxes, boxes.flip(0))
    return [changed, turned, overlap, lost, v2.Normalize([0.5] * 3, [0.2] * 3)(image)]
