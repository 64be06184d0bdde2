"""Ways to hide, frame, heal, poison and impersonate in a fleet, and accidents of honest ones: each is planted
in a simulated fleet of which n0005 is 10 % slow, and surveyed; then it is collected into a store, of which the
survey, the drift and the plan of a retest are looked at. The table has what the surveys say. The exit code is 1
where a PASS stands that should not, an innocent node fails or is to be measured again, the guilty one is not
named, or a command takes minutes. More ways stand in fleet_ways.py.

Arguments: the program, how many nodes (60 where none is given; 18 or more), `bundles` to leave the store out,
`only=WORDS` for the ways whose words have these in them."""

import copy
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

fizeau = pathlib.Path(sys.argv[1]).resolve()
count = int(sys.argv[2]) if len(sys.argv) > 2 else 60
has_store = "bundles" not in sys.argv[3:]
only = next((word[5:] for word in sys.argv[3:] if word.startswith("only=")), "")
MOST = 300  # Seconds that a command may take: what takes longer hangs.
GPUS, METRICS = 8, ["memory read", "gemm bf16"]
SLOW = "n0005"
TIMES = []
SEED = ""


def node(number, loss=0.0, hour=10, day="2026-11-20", name=None):
    """The rows of a node, as a list of columns."""
    name = name or f"n{number:04}"
    noise = random.Random(f"{SEED}{name} {hour} {day}")
    time = f"{day}T{hour:02}:00:00Z"
    rows = []
    for gpu in range(GPUS):
        own = 1 + noise.gauss(0, 0.002)
        for metric in METRICS:
            values = [3e12 * (1 - loss) * own * (1 + noise.gauss(0, 0.003)) for _ in range(7)]
            rows.append({
                "format": 1, "session": f"{name} {time}", "time": time, "node": name,
                "machine": f"machine {name}", "device": f"cuda:{gpu}", "uuid": f"GPU-{name}-{gpu}",
                "part": "h100-sxm", "vbios": "96.00", "driver": "580", "host_type": "box", "fizeau": "1",
                "code": "c0de", "metric": metric, "point": metric.replace(" ", "/"), "unit": "B/s",
                "values": values, "least_effect": 0.02,
            })
    rows.append({
        "format": 1, "session": f"{name} {time}", "time": time, "node": name, "machine": f"machine {name}",
        "device": "node", "metric": "acceptance", "verdict": "pass",
    })
    return rows


