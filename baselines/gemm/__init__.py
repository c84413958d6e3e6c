"""Matrix products: bf16, e4m3 and with an epilogue."""
