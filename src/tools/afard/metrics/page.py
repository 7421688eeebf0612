#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""page.py PAGE OUT: writes the page as an array of C. Run by meson."""

import sys

with open(sys.argv[1], "rb") as page:
    data = page.read()
lines = [",".join(f"(char){byte}" if byte > 127 else str(byte) for byte in data[at : at + 32]) + "," for at in range(0, len(data), 32)]
with open(sys.argv[2], "w", encoding="ascii") as out:
    out.write('#include "page.h"\n\nconst char page_bytes[] = {\n' + "\n".join(lines) + "\n0};\n")
    out.write(f"const size_t page_length = {len(data)};\n")
