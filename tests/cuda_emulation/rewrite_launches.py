#!/usr/bin/env python3
"""Turns a .cu file into C++: `kernel<<<grid, block, shared, stream>>>(arguments)` becomes a call of
hetsgd_emulation::launch_with, and `extern __shared__ T x[];` a pointer to the block's shared memory.

    rewrite_launches.py FILE.cu FILE.cpp
"""

import re
import sys

CLOSING = {"(": ")", "[": "]", "{": "}"}


def split_arguments(text, begin, end_mark):
    """The comma-separated pieces of text from `begin` to `end_mark`, and where that ends."""
    pieces, depth, start = [], [], begin
    at = begin
    while at < len(text):
        if not depth and text.startswith(end_mark, at):
            pieces.append(text[start:at].strip())
            return pieces, at + len(end_mark)
        c = text[at]
        if c in CLOSING:
            depth.append(CLOSING[c])
        elif depth and c == depth[-1]:
            depth.pop()
        elif c == "," and not depth:
            pieces.append(text[start:at].strip())
            start = at + 1
        at += 1
    raise ValueError(f"no {end_mark} after position {begin}")


def kernel_before(text, end):
    """Where the kernel's name (with template arguments) that ends at `end` begins."""
    at = len(text[:end].rstrip())
    if text[at - 1] == ">":
        depth = 0
        while True:
            at -= 1
            depth += {">": 1, "<": -1}.get(text[at], 0)
            if depth == 0:
                break
    return at - len(re.search(r"[A-Za-z_][\w:]*$", text[:at]).group())


def rewrite(text):
    text = re.sub(r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([^;\[\]]*?)\s*(\w+)\s*\[\s*\]\s*;",
                  r"\1* const \2 = static_cast<\1*>(::hetsgd_emulation::dynamic_shared_memory());",
                  text)
    while (mark := text.find("<<<")) >= 0:
        begin = kernel_before(text, mark)
        kernel = text[begin:mark].rstrip()
        config, after = split_arguments(text, mark + 3, ">>>")
        if len(config) != 4:
            line = text.count("\n", 0, mark) + 1
            raise ValueError(f"line {line}: a launch needs grid, block, shared memory and stream")
        open_at = text.index("(", after)
        arguments, end = split_arguments(text, open_at + 1, ")")
        newlines = "\n" * text.count("\n", begin, end)  # compilers' lines stay those of the .cu file
        call = (f'::hetsgd_emulation::launch_with({", ".join(config)}, '
                f"[=](auto... its) {{ {kernel}(its...); }}, {', '.join(arguments)})")
        text = text[:begin] + " ".join(call.split()) + newlines + text[end:]
    return text


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    try:
        code = rewrite(text)
    except ValueError as error:
        sys.exit(f"{source}: {error}")
    with open(target, "w", encoding="utf-8") as file:
        file.write(f'#include "cuda_kernel_language.h"\n#line 1 "{source}"\n{code}')


if __name__ == "__main__":
    main()
