"""Bundles for scripts/fleet_speed.sh: one acceptance of a stub node of eight GPUs, and copies of it under
other names of nodes, boards and runs. Arguments: the folder with the program and its stub libraries, where
the bundles go, how many."""

import hashlib
import json
import pathlib
import re
import shutil
import sys

from accept_stub import Node

built, out, count = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), int(sys.argv[3])
node = Node(built, 8)
node.run("seed=100/run", "bundle", "--profile", "profile.toml", "--budget", "60s")
bundle = node.place / "bundle"
files = {path.relative_to(bundle): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
# What is not read by a survey, and large.
files = {name: text for name, text in files.items() if name.suffix in (".json", ".jsonl", ".toml")}
host = pathlib.Path("/proc/sys/kernel/hostname").read_text().strip()
runs = sorted(set(re.findall(rb'"run":"([0-9a-f]+)"', b"".join(files.values()))))
boards = re.compile(rb"GPU-[0-9a-f]{4}")
for number in range(count):
    name = f"n{number:05}".encode()
    entries = []
    for path, text in files.items():
        if path.name == "manifest.json":
            continue
        text = text.replace(b'"' + host.encode() + b'"', b'"' + name + b'"')
        text = boards.sub(b"GPU-%04x" % number, text)
        if path.name == "record.jsonl":
            text = re.sub(rb'"run":"([0-9a-f]+)"', rb'"run":"\1%s"' % name[1:], text, count=1)
        if path.name == "rows.jsonl":
            text = re.sub(rb'"session":"([0-9a-f]+)"', rb'"session":"\1%s"' % name[1:], text)
        sha256 = hashlib.sha256(text).hexdigest()
        entries.append({"path": str(path), "sha256": sha256, "size": len(text)})
        place = out / name.decode() / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text)
    manifest = {"files": sorted(entries, key=lambda entry: entry["path"].encode()), "format": 1}
    (out / name.decode() / "manifest.json").write_text(json.dumps(manifest, separators=(",", ":")))
records = sum(path.name == "record.jsonl" for path in files)
size = sum(map(len, files.values()))
print(f"{records} {size}")
shutil.rmtree(bundle)