def bundle(folder, rows, host, more=None):
    """A closed bundle with these rows; `host`: of its identity; `more`: files by their names, as bytes or text."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    identity = {"machine": {}, "gpus": [], "interfaces": []} | ({"host": host} if host else {})
    files = {"account.json": "{}", "identity.json": json.dumps(identity), "rows.jsonl": lines} | (more or {})
    listed = []
    for name, text in sorted(files.items()):
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name).write_bytes(data)
        listed.append({"path": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)})
    (folder / "manifest.json").write_text(json.dumps({"files": listed, "format": 1}, separators=(",", ":")))


def healthy(name):
    """The bundle of a node as it is before anything is planted."""
    return node(int(name[1:]), 0.1 * (name == SLOW)), name


class Bundles(dict):
    """Bundles by their folders: rows, and the host of the identity; None of one that nothing has touched."""

    def __getitem__(self, folder):
        if super().__getitem__(folder) is None:
            self[folder] = healthy(folder)
        return super().__getitem__(folder)

    def pop(self, folder):
        own = self[folder]
        del self[folder]
        return own


class Fleet:
    """Bundles, and what lies beside them."""

    def __init__(self, base):
        self.base = base
        self.bundles = Bundles({f"n{at:04}": None for at in range(count)})
        self.files, self.folders, self.args = {}, [], []
        self.more = {}  # By bundle: files of it.
        self.then = None  # Changes what was written, given the folder of all bundles.
        self.again = None  # The same, before all is collected a second time.
        self.collect = []  # Arguments of a collection; `store`: those of what reads the store.
        self.store = None
        self.kept = None  # Of the survey of the store: the exit codes that are right, and who has to be named.
        self.is_slow = True

    def rows(self, name):
        return self.bundles[name][0]

    def each(self, name, **columns):
        """Changes columns of all rows of a node."""
        for row in self.rows(name):
            row.update(columns)

    def measured(self, name, **columns):
        for row in self.rows(name):
            if "values" in row:
                row.update(columns)

    def heal(self):
        """A fleet in which no node is slow."""
        self.is_slow = False
        self.bundles[SLOW] = (node(5), SLOW)

    def write(self, place):
        root = place / "bundles"
        root.mkdir()
        for folder, own in self.bundles.items():
            if own is None and folder not in self.more:
                # What nothing has touched is written once for all ways.
                shutil.copytree(self.base / folder, root / folder, copy_function=os.link)
            else:
                bundle(root / folder, *self.bundles[folder], self.more.get(folder))
        for name, text in self.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        for name in self.folders:
            (root / name).mkdir(parents=True)
        if self.then:
            self.then(root)
        (place / "nodes").write_text("".join(f"n{at:04}\n" for at in range(count)))


WAYS = []


def way(kind, words, codes, named=(SLOW,), guilty=(SLOW,)):
    """A way, with the exit codes that are right, who has to be named, and who may fail."""

    def take(plant):
        WAYS.append((kind, words, set(codes), named, set(guilty), plant))
        return plant

    return take


def hides(words, codes=(4,), **more):
    return way("hide", words, codes, **more)


@way("none", "nothing is changed", [1])
def _(fleet): pass


@hides("its driver has another name")
def _(fleet): fleet.each(SLOW, driver="580x")


@hides("its firmware has another name")
def _(fleet): fleet.each(SLOW, vbios="96.01")


@hides("its host type has another name")
def _(fleet): fleet.each(SLOW, host_type="box2")


@hides("its program has another name")
def _(fleet): fleet.each(SLOW, fizeau="2")


@hides("its kernels have another hash")
def _(fleet): fleet.measured(SLOW, code="beef")


@hides("its part has another name")
def _(fleet): fleet.each(SLOW, part="h100-sxm2")


@hides("its metrics have another name")
def _(fleet):
    for row in fleet.rows(SLOW):
        if "values" in row:
            row["metric"] += "!"


@hides("its rates have another unit")
def _(fleet): fleet.measured(SLOW, unit="GB/s")


@hides("its points have another name")
def _(fleet): fleet.measured(SLOW, point="other")


@hides("its rows are marked stub")
def _(fleet): fleet.each(SLOW, mark="stub")


@hides("its rows are marked simulated")
def _(fleet): fleet.each(SLOW, mark="simulated")


@hides("it is dated 2024")
def _(fleet): fleet.each(SLOW, time="2024-11-20T10:00:00Z")


@hides("it is dated 2099")
def _(fleet): fleet.each(SLOW, time="2099-11-20T10:00:00Z")


@hides("its time is of no zone")
def _(fleet): fleet.each(SLOW, time="2026-11-20T10:00:00")


@hides("its rows have no node")
def _(fleet): fleet.each(SLOW, node="")


@hides("its rows have no node, its identity none either", named=("n0005",))
def _(fleet):
    fleet.each(SLOW, node="")
    fleet.bundles[SLOW] = (fleet.rows(SLOW), None)


@hides("its rows have no session")
def _(fleet): fleet.each(SLOW, session="")


@hides("its rates are no numbers")
def _(fleet): fleet.measured(SLOW, values=[None] * 7)


@hides("its rates are negative")
def _(fleet): fleet.measured(SLOW, values=[-1.0] * 7)


@hides("its least effect is 0.5", codes=(1, 4))
def _(fleet): fleet.measured(SLOW, least_effect=0.5)


@hides("its least effect is none")
def _(fleet): fleet.measured(SLOW, least_effect=2.0)


@hides("its repeats scatter", codes=(1, 4))
def _(fleet):
    for row in fleet.rows(SLOW):
        if "values" in row:
            row["values"] = [value * (1 + 0.3 * (at % 2)) for at, value in enumerate(row["values"])]


@hides("it has one repeat", codes=(1, 4))
def _(fleet):
    for row in fleet.rows(SLOW):
        if "values" in row:
            row["values"] = row["values"][:1]


@hides("its rows are of a later format")
def _(fleet): fleet.each(SLOW, format=99)


@hides("its folder is empty")
def _(fleet):
    del fleet.bundles[SLOW]
    fleet.folders.append(SLOW)


@hides("its folder has an identity alone")
def _(fleet):
    del fleet.bundles[SLOW]
    fleet.files[f"{SLOW}/identity.json"] = json.dumps({"host": SLOW})


@hides("it sent nothing, and a list has it")
def _(fleet):
    del fleet.bundles[SLOW]
    fleet.args = ["--expected", "nodes"]


@hides("its slow metric is absent")
def _(fleet):
    rows = [row for row in node(5) if row["metric"] != METRICS[0]]
    fleet.bundles[SLOW] = (rows, SLOW)


@hides("its slow GPU is absent")
def _(fleet):
    rows = [row for row in node(5) if row["device"] != "cuda:3"]
    fleet.bundles[SLOW] = (rows, SLOW)


@hides("its manifest has no rows")
def _(fleet):
    rows, host = fleet.bundles.pop(SLOW)
    fleet.files[f"{SLOW}/identity.json"] = json.dumps({"host": host})
    fleet.files[f"{SLOW}/manifest.json"] = json.dumps({"files": [], "format": 1}, separators=(",", ":"))


@hides("its acceptance did not end", codes=(1,))
def _(fleet): fleet.each(SLOW, incomplete=True)


@hides("its rates are those of others, and the verdict of its acceptance is left out")
def _(fleet):
    fleet.heal()
    fleet.rows(SLOW).pop()


@hides("its rates are those of others, and the verdict of its acceptance is no word that there is")
def _(fleet):
    fleet.heal()
    fleet.rows(SLOW)[-1]["verdict"] = "accepted"


@hides("its acceptance failed, and the check that it failed by is left out")
def _(fleet):
    fleet.heal()
    fleet.rows(SLOW)[-1]["verdict"] = "fail"


def with_rows(fleet, rows, folder="n0006"):
    own, host = fleet.bundles[folder]
    fleet.bundles[folder] = (own + rows, host)


@way("heal", "n0006 has healthy rows of n0005", [1])
def _(fleet): with_rows(fleet, node(5, hour=12))


@way("heal", "a bundle under the name n0005, later", [4])
def _(fleet): fleet.bundles["evil"] = (node(5, hour=12), SLOW)


@way("heal", "the same with another machine, a day later", [4])
def _(fleet):
    fleet.bundles["evil"] = (node(5, day="2026-11-22"), SLOW)
    fleet.each("evil", machine="other")


@way("heal", "the same with other boards", [4])
def _(fleet):
    fleet.bundles["evil"] = (node(5, hour=12), SLOW)
    for row in fleet.rows("evil"):
        row["uuid"] = row.get("uuid", "") + "x"


@way("heal", "a store among the bundles", [1])
def _(fleet): fleet.files["all.jsonl"] = "".join(json.dumps(row) + "\n" for row in node(5, hour=12))


@way("heal", "a store of partitions among the bundles", [1])
def _(fleet):
    fleet.files["date=2026-11-20/a.jsonl"] = "".join(json.dumps(row) + "\n" for row in node(5, hour=12))


@way("heal", "another node says that it has the boards of n0005", [4])
def _(fleet):
    rows = node(0, hour=12, name="thief")
    for row in rows:
        if "uuid" in row:
            row["uuid"] = row["uuid"].replace("thief", SLOW)
    fleet.bundles["thief"] = (rows, "thief")


@way("frame", "n0006 has slow rows of n0007", [1])
def _(fleet): with_rows(fleet, node(7, 0.2, hour=12))


@way("frame", "a bundle under the name n0007, later and slow", [1], named=("n0007",))
def _(fleet): fleet.bundles["evil"] = (node(7, 0.2, hour=12), "n0007")


@way("frame", "the same, earlier", [1], named=("n0005",))
def _(fleet): fleet.bundles["evil"] = (node(7, 0.2, hour=8), "n0007")


@way("frame", "a bundle under the name n0007 says that its acceptance failed", [1], named=("n0007",))
def _(fleet):
    fleet.bundles["evil"] = (node(7, hour=12), "n0007")
    fleet.rows("evil")[-1].update(verdict="fail")
    fleet.rows("evil").append(fleet.rows("evil")[-1] | {
        "device": "cuda:0", "uuid": "GPU-n0007-0", "metric": "memory errors", "verdict": "fail", "words": "many"})


@way("poison", "one bundle has rows of 30 nodes", [1], named=("n0006",))
def _(fleet): with_rows(fleet, sum((node(at, -0.1, 12) for at in range(20, 50)), []))


@way("poison", "one node has 1,024 devices that are 10 % faster", [4, 1], named=("n0006",), guilty=(SLOW,))
def _(fleet):
    one = node(6, -0.1)
    rows = [row | {"device": f"cuda:{at}", "uuid": f"U{at}"} for at in range(1024) for row in one[:2]]
    fleet.bundles["n0006"] = (rows, "n0006")


@way("poison", "one node has 100 devices that are 10 % faster", [1])
def _(fleet):
    one = node(6, -0.1)
    rows = [row | {"device": f"cuda:{at}", "uuid": f"U{at}"} for at in range(100) for row in one[:2]]
    fleet.bundles["n0006"] = (rows, "n0006")


@way("poison", "one node has a floor that nobody reaches", [1])
def _(fleet): fleet.measured("n0006", floor=9e12)


@way("impersonate", "a store among bundles has 30 nodes that are 10 % faster", [1])
def _(fleet):
    rows = sum((node(at, -0.1, name=f"ghost{at}") for at in range(30)), [])
    fleet.files["more.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)


@way("impersonate", "a bundle's identity is n0007, its rows are of n0008", [1], named=("n0007", "n0008"))
def _(fleet): fleet.bundles["evil"] = (node(8, 0.2, hour=12), "n0007")


@way("poison", "bundles under the names of two thirds of the nodes are 10 % faster and later", [1])
def _(fleet):
    for at in range(count // 3, count):
        fleet.bundles[f"evil{at}"] = (node(at, -0.1, hour=12), f"n{at:04}")


@way("poison", "the same, of all nodes but two", [4], named=())
def _(fleet):
    for at in range(2, count):
        fleet.bundles[f"evil{at}"] = (node(at, -0.1, hour=12), f"n{at:04}")


@way("poison", "the same of two thirds, earlier", [1])
def _(fleet):
    for at in range(count // 3, count):
        fleet.bundles[f"evil{at}"] = (node(at, -0.1, hour=8), f"n{at:04}")


@way("frame", "bundles under the names of a third of the nodes are 10 % slower", [1])
def _(fleet):
    for at in range(2 * count // 3, count):
        fleet.bundles[f"evil{at}"] = (node(at, 0.1, hour=12), f"n{at:04}")


def twin(fleet, name):
    """A healthy node of another name, later."""
    fleet.bundles[f"twin {len(fleet.bundles)}"] = (node(5, name=name, hour=12), name)


@way("heal", "a healthy node has a name that looks like n0005 (a Cyrillic letter)", [1])
def _(fleet): twin(fleet, "n\u043e005")


@way("heal", "the same with a character that cannot be seen", [1])
def _(fleet): twin(fleet, "n0005\u200b")


@way("heal", "the same in capitals", [1])
def _(fleet): twin(fleet, "N0005")


for told, name in [("marks that turn the direction of text", "n0005\u202e"), ("an escape sequence", "n0005\u001b[2J"),
                   ("a space at its end", "n0005 "), ("100,000 letters", "n0005" * 20_000)]:
    way("heal", f"a healthy node has a name with {told}", [1])(lambda fleet, name=name: twin(fleet, name))


@way("frame", "a slow node has a name that looks like n0007 (a Cyrillic letter)", [1],
     named=(SLOW, "u{43e}007"), guilty=(SLOW, "n\u043e007"))
def _(fleet): fleet.bundles["twin"] = (node(7, 0.2, name="n\u043e007", hour=12), "n\u043e007")


def again(fleet, folder, **columns):
    """A healthy bundle of n0005 and of its own session."""
    fleet.bundles[folder] = (node(5), SLOW)
    fleet.each(folder, **columns)


@way("heal", "a bundle under the name n0005 and of its session, found before it", [4])
def _(fleet): again(fleet, "a-evil")


@way("heal", "the same, found after it", [4])
def _(fleet): again(fleet, "z-evil")


@way("heal", "the same, and its rows say that they are signed", [4])
def _(fleet): again(fleet, "a-evil", sender="signed", key="SHA256:x")


@way("hide", "its manifest is of a later format", [1, 4])
def _(fleet):
    def change(root):
        path = root / SLOW / "manifest.json"
        text = path.read_text()
        path.unlink()  # It is a link to the file of all ways.
        path.write_text(text.replace('"format":1', '"format":2'))
    fleet.then = change


for told, line in [("", "n0005"), (" in capitals", "N0005"), (" with a dot at its end", "n0005."),
                   (" with a character that cannot be seen", "n0005\u200b")]:
    def list_twice(fleet, line=line):
        names = "".join(f"n{at:04}\n" for at in range(count))
        fleet.files["../list"] = f"{names}{line}\n"
        fleet.args = ["--expected", "list"]
    way("hide", f"the list has n0005 twice{told}", [2])(list_twice)


@way("impersonate", "n0005 is silent, n0005.a and n0005.b are healthy, and a list has n0005", [4])
def _(fleet):
    fleet.bundles.pop(SLOW)
    twin(fleet, "n0005.a")
    twin(fleet, "n0005.b")
    fleet.args = ["--expected", "nodes"]


@way("frame", "n0006 repeats the session of n0007", [1])
def _(fleet): fleet.each("n0006", session=fleet.rows("n0007")[0]["session"])


@way("hide", "n0005 repeats the session of n0007", [1])
def _(fleet): fleet.each(SLOW, session=fleet.rows("n0007")[0]["session"])


def boards_of(fleet, name, other):
    """Boards of a node get the numbers of those of another."""
    for row in fleet.rows(name):
        if "uuid" in row:
            row["uuid"] = row["uuid"].replace(name, other)


@way("hide", "n0005 says that it is the machine of n0007, with its boards", [1, 4])
def _(fleet):
    fleet.each(SLOW, machine="machine n0007")
    boards_of(fleet, SLOW, "n0007")


@way("frame", "n0006 has the boards of n0007, later and slow", [1, 4], named=("n0007",), guilty=(SLOW, "n0006"))
def _(fleet):
    fleet.bundles["n0006"] = (node(6, 0.2, hour=14), "n0006")
    boards_of(fleet, "n0006", "n0007")


def instead(name, make):
    """Something else in the place of a file of n0005."""
    def plant(root):
        path = root / SLOW / name
        path.unlink()
        make(path)
    return plant


def hole(size):
    def make(path):
        path.touch()
        os.truncate(path, size)
    return make


for told, codes, plant in [
    ("the rows of n0005 are a FIFO", [4], instead("rows.jsonl", os.mkfifo)),
    ("the manifest of n0005 is a FIFO", [4], instead("manifest.json", os.mkfifo)),
    ("the identity of n0005 is a FIFO", [1, 4], instead("identity.json", os.mkfifo)),
    ("the rows of n0005 lead to those of n0007", [4],
     instead("rows.jsonl", lambda path: path.symlink_to("../n0007/rows.jsonl"))),
    ("the rows of n0005 are those of n0007, by a hard link", [4],
     instead("rows.jsonl", lambda path: os.link(path.parents[1] / "n0007/rows.jsonl", path))),
    ("the rows of n0005 lead to /dev/zero", [4], instead("rows.jsonl", lambda path: path.symlink_to("/dev/zero"))),
    ("the rows of n0005 are a hole of 1 TiB", [4], instead("rows.jsonl", hole(1 << 40))),
    ("the manifest of n0005 is a hole of 200 MiB", [4], instead("manifest.json", hole(200 << 20))),
    ("the folder of n0005 leads to that of n0007", [0],
     lambda root: (shutil.rmtree(root / SLOW), (root / SLOW).symlink_to("n0007"))),
    ("the folder of n0005 leads to itself", [4],
     lambda root: (shutil.rmtree(root / SLOW), (root / SLOW).symlink_to(SLOW))),
    ("a file has the name of n0005's folder", [0],
     lambda root: (shutil.rmtree(root / SLOW), (root / SLOW).write_text("x"))),
]:
    def spoil(fleet, plant=plant):
        fleet.then = plant
    way("hide", told, codes)(spoil)


@way("accident", "all is well", [0], named=())
def _(fleet): fleet.heal()


@way("accident", "half of the nodes have another driver", [0], named=())
def _(fleet):
    fleet.heal()
    for at in range(count // 2):
        fleet.each(f"n{at:04}", driver="570")


@way("accident", "a node was installed again under another name", [0, 4], named=())
def _(fleet):
    fleet.heal()
    rows = node(9, day="2026-11-22", name="renamed")
    for row in rows:
        row["machine"] = "machine n0009"
        if "uuid" in row:
            row["uuid"] = row["uuid"].replace("renamed", "n0009")
    fleet.bundles["renamed"] = (rows, "renamed")


@way("accident", "two nodes exchanged a board, and both were measured again", [0], named=())
def _(fleet):
    fleet.heal()
    for a, b in (("n0008", "n0009"), ("n0009", "n0008")):
        rows = node(int(a[1:]), day="2026-11-22")
        for row in rows:
            if row.get("uuid") == f"GPU-{a}-3":
                row["uuid"] = f"GPU-{b}-3"
        fleet.bundles[f"{a}-again"] = (rows, a)


@way("accident", "a clock is wrong by an hour", [0], named=())
def _(fleet):
    fleet.heal()
    fleet.bundles["n0009"] = (node(9, hour=9), "n0009")


@way("accident", "every node was measured twice", [0], named=())
def _(fleet):
    fleet.heal()
    for at in range(count):
        name = f"n{at:04}"
        loss = 0.1 * (fleet.is_slow and name == SLOW)
        fleet.bundles[f"{name}-again"] = (node(at, loss, hour=14), name)


@way("accident", "one bundle is there twice", [0], named=())
def _(fleet):
    fleet.heal()
    fleet.bundles["copy"] = copy.deepcopy(fleet.bundles["n0009"])


def fleet_of(place, *words):
    command = [fizeau, "fleet", *words]
    try:
        return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=MOST)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, "none: it hangs", "", "")


def judged(done, codes, named, guilty, before=""):
    """What a survey says, and what is wrong with it. `before`: what else was said on the way to it."""
    wrong = []
    if done.returncode not in codes:
        wrong.append(f"exit code {done.returncode}")
    report = json.loads(done.stdout) if done.stdout else {}
    failed = {one["node"] for one in report.get("by_node", []) if one["verdict"] == "fail"}
    if failed - guilty:
        wrong.append(f"fails {', '.join(sorted(failed - guilty)[:3])}")
    open_ = json.dumps([report.get(key) for key in ("flagged", "unusable", "notes", "presence", "components")])
    open_ += before + (done.stderr if done.returncode == 2 else "")
    wrong += [f"{name} is not named" for name in named if name not in open_]
    told = {0: "PASS", 1: "FAIL", 4: "inconclusive"}.get(done.returncode, done.stderr.strip()[:60])
    counts = report.get("devices", {})
    says = f"{told}: {report.get('fleet', '')}, {counts.get('fail')} fail, {counts.get('inconclusive')} open"
    return says, wrong


def stored(place, fleet, codes, named, guilty):
    """The same of a store into which the bundles were collected."""
    args = fleet.args if fleet.store is None else fleet.store
    codes, named = fleet.kept or (codes, named)
    collected = fleet_of(place, "collect", "bundles", "--store", "store", *fleet.collect)
    codes_of = [collected.returncode]
    if fleet.again:
        fleet.again(place / "bundles")
        codes_of.append(fleet_of(place, "collect", "bundles", "--store", "store", *fleet.collect).returncode)
    done = fleet_of(place, "survey", "store", "--json", *args)
    # A pass names nobody: the collection has done so.
    says, wrong = judged(done, codes, named, guilty, collected.stderr if done.returncode == 0 else "")
    wrong += [f"collect: exit code {code}" for code in codes_of if code not in (0, 4)]
    if done.returncode != 2:
        drift = fleet_of(place, "drift", "store", *args).returncode
        wrong += [f"drift: exit code {drift}"] if drift not in (0, 1, 4) else []
        fleet_of(place, "retest", "store", "--out", "retest", *args)
        plan = place / "retest/plan.json"
        pairs = json.loads(plan.read_text())["pairs"] if plan.exists() else []
        again = {pair["failed"]["node"] for pair in pairs} - guilty
        wrong += [f"measures {name} again" for name in sorted(again)[:3]]
    some = "not all; " if collected.returncode == 4 else ""
    return some + says, [f"store: {words}" for words in wrong]


def run(base, codes, named, guilty, plant):
    """What a survey of the bundles says, what one of the store says, and what is wrong."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="fleet-attacks-"))
    try:
        fleet = Fleet(base)
        plant(fleet)
        fleet.write(place)
        began = time.monotonic()
        done = fleet_of(place, "survey", "bundles", "--json", *fleet.args)
        TIMES.append(time.monotonic() - began)
        says, wrong = judged(done, codes, named, guilty)
        kept, more = stored(place, fleet, codes, named, guilty) if has_store else ("", [])
        return says, kept, wrong + more
    finally:
        shutil.rmtree(place)


