"""Tile kernels in the ThunderKittens vocabulary, with their Python operators."""
