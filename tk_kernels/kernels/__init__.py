"""The operators, a folder each: device code for all targets, binding, the operator in Python, and its log."""
