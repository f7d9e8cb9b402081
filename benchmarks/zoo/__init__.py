"""The models that torch-ocl is tested with: one row each. `python -m benchmarks.zoo` lists them and what happens to
them."""

from importlib import import_module

from benchmarks.models.images import import_torchvision

LIBRARIES = {  # Python package: the module here with its rows
    "torchvision": "vision",
    "timm": "images",
    "transformers": "language",
    "diffusers": "diffusion",
    "torch_geometric": "graphs",
    "torch": "plain",
}


def installed(library):
    try:
        # first, because timm and transformers import it, and only this works with every wheel of it
        import_torchvision()
        import_module(library)
    except ImportError:
        return False
    return True


def missing():
    """Libraries whose models cannot be looked at here."""
    return [library for library in LIBRARIES if not installed(library)]


def all_models():
    """{id: Model} of the libraries that are installed."""
    modules = (import_module(f"{__name__}.{module}") for library, module in LIBRARIES.items() if installed(library))
    return {model.id: model for module in modules for model in module.rows()}
