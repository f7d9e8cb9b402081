"""The version of torch-ocl. CMake and setuptools read it from this file, so no other file names it."""

__version__ = "0.1.0"
