"""Programs that call libraries which train, optimize, adapt and quantize."""

import copy
import os

import torch
import torch.nn.functional as F
from torch import nn

from .own import draw
from .own_models import trained
from .programs import program


def small_net():
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))


def quietly(trainer, **options):
    return trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                   **options)  # fmt: skip


@program("Trainer with accelerator='auto': two epochs, a validation, a scheduler", "lightning", terms=40000)
def lightning_trainer(device):
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = small_net()

        def training_step(self, batch, _):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, _):
            self.log("loss", F.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(24, 6), torch.arange(24) % 3), batch_size=8)
    net = Net()
    trainer = quietly(lightning.Trainer, accelerator="cpu" if device == "cpu" else "auto", devices=1, max_epochs=2)
    trainer.fit(net, data, data)
    assert trainer.strategy.root_device.type == device
    return [p.detach().to(device) for p in net.parameters()] + [trainer.callback_metrics["loss"].to(device)]


@program("Accelerator: accumulated gradients, clipping, gathering", "accelerate", terms=40000)
def accelerate_loop(device):
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    accelerator = Accelerator(cpu=device == "cpu", gradient_accumulation_steps=2)
    assert accelerator.device.type == device
    net = small_net()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(draw(16, 6), torch.arange(16) % 3), batch_size=4)
    net, optimizer, data = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1), data)
    for x, labels in data:
        with accelerator.accumulate(net):
            loss = F.cross_entropy(net(x), labels)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return [*[p.detach() for p in net.parameters()], accelerator.gather(loss)]


@program("a regressor that is fitted and predicts", "skorch", terms=40000)
def skorch_regressor(device):
    from skorch import NeuralNetRegressor

    class Regressor(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))

    x = draw(30, 6)
    y = x.sum(1, keepdim=True)
    net = NeuralNetRegressor(Regressor, max_epochs=3, lr=0.05, batch_size=10, device=device, verbose=0,
                             train_split=None, iterator_train__shuffle=False)  # fmt: skip
    net.fit(x.numpy(), y.numpy())
    return [p.detach() for p in net.module_.parameters()] + [torch.from_numpy(net.predict(x.numpy())).to(device)]


@program("an engine with metrics and a running average", "pytorch-ignite", terms=40000)
def ignite_engine(device):
    from ignite.engine import create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    net = small_net().to(device)
    data = [(draw(8, 6), torch.arange(8) % 3) for _ in range(3)]
    trainer = create_supervised_trainer(net, torch.optim.SGD(net.parameters(), lr=0.1), F.cross_entropy, device=device)
    trainer.run(data, max_epochs=2)
    metrics = {"accuracy": Accuracy(device=device), "loss": Loss(F.cross_entropy, device=device)}
    found = create_supervised_evaluator(net, metrics, device=device).run(data).metrics
    return [*[p.detach() for p in net.parameters()], torch.tensor([found["accuracy"], found["loss"]]).to(device)]


@program("a model of layers on PyTorch: compiled, fitted, evaluated", "keras", terms=40000)
def keras_model(device):
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    with keras.device(device):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Input((8, 8, 2)), keras.layers.Conv2D(4, 3, activation="relu"),
                                  keras.layers.BatchNormalization(), keras.layers.GlobalAveragePooling2D(),
                                  keras.layers.Dense(3, activation="softmax")])  # fmt: skip
        model.set_weights([draw(*w.shape).abs().numpy() * 0.3 for w in model.get_weights()])
        model.compile(keras.optimizers.SGD(0.05), "sparse_categorical_crossentropy")
        x, y = draw(12, 8, 8, 2).numpy(), (torch.arange(12) % 3).numpy()
        losses = model.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0).history["loss"]
        weights = [v.value.detach() for v in model.trainable_variables]
        return [*weights, torch.tensor([*losses, model.evaluate(x, y, verbose=0)]).to(device)]


@program("an exponential moving average of weights", "ema-pytorch")
def ema_weights(device):
    from ema_pytorch import EMA

    net = small_net().to(device)
    average = EMA(net, beta=0.9, update_after_step=0, update_every=1, include_online_model=False)
    for _ in range(3):
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(0.9)
        average.update()
    return [p.detach() for p in average.ema_model.parameters()]


def steps_with(optimizer_of, device):
    net = small_net().to(device)
    x, labels = draw(8, 6).to(device), (torch.arange(8) % 3).to(device)
    return trained(net, optimizer_of(net.parameters()), lambda: F.cross_entropy(net(x), labels), 3)


