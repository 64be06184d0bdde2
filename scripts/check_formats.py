#!/usr/bin/env python3
"""Reads what `fizeau accept` wrote with the parsers and schemas of those it is for: called by
check_formats.sh. Every rule has to refuse a planted fault.

Usage: check_formats.py SCHEMA_OF_JUNIT DIRECTORY_OF_VERDICTS MANIFESTS..
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import kubernetes_validate
import xmlschema
import yaml
from prometheus_client.parser import text_string_to_metric_families

CODES = {"pass": 0, "fail": 1, "inconclusive": 4}
# The oldest version with `backoffLimitPerIndex`, and the newest that the package knows.
KUBERNETES = ["1.29", "1.34"]
# Fields of a custom plugin's configuration, as kubernetes/node-problem-detector documents them
# (docs/custom_plugin_monitor.md and pkg/custompluginmonitor).
DETECTOR = {
    "": {"plugin", "pluginConfig", "source", "metricsReporting", "conditions", "rules"},
    "pluginConfig": {
        "invoke_interval",
        "timeout",
        "max_output_length",
        "concurrency",
        "enable_message_change_based_condition_update",
        "skip_initial_status",
    },
    "conditions": {"type", "reason", "message"},
    "rules": {"type", "condition", "reason", "path", "args", "timeout"},
}


def refuses(reader, text, what):
    try:
        reader(text)
    except Exception:
        return
    sys.exit(f"fault: a reader takes {what}")


def samples(text):
    """Samples by name and labels, in the types that the text states."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge" and family.documentation, family
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def check_metrics(text, verdict):
    """Every check of the verdict with its labels, and nothing else."""
    level, found = verdict["level"], samples(text)
    names = [name for name, _ in found]
    assert names.count("fizeau_accept_check") == len(verdict["checks"]), names
    for one in verdict["checks"]:
        labels = {
            "level": level,
            "stub": str(one["stub"]).lower(),
            "check": one["check"],
            "device": one["device"],
            "point": one.get("point", ""),
        }
        key = tuple(sorted(labels.items()))
        assert found["fizeau_accept_check", key] == CODES[one["verdict"]], one
        ratio = found.get(("fizeau_accept_above_floor_ratio", key))
        assert ratio == one.get("above_floor"), (ratio, one)
    [node] = [value for (name, _), value in found.items() if name == "fizeau_accept_verdict"]
    assert node == CODES[verdict["verdict"]]
    return names


def check_junit(text, verdict, schema):
    schema.validate(text)
    root = ElementTree.fromstring(text)
    checks = verdict["checks"]
    cases = root.findall(".//testcase")
    assert len(cases) == len(checks)
    for case, one in zip(cases, checks):
        kinds = {"pass": [], "fail": ["failure"], "inconclusive": ["error"]}[one["verdict"]]
        assert [child.tag for child in case] == kinds, one
        assert case.get("classname") == one["device"], (case.get("classname"), one["device"])
    [suite] = root.findall("testsuite")
    counts = [sum(one["verdict"] == word for one in checks) for word in ("fail", "inconclusive")]
    assert [int(suite.get(name)) for name in ("failures", "errors")] == counts
    assert int(suite.get("tests")) == len(checks) and suite.get("skipped") == "0"


def seconds(text):
    """A duration of Go."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def check_detector(text):
    config = json.loads(text)
    parts = {name: config[name] for name in ("pluginConfig", "conditions", "rules")} | {"": config}
    for name, part in parts.items():
        for one in part if isinstance(part, list) else [part]:
            assert set(one) <= DETECTOR[name], f"{name}: {set(one) - DETECTOR[name]}"
    assert config["plugin"] == "custom" and config["source"]
    limit = seconds(config["pluginConfig"]["timeout"])
    assert seconds(config["pluginConfig"]["invoke_interval"]) > limit
    conditions = {one["type"] for one in config["conditions"]}
    for rule in config["rules"]:
        assert rule["type"] in ("permanent", "temporary") and seconds(rule["timeout"]) <= limit
        assert rule["type"] == "temporary" or rule["condition"] in conditions, rule
        assert Path(rule["path"]).is_absolute() and rule["reason"]


def check_manifest(text):
    documents = list(yaml.safe_load_all(text))
    for document in documents:
        for version in KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)
    return [document["kind"] for document in documents]


def main(schema, place, manifests):
    place, schema = Path(place), xmlschema.XMLSchema(schema)
    names = []
    for out in ("pass", "fail", "unclear", "measured"):
        verdict = json.loads((place / out / "verdict.json").read_text())
        metrics = (place / f"{out}.prom").read_text()
        names += check_metrics(metrics, verdict)
        junit = (place / out / "junit.xml").read_text()
        check_junit(junit, verdict, schema)
    refuses(samples, metrics.replace('"}', "}", 1), "a label without its quotation mark")
    assert len(set(names)) == 4, f"not every family has a sample: {set(names)}"
    last = [line for line in metrics.splitlines() if not line.startswith("#")][-1]
    refuses(samples, f"{metrics}{last}\n", "a sample twice")
    refuses(lambda text: check_metrics(text, verdict), metrics[: len(metrics) // 2], "half a file")
    refuses(lambda text: check_junit(text, verdict, schema), junit[:-20], "half of JUnit's XML")
    for find, replace in [(' name="', ' nome="'), ("<testcase", "<test"), ("testsuites", "tests")]:
        refuses(schema.validate, junit.replace(find, replace), f"JUnit's XML with {replace}")
    refuses(
        lambda text: check_junit(text, verdict, schema),
        junit.replace("<error", "<skipped").replace("</error", "</skipped"),
        "skipped in the place of inconclusive",
    )
    print(f"Prometheus: its Python parser reads {len(names)} samples, as verdict.json has them")
    print("JUnit: four verdicts are valid by Jenkins's schema (junit-10.xsd)")
    # While check_formats.sh writes it over and over.
    for _ in range(2000):
        text = (place / "pass.prom").read_text()
        assert text.endswith("\n") and samples(text)
    print("Prometheus: a file that is written meanwhile is read whole 2,000 times")
    for manifest in manifests:
        text = Path(manifest).read_text()
        if manifest.endswith(".json"):
            check_detector(text)
            refuses(check_detector, text.replace('"reason"', '"reeson"'), "a field's slip")
            refuses(check_detector, text.replace('"10s"', '"10"'), "a duration without unit")
            print(f"node-problem-detector: {manifest} has the fields of a custom plugin")
            continue
        kinds = check_manifest(text)
        refuses(check_manifest, text.replace("spec:", "spek:", 1), "a field's slip")
        refuses(check_manifest, re.sub(r"(name: .*)", r"\1\n  names: x", text, count=1), "one more")
        print(f"Kubernetes {' and '.join(KUBERNETES)}: {manifest} is valid ({', '.join(kinds)})")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
