"""Random numbers: one Philox generator per device, same seed, same numbers."""

from collections.abc import Sequence

import torch

from .. import _core
from . import _lifetime
from ._utils import Device, _get_device_index


def _generator(device: Device) -> torch.Generator:
    _lifetime._lazy_init()
    return _core.core().default_generator(_get_device_index(device))


def default_generators() -> tuple[torch.Generator, ...]:
    """The generators of all devices, as torch.cuda.default_generators."""
    _lifetime._lazy_init()
    core = _core.core()
    return tuple(core.default_generator(index) for index in range(core.device_count()))


def get_rng_state(device: Device = "ocl") -> torch.Tensor:
    """State of the device's generator, a ByteTensor on the CPU."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Device = "ocl") -> None:
    """Sets the state of the device's generator to what get_rng_state() gave. Safe without a device."""
    with torch._C._DisableFuncTorch():
        copy = new_state.clone(memory_format=torch.contiguous_format)
    _lifetime._lazy_call(lambda: _generator(device).set_state(copy))


def get_rng_state_all() -> list[torch.Tensor]:
    """States of the generators of all devices."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Sets the states of all generators to what get_rng_state_all() gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator. Safe without a device: the seed is set when one is first used."""
    seed = int(seed)
    _lifetime._lazy_call(lambda: _generator(None).manual_seed(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator. Safe without a device."""
    seed = int(seed)

    def seed_them() -> None:
        for generator in default_generators():
            generator.manual_seed(seed)

    _lifetime._lazy_call(seed_them)


def seed() -> None:
    """Seeds the current device's generator with a random number."""
    _lifetime._lazy_call(lambda: _generator(None).seed())


def seed_all() -> None:
    """Seeds every device's generator with the same random number."""

    def seed_them() -> None:
        generators = default_generators()
        number = generators[0].seed()
        for generator in generators[1:]:
            generator.manual_seed(number)

    _lifetime._lazy_call(seed_them)


def initial_seed() -> int:
    """The seed that the current device's generator was last given."""
    return _generator(None).initial_seed()
