"""Restarts by torchrun: each has keys of its own in the store.

torchrun keeps one store for all of a script's restarts, and the ranks of each meet under the same keys. A rank then
reads the address of a peer that has died, and Gloo's connectFullMesh fails, with CPU tensors as well.
"""

import functools
import os
import time
import uuid
from datetime import timedelta
from typing import Any

import torch

PREFIX = "torch_ocl"


def patch(rendezvous: Any) -> None:
    """`rendezvous`: the module torch.distributed.rendezvous."""
    create = getattr(rendezvous, "_create_c10d_store", None)
    if create is None:
        return

    @functools.wraps(create)
    def _create_c10d_store(
        hostname: str, port: int, rank: int, world_size: int, timeout: timedelta, *rest: Any, **options: Any
    ) -> Any:
        store = create(hostname, port, rank, world_size, timeout, *rest, **options)
        return own_keys(store, rank, world_size, timeout) if may_restart() else store

    rendezvous._create_c10d_store = _create_c10d_store


def may_restart() -> bool:
    """Whether torchrun has started this process, with a store of its own, and may start it again. Says the same on
    every rank."""
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "")
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and restarts.isdecimal() and int(restarts) > 0


def own_keys(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """A view of `store` under a prefix that all `size` ranks agree on and that nobody has used before.

    The number of the restart would not do: with several machines it is counted on each by itself. Rank 0 chooses a name
    and answers what each rank asks with; as every question is new, nobody takes an answer that was left from before.

    Errors: torch.distributed.DistStoreError after `timeout`.
    """
    name, question = uuid.uuid4().hex, uuid.uuid4().hex
    others = range(1, size)
    until, pause = time.monotonic() + timeout.total_seconds(), 0.001
    if rank != 0:
        store.set(f"{PREFIX}/question {rank}", question)
    while True:
        if rank == 0:
            questions = _values(store, [f"{PREFIX}/question {other}" for other in others])
            if questions is not None:
                store.set(f"{PREFIX}/answer", " ".join([name, *questions]))
                if _values(store, [f"{PREFIX}/taken {other}" for other in others]) == [name] * len(others):
                    break
        elif answer := _values(store, [f"{PREFIX}/answer"]):
            name, *answered = answer[0].split()
            if answered[rank - 1 : rank] == [question]:
                store.set(f"{PREFIX}/taken {rank}", name)
                break
        if time.monotonic() > until:
            raise torch.distributed.DistStoreError(
                f"rank {rank} of {size} waited {timeout} for the others to agree on keys in torchrun's store"
            )
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    distributed: Any = torch.distributed  # its stubs lack the class
    return distributed.PrefixStore(f"{PREFIX}/{name}", store)


def _values(store: Any, keys: list[str]) -> list[str] | None:
    """What the store has under `keys`; None while one is missing."""
    if not keys:
        return []
    return [store.get(key).decode() for key in keys] if store.check(keys) else None
