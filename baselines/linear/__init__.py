"""The linear attentions: Based, Hedgehog, Mamba-2 and that with decay."""
