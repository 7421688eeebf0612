# SPDX-License-Identifier: BSD-3-Clause
"""Takes the text of metrics apart, and is stricter than OpenMetrics is; for shown.py and others."""

import re

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
SUFFIXES = {"counter": ["_total"], "gauge": [""], "info": ["_info"], "histogram": ["_bucket", "_count", "_sum"]}


def families(text):
    """name → (type, {(suffix, labels): value}), of OpenMetrics."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    found, name = {}, None
    for line in text.splitlines()[:-1]:
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in found, f"{name} comes twice"
            assert line.split(" ", 3)[3].endswith("."), line
            found[name] = (None, {})
        elif line.startswith("# TYPE "):
            _, _, of, kind = line.split(" ")
            assert of == name and found[name][0] is None
            found[name] = (kind, {})
        elif line.startswith("# UNIT "):
            _, _, of, unit = line.split(" ")
            assert of == name and name.endswith("_" + unit), line
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            kind, samples = found[name]
            assert match[1].startswith(name) and match[1][len(name):] in SUFFIXES[kind], line
            key = match[1][len(name):], match[2] or ""
            assert key not in samples, f"{line}: twice"
            samples[key] = float(match[3])
    for name, (kind, samples) in found.items():
        if kind == "histogram":
            check_histograms(name, samples)
    return found


def check_histograms(name, samples):
    """Buckets grow, and the last has all."""
    series = {}
    for (suffix, labels), value in samples.items():
        if suffix == "_bucket":
            rest, end = re.fullmatch(r'(.*?),?le="([^"]*)"', labels).groups()
            series.setdefault(rest, []).append((float(end), value))
    for labels, buckets in series.items():
        assert buckets == sorted(buckets) and [v for _, v in buckets] == sorted(v for _, v in buckets), (name, labels, buckets)
        assert buckets[-1] == (float("inf"), samples["_count", labels]), (name, labels)


def value(found, name, **labels):
    """The sum of a family's samples that have these labels."""
    kind, samples = found[name]
    wanted = [f'{label}="{text}"' for label, text in labels.items()]
    all_of = [v for (suffix, text), v in samples.items() if suffix in ("", "_total", "_count") and all(want in text for want in wanted)]
    assert all_of, (name, labels, samples)
    return sum(all_of)
