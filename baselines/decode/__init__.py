"""Decode from a paged cache: multi-head latent attention, and grouped heads."""
