"""The libraries the kernels are compared with, one module a library.

Each module offers one class a workload (`Gemm`, ...) with `available`, `version`, `supports`, `kernel_names`,
`foreign_kernel_names` and `prepare`, or a plain function. Importing a module imports no library: that happens in
the methods, so that a library which is not installed is a row with a reason and not an error.
"""
