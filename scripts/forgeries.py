"""Forgeries of a bundle: each changes a bundle that `fizeau accept` has left, makes all hashes anew, and is
verified three times: unsigned, signed by a key that is not listed, signed by a listed key. Prints a table; the
exit code is 1 where a forgery verifies as if it were none. Needs OpenSSH.

Arguments: the program."""

import hashlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

fizeau = pathlib.Path(sys.argv[1]).resolve()
work = pathlib.Path(tempfile.mkdtemp(prefix="forgeries-"))
SIGNER = "operator@example.org"
# Seconds for which acceptances are tried until one has a figure.
MOST = 300
# The node that tests/runs/small_node.rs makes up, measured as the tests measure.
TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests"
PROFILE = (TESTS / "runs/small_node/profile.toml").read_text()
MEASURE = re.search(r'const MEASURE: &str = r#"(.*?)"#;', (TESTS / "program/mod.rs").read_text(), re.DOTALL)[1]
SUITE = (TESTS / "runs/small_node/small.toml").read_text() + MEASURE


def say(*args):
    run = subprocess.run(args, cwd=work, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def plant(name, text):
    path = work / "root" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def honest():
    """A bundle of a node with one GPU that no driver shows; its files."""
    (work / "profile.toml").write_text(PROFILE)
    (work / "small.toml").write_text(SUITE)
    plant("proc/sys/kernel/hostname", socket.gethostname() + "\n")
    plant("proc/meminfo", "MemTotal: 1048576 kB\n")
    for file, text in [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2335")]:
        plant(f"sys/bus/pci/devices/0000:1a:00.0/{file}", text + "\n")
    began = time.monotonic()
    while time.monotonic() - began < MOST:
        shutil.rmtree(work / "out", ignore_errors=True)
        code, said = say(fizeau, "accept", "--root", "root", "--profile", "profile.toml", "--device", "host",
                         "--out", "out", "--budget", "5min", "--challenge", "heron")
        assert code in (0, 1, 4), said
        # Where others work on the cores no repeat counts, and nothing follows from the records.
        if '"values"' in (work / "out/rows.jsonl").read_text():
            break
        time.sleep(1)
    else:
        sys.exit(f"the host was too busy for {MOST} s: no repeat of the product counted")
    out = work / "out"
    files = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    del files["manifest.json"]
    return files


def in_json(name, change):
    def forge(files):
        value = json.loads(files[name])
        change(value)
        files[name] = json.dumps(value, indent=2).encode()
    return forge


def in_text(name, old, new):
    def forge(files):
        text = files[name].decode()
        changed = re.sub(old, new, text, count=1)
        assert changed != text, (name, old)
        files[name] = changed.encode()
    return forge


def put(name, text):
    return lambda files: files.__setitem__(name, text if isinstance(text, bytes) else text.encode())


def drop(name):
    return lambda files: files.pop(name)


def at(*keys, to):
    def change(value):
        for key in keys[:-1]:
            value = value[key]
        assert value.get(keys[-1]) != to if isinstance(value, dict) else True
        value[keys[-1]] = to
    return change


RECORD = "rounds/0001-host/record.jsonl"


def forgeries(files):
    verdict, own = json.loads(files["verdict.json"]), files[RECORD].decode()
    lines = own.splitlines(keepends=True)
    run = re.search(r'"run":"([^"]+)"', own)[1]
    checks = verdict["checks"]
    number = next(at for at, one in enumerate(checks) if one.get("point"))
    weak = next(at for at, one in enumerate(checks) if one["verdict"] != "pass")
    v, i, a = "verdict.json", "identity.json", "account.json"
    gpu = {"device": "0000:1b:00.0", "pci": "0000:1b:00.0"}
    return [
        ("its verdict", in_json(v, at("verdict", to="pass" if verdict["verdict"] != "pass" else "fail"))),
        ("its action", in_json(v, at("action", to="REPLACE"))),
        ("a check's verdict", in_json(v, at("checks", weak, "verdict", to="pass"))),
        ("a check's device", in_json(v, at("checks", number, "device", to="cuda:0"))),
        ("a check's words", in_json(v, at("checks", number, "words", to="forged"))),
        ("a check's repeats", in_json(v, at("checks", number, "repeats", to=99))),
        ("a check's point", in_json(v, at("checks", number, "point", to="gemm"))),
        ("a measured check left out", in_json(v, lambda value: value["checks"].pop(number))),
        ("a check at rest left out", in_json(v, lambda value: value["checks"].pop(weak))),
        ("a check added", in_json(v, lambda value: value["checks"].append(
            {**checks[number], "check": "more", "verdict": "pass"}))),
        ("the verdict's node", in_json(v, at("node", to="victim"))),
        ("the verdict's date", in_json(v, at("started", to="2026-01-01T00:00:00Z"))),
        ("the verdict's level", in_json(v, at("level", to="full"))),
        ("the verdict's profile", in_json(v, at("profile", to="h100-sxm"))),
        ("whether it is complete", in_json(v, at("complete", to=not verdict["complete"]))),
        ("a note added", in_json(v, lambda value: value.setdefault("notes", []).append("all is well"))),
        ("the page", in_text("verdict.html", "INCONCLUSIVE|FAIL|PASS", "PASSED")),
        ("the page's script", in_text("verdict.html", "</body>|$", "<script>alert(1)</script>")),
        ("the JUnit file", in_text("junit.xml", "<testsuite", '<testsuite skipped="0"')),
        ("the metrics", in_text("metrics.prom", r"fizeau_accept", "fizeau_accepted")),
        ("the page taken away", drop("verdict.html")),
        ("the JUnit file taken away", drop("junit.xml")),
        ("the metrics taken away", drop("metrics.prom")),
        ("a figure of the rows", in_text("rows.jsonl", r'"values":\[(\d)', r'"values":[9\1')),
        ("the node of the rows", in_text("rows.jsonl", r'"node":"[^"]+"', '"node":"victim"')),
        ("a row left out", lambda f: put("rows.jsonl", f["rows.jsonl"].split(b"\n", 1)[1])(f)),
        ("the rows taken away", drop("rows.jsonl")),
        ("the identity's host", in_json(i, at("host", to="victim"))),
        ("the identity's place of a GPU", in_json(i, at("gpus", 0, "pci", to="0000:1b:00.0"))),
        ("a GPU added to the identity", in_json(i, lambda value: value["gpus"].append(gpu))),
        ("a GPU taken from the identity", in_json(i, lambda value: value["gpus"].clear())),
        ("another GPU in the identity", in_json(i, at("gpus", 0, to={"device": "cuda:0", "uuid": "GPU-1"}))),
        ("the account's start", in_json(a, at("started", to="2026-01-01T00:00:00Z"))),
        ("the account's level", in_json(a, at("level", to="passive"))),
        ("an event left out", in_json(a, lambda value: value["groups"][0]["events"].pop(0))),
        ("all events left out", in_json(a, lambda value: value["groups"][0]["events"].clear())),
        ("the device of a group", in_json(a, at("groups", 0, "devices", 0, "name", to="cuda:0"))),
        ("another run in an event", in_text(a, f'"run": "{re.escape(run)}"', '"run": "other"')),
        ("the hash of a record", in_json(a, at("records", 0, "sha256", to="0" * 64))),
        ("the lines of a record", in_json(a, at("records", 0, "lines", to=1))),
        ("what was expected", in_json(a, at("at_rest", "expected", "gpus", to=1))),
        ("the account's program", in_json(a, at("program", "version", to="0.0.1"))),
        ("a number of a record", in_text(RECORD, r'"elapsed":', '"elapsed": ')),
        ("a line added to a record", put(RECORD, own + lines[-1])),
        ("half a line added to a record", put(RECORD, own + '{"kind":"outc')),
        ("a line taken from a record", put(RECORD, "".join(lines[:-1]))),
        ("a record taken away", drop(RECORD)),
        ("a record added", put("rounds/0099-host/record.jsonl", own.replace(run, "2020-01-01T00:00:00Z-run"))),
        ("a record twice", put("rounds/0099-host/record.jsonl", own)),
        ("a text in a record's place", put("rounds/0099-host/record.jsonl", "PASS\n")),
        ("a floor of the profile", in_text("profiles/0.toml", r"share = [0-9.]+", "share = 0.9")),
        ("a profile added", put("profiles/9.toml", PROFILE)),
        ("a GPU added to the state", in_json("state.json", lambda value: value["gpus"].append(
            {**value["gpus"][0], "name": "0000:1b:00.0", "pci": "0000:1b:00.0"}))),
        ("a file of nobody's", put("PASS.txt", "PASS")),
        ("a key added to the verdict", in_json(v, lambda value: value.update(approved_by="the vendor"))),
        ("a key without a value added to the verdict", in_json(v, lambda value: value.update(failed=None))),
        ("a key added to a check", in_json(v, lambda value: value["checks"][weak].update(waived=True))),
        ("a key added to the identity", in_json(i, lambda value: value.update(asset="A-1"))),
        ("a key added to a GPU of the identity", in_json(i, lambda value: value["gpus"][0].update(sold="new"))),
        ("a key added to the state", in_json("state.json", lambda value: value.update(healthy=True))),
        ("a key added to the account", in_json(a, lambda value: value.update(waived=True))),
        ("the hashes of all records", in_json(a, lambda value: value.pop("records"))),
        ("the host taken from the identity", in_json(i, lambda value: value.pop("host"))),
        ("no GPU in the state before", in_json("state.json", lambda value: value["gpus"].clear())),
        ("no GPU in the state after", in_json("state-after.json", lambda value: value["gpus"].clear())),
    ] + [
        (f"the {word} taken away", drop(name)) for word, name in [
            ("verdict", v), ("identity", i), ("account", a), ("state before", "state.json"),
            ("state after", "state-after.json"), ("profile", "profiles/0.toml"),
        ]
    ]


def sealed(files):
    """Writes a bundle whose manifest fits."""
    out = work / "forged"
    shutil.rmtree(out, ignore_errors=True)
    listed = []
    for name, data in sorted(files.items()):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        listed.append({"path": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)})
    manifest = json.dumps({"files": listed, "format": 1}, separators=(",", ":"), ensure_ascii=False)
    (out / "manifest.json").write_text(manifest)


def verified(key):
    """The exit code, and the first line that is no `ok`; with whose key the bundle is signed."""
    args = []
    if key:
        (work / "forged/manifest.json.sig").unlink(missing_ok=True)
        code, said = say("ssh-keygen", "-Y", "sign", "-q", "-n", "fizeau", "-f", key, "forged/manifest.json")
        assert code == 0, said
        args = ["--allowed-signers", "signers", "--signer", SIGNER]
    code, said = say(fizeau, "verify", "forged", *args)
    lines = [line for line in said.splitlines() if not line.startswith("ok") and "it is not signed" not in line]
    return code, re.sub(r"\s+", " ", lines[0] if lines else "")


def main():
    for key in ["listed", "other"]:
        say("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)
    (work / "signers").write_text(f"{SIGNER} {(work / 'listed.pub').read_text()}")
    files = honest()
    sealed(files)
    whole = [verified(key)[0] for key in [None, "other", "listed"]]
    print("| forged | unsigned | key not listed | listed key | said, signed by the listed key |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| nothing | {whole[0]} | {whole[1]} | {whole[2]} | |")
    wrong = [] if whole == [4, 1, 0] else ["nothing"]
    for name, forge in forgeries(files):
        forged = dict(files)
        forge(forged)
        sealed(forged)
        (plain, _), (other, _), (signed, said) = [verified(key) for key in [None, "other", "listed"]]
        print(f"| {name} | {plain} | {other} | {signed} | {said[:110].replace('|', '/')} |", flush=True)
        if plain not in (1, 4) or other != 1 or signed not in (1, 4) or not said:
            wrong.append(name)
    print(f"\n{len(forgeries(files))} forgeries, {len(wrong)} wrong: {', '.join(wrong) or 'none'}")
    shutil.rmtree(work)
    return 1 if wrong else 0


sys.exit(main())
