"""A repository for Hugging Face's kernel hub, made from the operators of this project and their prebuilt kernels."""
