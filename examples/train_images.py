"""Trains an image classifier of torchvision from scratch on real images: 1,797 handwritten digits, enlarged to the
model's input.

    python examples/train_images.py --model resnet18 --device ocl
    python examples/train_images.py --model resnet18 --compare ocl,cpu --size 64

An ordinary PyTorch script: the only line that knows the device is `.to(device)`. The images come with scikit-learn,
nothing is downloaded. Prints accuracy, images per second, the time of the first and of later steps and the operators
that ran on the CPU instead of the device; writes a picture of the curves, a JSON file and a checkpoint to --output.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

# `import torch` loads torch_ocl by itself where OpenCL is the only accelerator.
from torch_ocl import import_torchvision

# model -> optimizer, learning rate
MODELS = {
    "alexnet": ("adam", 2e-4),
    "resnet18": ("sgd", 0.01),
    "resnet50": ("sgd", 0.05),
    "mobilenet_v2": ("sgd", 0.05),
    "vgg16": ("adam", 1e-4),
}


class Digits(Dataset):
    """Handwritten digits as `size` x `size` RGB images around 0; every fifth image is for the test."""

    def __init__(self, train, size, limit=None):
        from sklearn.datasets import load_digits

        data = load_digits()
        test = torch.arange(len(data.target)) % 5 == 4
        chosen = ~test if train else test
        self.images = torch.tensor(data.images, dtype=torch.float32)[chosen][:limit] / 16
        self.labels = torch.tensor(data.target)[chosen][:limit]
        self.size = size

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = nn.functional.interpolate(
            self.images[index][None, None], size=(self.size, self.size), mode="bilinear", align_corners=False
        )
        return ((image[0] - 0.3) / 0.35).expand(3, -1, -1), self.labels[index]


class Run:
    """One training run on one device."""

    def __init__(self, args, device):
        self.args, self.device = args, torch.device(device)
        torch.manual_seed(args.seed)
        self.model = getattr(import_torchvision().models, args.model)(weights=None, num_classes=10).to(self.device)
        self.loss_function = nn.CrossEntropyLoss()
        kind, rate = MODELS[args.model]
        rate = args.lr or rate
        if (args.optimizer or kind) == "sgd":
            self.optimizer = torch.optim.SGD(self.model.parameters(), rate, momentum=0.9, weight_decay=5e-4)
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters(), rate)
        self.train_data, self.test_data = self._loader(train=True), self._loader(train=False)
        steps = args.epochs * len(self.train_data)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, rate, total_steps=steps, pct_start=0.3)
        self.epoch = 0
        self.history = {"loss": [], "accuracy": [], "step_seconds": [], "train_seconds": 0.0, "images": 0}

    def _loader(self, train):
        order = torch.Generator().manual_seed(self.args.seed)
        workers = self.args.workers
        return DataLoader(Digits(train, self.args.size, self.args.images),
                          self.args.batch if train else 2 * self.args.batch, shuffle=train, drop_last=train,
                          generator=order, num_workers=workers, persistent_workers=workers > 0)  # fmt: skip

    def bend(self, images):
        """Every image under a small affine map of its own: with 1,437 images to learn from, the model would learn them
        by heart."""
        maps = torch.eye(2, 3) + 0.1 * (2 * torch.rand(len(images), 2, 3) - 1)
        grid = nn.functional.affine_grid(maps.to(self.device), images.shape, align_corners=False)
        return nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)

    def step(self, images, labels):
        """One optimization step; returns the loss as a number, so it also waits for the device."""
        images, labels = images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
        if self.args.augment:
            images = self.bend(images)
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_function(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        return loss.item()

    def train_epoch(self, bar):
        self.model.train()
        begin = time.perf_counter()
        for images, labels in self.train_data:
            start = time.perf_counter()
            loss = self.step(images, labels)
            self.history["step_seconds"].append(time.perf_counter() - start)
            self.history["loss"].append(loss)
            self.history["images"] += len(labels)
            bar.update()
            bar.set_postfix(epoch=self.epoch + 1, loss=f"{loss:.3f}", accuracy=f"{self.accuracy:.1%}")
        self.history["train_seconds"] += time.perf_counter() - begin

    @torch.no_grad()
    def evaluate(self):
        """Share of the test images that are classified correctly."""
        self.model.eval()
        right = torch.zeros((), dtype=torch.int64, device=self.device)
        for images, labels in self.test_data:
            right += (self.model(images.to(self.device)).argmax(1) == labels.to(self.device)).sum()
        return right.item() / len(self.test_data.dataset)

    @property
    def accuracy(self):
        return self.history["accuracy"][-1] if self.history["accuracy"] else 0.0

    def train(self):
        from tqdm import tqdm

        total = (self.args.epochs - self.epoch) * len(self.train_data)
        with tqdm(total=total, desc=str(self.device), unit="step", mininterval=1.0, disable=self.args.quiet) as bar:
            while self.epoch < self.args.epochs:
                self.train_epoch(bar)
                self.history["accuracy"].append(self.evaluate())
                self.epoch += 1
                self.save()

    # ---- checkpoint: everything that the rest of the run depends on

    def save(self):
        state = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "scheduler")}
        state |= {"epoch": self.epoch, "history": self.history, "random": torch.get_rng_state(),
                  "order": self.train_data.generator.get_state()}  # fmt: skip
        torch.save(state, self.args.output / f"{self.args.model}-{self.device.type}.pt")

    def resume(self, path):
        """Continues from a checkpoint, which may have been written on another device."""
        state = torch.load(path, map_location="cpu", weights_only=True)
        for name in ("model", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        # The position in the schedule, not its length: the new run may have more epochs.
        self.scheduler.load_state_dict(
            {name: state["scheduler"][name] for name in ("last_epoch", "_step_count", "_last_lr")}
        )
        self.epoch, self.history = state["epoch"], state["history"]
        torch.set_rng_state(state["random"])
        self.train_data.generator.set_state(state["order"])

    def summary(self):
        steps, history = self.history["step_seconds"], self.history
        facts = {
            "device": device_name(self.device),
            "test accuracy": f"{self.accuracy:.2%}",
            "training loss, first / last": f"{history['loss'][0]:.4f} / {statistics.fmean(history['loss'][-10:]):.4f}",
            "images per second": f"{history['images'] / history['train_seconds']:.1f}",
            "first step": f"{steps[0]:.2f} s",
            "later steps, median": f"{1000 * statistics.median(steps[1:] or steps):.1f} ms",
        }
        facts["operators run on the CPU instead"] = fallbacks(self.device)
        return facts


def device_name(device):
    module = getattr(torch, device.type, None)
    return module.get_device_name(device) if hasattr(module, "get_device_name") else "native CPU"


def fallbacks(device):
    """The operators that had no kernel on `ocl`, with their number of calls."""
    if device.type != "ocl":
        return "-"
    return ", ".join(f"{name} ({count})" for name, count in sorted(torch.ocl.fallbacks().items())) or "none"


def plot(runs, path):
    """Loss per step and test accuracy per epoch of every run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for device, run in runs.items():
        left.plot(run.history["loss"], label=device, alpha=0.8)
        accuracy = run.history["accuracy"]
        right.plot(range(1, len(accuracy) + 1), [100 * value for value in accuracy], marker="o", label=device)
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    right.set(xlabel="epoch", ylabel="test accuracy in %")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle(path.stem)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def print_side_by_side(runs):
    columns = {device: run.summary() for device, run in runs.items()}
    width = max(len(str(value)) for facts in columns.values() for value in facts.values()) + 2
    names = list(next(iter(columns.values())))
    print(f"\n{'':34}" + "".join(f"{device:<{width}}" for device in columns))
    for name in names:
        print(f"{name:34}" + "".join(f"{facts[name]:<{width}}" for facts in columns.values()))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="resnet18")
    parser.add_argument("--device", default="ocl", help="ocl, cpu, cuda, ...")
    parser.add_argument(
        "--compare",
        metavar="DEVICES",
        help="several devices one after the other, for example ocl,cpu, shown side by side",
    )
    parser.add_argument("--size", type=int, default=224, help="edge of the images in pixels")
    parser.add_argument("--images", type=int, help="use only so many images, for a quick try")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--optimizer", choices=["sgd", "adam"], help="default: by model")
    parser.add_argument("--lr", type=float, help="highest learning rate; default: by model")
    parser.add_argument("--workers", type=int, default=2, help="processes that prepare images")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results/train_images"))
    parser.add_argument(
        "--augment",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="turn, stretch and shift the training images a little",
    )
    parser.add_argument("--resume", type=Path, help="checkpoint to continue from")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser.parse_args()


def main():
    args = arguments()
    args.output.mkdir(parents=True, exist_ok=True)
    runs = {}
    for device in (args.compare or args.device).split(","):
        runs[device] = run = Run(args, device)
        if args.resume:
            run.resume(args.resume)
        run.train()
    print(
        f"{args.model}, digits at {args.size} x {args.size}, batch {args.batch}, {args.epochs} epochs, seed {args.seed}"
    )
    print_side_by_side(runs)
    picture = args.output / f"{args.model}.png"
    plot(runs, picture)
    history = {device: {**run.history, "summary": run.summary()} for device, run in runs.items()}
    picture.with_suffix(".json").write_text(json.dumps(history, indent=1))
    print(f"\ncurves: {picture}")


if __name__ == "__main__":
    main()