@program("the Lion optimizer", "lion-pytorch", terms=8000)
def lion_steps(device):
    from lion_pytorch import Lion

    return steps_with(lambda parameters: Lion(parameters, lr=1e-3, weight_decay=0.1), device)


@program("AdamW without a schedule, in training and in evaluation", "schedulefree", terms=8000)
def schedule_free_steps(device):
    from schedulefree import AdamWScheduleFree

    def of(parameters):
        optimizer = AdamWScheduleFree(parameters, lr=0.01)
        optimizer.train()
        return optimizer

    return steps_with(of, device)


@program("Prodigy, which finds its own rate", "prodigyopt", terms=40000)
def prodigy_steps(device):
    from prodigyopt import Prodigy

    return steps_with(lambda parameters: Prodigy(parameters, lr=1.0, safeguard_warmup=True), device)


@program("low-rank adapters on a network of one's own: a training step, merged weights", "peft", terms=40000)
def peft_adapters(device):
    from peft import LoraConfig, get_peft_model

    net = get_peft_model(small_net(), LoraConfig(r=2, target_modules=["0", "2"], init_lora_weights="olora")).to(device)
    x, labels = draw(8, 6).to(device), (torch.arange(8) % 3).to(device)
    weights = [p for p in net.parameters() if p.requires_grad]
    values = trained(net, torch.optim.SGD(weights, lr=0.1), lambda: F.cross_entropy(net(x), labels), 2)
    return [*values, net.merge_and_unload()[0].weight]


@program("weights in eight bits, and in eight bits with activations", "torchao", terms=40000)
def torchao_weights(device):
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_

    x, results = draw(8, 32).to(device), []
    net = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 16))
    for configuration in (Int8WeightOnlyConfig(), Int8DynamicActivationInt8WeightConfig()):
        quantized = copy.deepcopy(net).to(device)
        quantize_(quantized, configuration)
        with torch.no_grad():
            results.append(quantized(x))
    return results


@program("pooling of tokens, similarities, semantic search", "sentence-transformers", terms=8000)
def sentence_transformers_search(device):
    from sentence_transformers import util
    from sentence_transformers.models import Dense, Pooling

    pooling, dense = Pooling(8, pooling_mode="mean"), Dense(8, 6).to(device)
    features = {
        "token_embeddings": draw(6, 5, 8).to(device),
        "attention_mask": (torch.arange(5) < torch.tensor([[5], [2], [3], [5], [1], [4]])).long().to(device),
    }
    sentences = dense(pooling.to(device)(features))["sentence_embedding"].detach()
    found = util.semantic_search(sentences[:2], sentences, top_k=3)
    order = torch.tensor([[hit["corpus_id"] for hit in hits] for hits in found]).to(device)
    return [sentences, util.cos_sim(sentences, sentences), order]


@program("rearranged, reduced and repeated dimensions, a layer of it", "einops", terms=8000)
def einops_patterns(device):
    from einops import einsum, pack, rearrange, reduce, repeat
    from einops.layers.torch import Rearrange

    image = draw(2, 3, 8, 6).to(device).requires_grad_()
    patches = Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=3)(image)
    packed, _ = pack([patches, repeat(patches[:, 0], "b d -> b n d", n=2)], "b * d")
    result = einsum(packed, packed, "b i d, b j d -> b i j")
    result.sum().backward()
    return [
        patches,
        result,
        reduce(image, "b c (h 2) w -> b c h", "max"),
        rearrange(image.grad, "b c h w -> (b h) c w"),
    ]


@program("rotary positions of queries and keys", "rotary-embedding-torch", terms=8000)
def rotary_positions(device):
    from rotary_embedding_torch import RotaryEmbedding

    rotary = RotaryEmbedding(dim=8).to(device)
    q, k = draw(1, 2, 5, 16).to(device), draw(1, 2, 5, 16).to(device)
    return [rotary.rotate_queries_or_keys(q), *rotary.rotate_queries_with_cached_keys(q[:, :, 3:], k)]


@program("spectrograms of Mel and constant Q, with gradients to the sound", "nnAudio", terms=400000)
def nnaudio_spectrograms(device):
    from nnAudio.features import CQT1992v2, MelSpectrogram

    sound = (draw(2, 4000) * 0.1).to(device).requires_grad_()
    mel = MelSpectrogram(sr=8000, n_fft=256, n_mels=16, hop_length=128, verbose=False).to(device)(sound)
    mel.sum().backward()
    constant_q = CQT1992v2(sr=8000, hop_length=256, fmin=220, n_bins=12, verbose=False).to(device)
    return [mel, sound.grad, constant_q(sound.detach())]
