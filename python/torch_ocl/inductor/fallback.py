"""A graph that cannot be compiled runs as it is: its operators one by one, with a warning."""

import contextlib
import functools
import warnings
from typing import Any

import torch

from . import epilogues, flex, lowerings

# Set by tests, which want to see what went wrong.
strict = False


def uses_ocl(graph: torch.fx.GraphModule) -> bool:
    """Whether a value of `graph`, as its tracing noted them, is on `ocl`."""
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        values = value if isinstance(value, (tuple, list)) else (value,)
        if any(isinstance(v, torch.Tensor) and v.device.type == "ocl" for v in values):
            return True
    return False


def _cause(error: BaseException) -> BaseException:
    return getattr(error, "inner_exception", None) or error


def _is_ours(error: BaseException) -> bool:
    """Not what the user or Dynamo has to see: errors about data-dependent sizes, restarts, interrupts."""
    cause = _cause(error)
    if isinstance(cause, flex.OptionError):
        return False
    module = type(cause).__module__
    return not module.startswith(("torch._dynamo", "torch.fx", "torch.utils._sympy"))


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"torch.compile: a graph on ocl runs without being compiled, as eager operators do. {reason} Please report "
        f"it with the model and TORCH_LOGS=output_code.",
        stacklevel=2,
    )


def _python_wrapper(gm: torch.fx.GraphModule, options: dict[str, Any]) -> Any:
    """For a graph on ocl `cpp_wrapper` changes nothing: what is plain in it is one call of C++ in any case (direct.py),
    and the rest is called from Python."""
    if not options.get("cpp_wrapper") or torch._inductor.virtualized.V.aot_compilation or not uses_ocl(gm):
        return contextlib.nullcontext()
    options["cpp_wrapper"] = False
    return torch._inductor.config.patch(cpp_wrapper=False)


def install(compile_fx: Any) -> None:
    """Wraps Inductor's entry for one graph."""
    original = compile_fx._compile_fx_inner

    @functools.wraps(original)
    def compile_or_run(gm: torch.fx.GraphModule, *arguments: Any, **options: Any) -> Any:
        try:
            flex.replace(gm, torch._dynamo.utils.detect_fake_mode(arguments))
            lowerings.plain_additions(gm)
            if options.get("is_inference"):
                epilogues.fuse(gm)
            with _python_wrapper(gm, options):
                return original(gm, *arguments, **options)
        except Exception as error:
            if strict or options.get("aot_mode") or not uses_ocl(gm) or not _is_ours(error):
                raise
            cause = _cause(error)
            _warn_once(f"{type(cause).__name__}: {str(cause)[:2000]}.")
            from torch._functorch.aot_autograd import make_boxed_func

            gm.recompile()
            return make_boxed_func(gm.forward)

    compile_fx._compile_fx_inner = compile_or_run
