"""The operators where people already work: one module a library, imported only by who asks for it."""