def prepare(base):
    """What fleet_ways.py makes of the bundles that nothing has touched."""


def main():
    base = pathlib.Path(tempfile.mkdtemp(prefix="fleet-attacks-"))
    ways = [one for one in WAYS if only in one[1]]
    faults = 0
    try:
        for at in range(count):
            bundle(base / f"n{at:04}", *healthy(f"n{at:04}"))
        prepare(base)
        print("| kind | what is planted | the survey says | of the store | right |")
        print("| --- | --- | --- | --- | --- |")
        for kind, words, codes, named, guilty, plant in ways:
            says, kept, wrong = run(base, codes, named, guilty, plant)
            faults += bool(wrong)
            print(f"| {kind} | {words} | {says} | {kept} | {'; '.join(wrong) or 'yes'} |", flush=True)
    finally:
        shutil.rmtree(base)
    planted = sum(kind not in ("none", "accident") for kind, *_ in ways)
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"\n{planted} ways and {len(ways) - planted} others, {count} nodes of {GPUS} GPUs: {faults} wrong; "
          f"a survey took {statistics.median(TIMES or [0]):.1f} s (the longest {max(TIMES, default=0):.1f} s) and {most} MiB at most")
    return int(faults > 0)


if __name__ == "__main__":
    # It adds its ways to those of this module as others import it.
    import fleet_ways

    sys.exit(fleet_ways.fleet_attacks.main())
