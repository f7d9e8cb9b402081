"""Which kernels ran, as torch.profiler sees them."""

import torch

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
SEEN = VERSION >= (2, 12)  # earlier versions of Kineto take no PrivateUse1 plug-in


def kernels_of(run):
    """Names of the kernels and copies that run() issues, one for each command; None where the profiler does not see
    them."""
    if not SEEN:
        run()
        return None
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
    with torch.profiler.profile(activities=activities) as profile:
        run()
        torch.ocl.synchronize()
    return [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.PrivateUse1]
