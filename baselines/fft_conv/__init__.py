"""The long convolution."""
