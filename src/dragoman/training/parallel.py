"""How the gradients of several processes become one, and the weights of one model lie in several processes.

FSDP2 is imported by runs that use it: that takes three quarters of a second.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.model.interface import Model
from dragoman.training.distributed import World

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def synchronised(objective: nn.Module, model: Model, world: World, shards: bool) -> nn.Module:
    """The objective of a model, such that the gradients become the mean over processes as `backward` runs.

    Each process has all weights (DDP), or a part of every weight, and layers are put together while they work (FSDP2).
    """
    if world.size == 1:
        return objective
    if shards:
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        for layer, methods in model.layers():
            fully_shard(layer)
            for method in methods:
                register_fsdp_forward_method(layer, method)
        fully_shard(objective)
        return objective
    # Tables of positions grow as they are needed, in each process by itself: there is nothing to synchronise about them.
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(objective, [name for name, _ in objective.named_buffers()])
    devices = [world.device] if world.device.type == "cuda" else None
    return DistributedDataParallel(objective, device_ids=devices, gradient_as_bucket_view=True)


def synchronising(objective: nn.Module, last: bool) -> AbstractContextManager[None]:
    """Around each batch of an update: only in the backward pass of the last one do processes tell each other their gradients."""
    if isinstance(objective, DistributedDataParallel):
        return nullcontext() if last else objective.no_sync()
    if distributed.is_initialized():
        from torch.distributed.fsdp import FSDPModule

        if isinstance(objective, FSDPModule):
            objective.set_requires_gradient_sync(last)
    return nullcontext()


def computes_alone(objective: nn.Module, world: World) -> bool:
    """Whether a process asks nothing of the others before the last backward pass, in which they synchronise."""
    return world.size == 1 or isinstance(objective, DistributedDataParallel)


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether a part of it lies in each process: then it is of another class than all other tensors."""
    return type(tensor) not in (Tensor, nn.Parameter)


def unsharded(tensor: Tensor) -> Tensor:
    """The tensor with all parts of it that lie in other processes. They all call this."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def shard(tensors: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Of each tensor as much as this process has of the weight that it belongs to: `weight`, or `weight|moment`."""
    sharded_weights = {name: weight for name, weight in model.named_parameters() if is_sharded(weight)}
    if not sharded_weights:
        return dict(tensors)
    from torch.distributed.tensor import distribute_tensor

    def part(name: str, tensor: Tensor) -> Tensor:
        weight = sharded_weights.get(name.split("|", 1)[0])
        if weight is None or weight.shape != tensor.shape:
            return tensor
        return distribute_tensor(tensor.to(weight.device), weight.device_mesh, weight.placements, src_data_rank=None)

    return {name: part(name, tensor) for name, tensor in tensors.items()}
