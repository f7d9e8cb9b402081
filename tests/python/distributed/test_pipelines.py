"""Schedules of pipelines, against one process with the whole batch (on the CPU, float64)."""

import copy

import pytest
import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, schedules

WIDTH, SAMPLES, PARTS = 6, 8, 4  # as many microbatches as parts


def layers(count):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(count)]


def alone(parts, x, y, steps):
    model = nn.Sequential(*copy.deepcopy(parts)).double()
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.5), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.double()), y.double())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def check_schedule(rank, size, name, stages_of_rank, v_shape=False):
    """A few steps of training; v_shape: rank 0 has the first stage and the last one."""
    every = layers(size * stages_of_rank)
    x, y = torch.randn(SAMPLES, WIDTH), torch.randn(SAMPLES, WIDTH).tanh()
    reference, right = alone(every, x, y, 3)
    mine = [rank + turn * size for turn in range(stages_of_rank)]
    if v_shape:
        mine = [rank, 2 * size - 1 - rank]
    device, count = torch.device("ocl", 0), len(every)
    stages = [PipelineStage(every[index].to("ocl"), index, count, device) for index in mine]
    kind = getattr(schedules, name)
    schedule = kind(stages if issubclass(kind, schedules.PipelineScheduleMulti) else stages[0], PARTS,
                    loss_fn=nn.functional.mse_loss)  # fmt: skip
    parameters = [parameter for stage in stages for parameter in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, 0.5)
    for step in range(3):
        optimizer.zero_grad()
        losses = []
        inputs = (x.to("ocl"),) if 0 in mine else ()
        target = y.to("ocl") if count - 1 in mine else None
        out = schedule.step(*inputs, target=target, losses=losses)
        optimizer.step()
        if count - 1 in mine:
            assert out.device.type == "ocl" and len(losses) == PARTS
            assert abs(sum(loss.item() for loss in losses) / PARTS - right[step]) < 1e-5
    for index in mine:
        for got, expected in zip(every[index].parameters(), reference[index].parameters(), strict=True):
            assert got.device.type == "ocl"
            torch.testing.assert_close(got.detach().cpu().double(), expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "stages", "v_shape"),
    [
        (ScheduleGPipe.__name__, 1, False),
        (Schedule1F1B.__name__, 1, False),
        ("ScheduleInterleaved1F1B", 2, False),
        ("ScheduleLoopedBFS", 2, False),
        ("ScheduleInterleavedZeroBubble", 2, False),
        ("ScheduleZBVZeroBubble", 2, True),
        ("ScheduleDualPipeV", 2, True),
    ],
)
def test_schedule(pair, name, stages, v_shape):
    if not hasattr(schedules, name):
        pytest.skip(f"this PyTorch has no {name}")
    pair(check_schedule, name, stages, v_shape)


def test_four_ranks(four):
    four(check_schedule, "ScheduleInterleaved1F1B", 2)
