"""Random programs on `ocl` and on the CPU: views of views, dtypes, elementwise operators, reductions, indexing, matrix
products."""
