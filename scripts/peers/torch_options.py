"""Shared by the scripts of this folder that run PyTorch: products in BF16, and compiled steps."""

import torch


def add_to(parser):
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32",
                        help="bf16 is autocast: parameters and losses stay in fp32 (default: fp32)")
    parser.add_argument("--compile", action="store_true", help="use torch.compile")


def autocast(options, device="cpu"):
    """The context of a forward pass."""
    return torch.autocast(device.partition(":")[0], torch.bfloat16, enabled=options.precision == "bf16")


def compiled(function, options):
    return torch.compile(function) if options.compile else function
