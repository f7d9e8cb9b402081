"""torch.distributed with several processes on `ocl`."""
