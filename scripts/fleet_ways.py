"""More ways of fleet_attacks.py: units and numbers, letters of files, manifests and identities, archives and folders
within each other, words of the day, signatures, and what a store remembers of what was collected before."""

import gzip
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

import fleet_attacks
from fleet_attacks import SLOW, bundle, count, hides, hole, instead, node, twin, way


def text_of(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def changed(fleet, change, name=SLOW):
    """Changes the text of a node's rows; the manifest has the changed one."""
    text = text_of(fleet.rows(name))
    after = change(text)
    assert after != text
    fleet.more[name] = {"rows.jsonl": after}


def scaled(fleet, by, name=SLOW):
    for row in fleet.rows(name):
        if "values" in row:
            row["values"] = [by * value for value in row["values"]]


def in_values(first):
    """Something else in the place of the first rate of each row."""
    def change(text):
        lines = [json.loads(line) for line in text.splitlines()]
        return "".join(json.dumps(line).replace(str(line["values"][0]), first, 1) + "\n" if "values" in line
                       else json.dumps(line) + "\n" for line in lines)
    return change


# Units and numbers.


@hides("its rates are 1,000 times as high, as in another unit")
def _(fleet): scaled(fleet, 1000)


@hides("its rates are a thousandth, as in another unit", codes=(1,))
def _(fleet): scaled(fleet, 0.001)


@way("poison", "n0006's rates are 1,000 times as high", [1])
def _(fleet): scaled(fleet, 1000, "n0006")


@way("poison", "a sixth of the nodes have rates that are twice as high", [1])
def _(fleet):
    for at in range(6, 6 + count // 6):
        scaled(fleet, 2, f"n{at:04}")


for told, first in [("NaN", "NaN"), ("Infinity", "Infinity"), ("1e999", "1e999"), ("null", "null"),
                    ("a text", '"3e12"'), ("an empty list", "[]")]:
    way("hide", f"a rate of each row is {told}", [1, 4])(
        lambda fleet, first=first: changed(fleet, in_values(first)))


@hides("its rows have the key of their rates twice, the second time healthy")
def _(fleet):
    rates = json.dumps(node(5)[0]["values"])
    changed(fleet, lambda text: text.replace('"least_effect"', f'"values": {rates}, "least_effect"'))


@hides("its rows have the key of their node twice")
def _(fleet): changed(fleet, lambda text: text.replace('"device"', '"node": "n0007", "device"'))


@hides("-1 of its repeats were disturbed")
def _(fleet): fleet.measured(SLOW, disturbed=-1)


@hides("4,294,967,295 of its repeats were disturbed", codes=(1,))
def _(fleet): fleet.measured(SLOW, disturbed=4294967295)


def devices(fleet, name_of):
    for row in fleet.rows(SLOW):
        if "values" in row:
            row["device"] = name_of(int(row["device"][5:]))


for told, name_of in [
    ("negative numbers", lambda at: f"cuda:-{at + 1}"), ("numbers above 2^32", lambda at: f"cuda:{(1 << 32) + at}"),
    ("one name", lambda at: "cuda:0"), ("names in capitals", lambda at: f"CUDA:{at}"),
    ("a space before their numbers", lambda at: f"cuda: {at}"), ("the name of the node", lambda at: "node"),
    ("another maker's names", lambda at: f"hip:{at}"),
]:
    way("hide", f"its devices have {told}", [1, 4])(
        lambda fleet, name_of=name_of: devices(fleet, name_of))


@way("hide", "its boards share one number", [1, 4])
def _(fleet): fleet.measured(SLOW, uuid="GPU-1")


@way("hide", "its boards have no numbers", [1])
def _(fleet): fleet.measured(SLOW, uuid="")


@way("hide", "its boards have no UUID and the serial numbers of another node's", [1, 4])
def _(fleet):
    for name in ("n0007", SLOW):
        for row in fleet.rows(name):
            if "uuid" in row:
                row["serial"] = row["uuid"].replace(SLOW, "n0007")
        fleet.measured(SLOW, uuid="")


for told, time in [
    ("in another zone", "2026-11-20T10:00:00+00:00"), ("14 hours before UTC", "2026-11-20T10:00:00-14:00"),
    ("on the 31st of November", "2026-11-31T10:00:00Z"), ("at 24:00", "2026-11-20T24:00:00Z"),
    ("in small letters", "2026-11-20t10:00:00z"), ("of the year 20260", "20260-11-20T10:00:00Z"),
    ("absent", ""), ("in seconds since 1970", "1795168800"),
]:
    hides(f"its time is {told}")(lambda fleet, time=time: fleet.each(SLOW, time=time))


@way("hide", "each row has an hour of its own", [1, 4])
def _(fleet):
    for at, row in enumerate(fleet.rows(SLOW)):
        row["time"] = f"2026-11-20T{at:02}:00:00Z"


@hides("its part has a space at its end")
def _(fleet): fleet.each(SLOW, part="h100-sxm ")


@hides("its part has a character that cannot be seen")
def _(fleet): fleet.each(SLOW, part="h100\u200b-sxm")


@hides("its metric has a character that cannot be seen")
def _(fleet):
    for row in fleet.rows(SLOW):
        if "values" in row:
            row["metric"] += "\u200b"


@way("hide", "each of its rows has a million rates", [1, 4])
def _(fleet):
    for row in fleet.rows(SLOW)[:4]:
        row["values"] = row["values"][:1] * 1_000_000


@way("poison", "n0006 has each row 500 times", [1])
def _(fleet): fleet.bundles["n0006"] = (fleet.rows("n0006") * 500, "n0006")


@way("poison", "n0006 has 10,000 repeats that scatter by 30 %", [1])
def _(fleet):
    for row in fleet.rows("n0006"):
        if "values" in row:
            row["values"] = [3e12 * (1 + 0.3 * (at % 2)) for at in range(10_000)]


@way("poison", "n0006 has 10,000 repeats that are all the same", [1])
def _(fleet): fleet.measured("n0006", values=[3e12] * 10_000)


@way("poison", "n0006 has a million metrics", [1, 4])
def _(fleet):
    first = {key: value for key, value in fleet.rows("n0006")[0].items() if key != "values"}
    more = [first | {"metric": f"m{at}", "values": [1.0]} for at in range(25_000)]
    fleet.bundles["n0006"] = (fleet.rows("n0006") + more, "n0006")


# Letters of files.

for told, codes, change in [
    ("begin with a byte order mark", [1, 4], lambda text: "\ufeff" + text),
    ("end their lines by CR LF", [1], lambda text: text.replace("\n", "\r\n")),
    ("do not end their last line", [4], lambda text: text[:-1]),
    ("are UTF-16", [4], lambda text: text.encode("utf-16")),
    ("are empty", [4], lambda text: ""),
    ("are one empty line", [4], lambda text: "\n"),
    ("are one list", [4], lambda text: "[" + ",".join(text.splitlines()) + "]\n"),
    ("have a byte that is no UTF-8", [4], lambda text: text.encode().replace(b"box", b"b\xff", 1)),
    ("have an empty line between", [1, 4], lambda text: text.replace("\n", "\n\n", 1)),
    ("are 200,000 lists in each other", [4], lambda text: "[" * 200_000 + "\n"),
    ("have a line of 100 MB", [1, 4], lambda text: text.replace("acceptance", "x" * 100_000_000, 1)),
]:
    way("hide", f"its rows {told}", codes)(lambda fleet, change=change: changed(fleet, change))


# Manifests and identities.


def in_manifest(change):
    """What changes the manifest of n0005, given its text and its list of files."""
    def then(root):
        path = root / SLOW / "manifest.json"
        text = path.read_text()
        path.unlink()
        after = change(text, json.loads(text)["files"])
        if not isinstance(after, str):
            after = json.dumps({"files": after, "format": 1}, separators=(",", ":"))
        path.write_text(after)
    return then


def later(then):
    """A plant that changes what was written."""
    def plant(fleet):
        fleet.then = then
    return plant


def renamed(name):
    return lambda text, files: [one | {"path": name} if one["path"] == "rows.jsonl" else one for one in files]


for told, codes, change in [
    ("has bytes behind its end", [4], lambda text, files: text + "\n{}"),
    ("is there twice, one behind the other", [4], lambda text, files: text + text),
    ("has its list of files twice", [4], lambda text, files: text.replace('"files"', '"files":[],"files"')),
    ("has its rows twice, first with another hash", [1, 4],
     lambda text, files: [one | {"sha256": "0" * 64} for one in files[2:]] + files),
    ("names its rows by another path", [4], renamed("./rows.jsonl")),
    ("names the rows of n0007", [4], renamed("../n0007/rows.jsonl")),
    ("names its rows in capitals", [4], renamed("ROWS.JSONL")),
    ("has hashes in capitals", [1, 4],
     lambda text, files: [one | {"sha256": one["sha256"].upper()} for one in files]),
    ("has a size of -1", [4], lambda text, files: [one | {"size": -1} for one in files]),
    ("has a wrong size", [1, 4], lambda text, files: [one | {"size": one["size"] + 1} for one in files]),
    ("does not have its identity", [1, 4],
     lambda text, files: [one for one in files if one["path"] != "identity.json"]),
    ("is an empty list", [4], lambda text, files: "[]"),
]:
    way("hide", f"its manifest {told}", codes)(later(in_manifest(change)))

for told, codes, text in [
    ("has two hosts", [1, 4], '{"machine":{},"gpus":[],"interfaces":[],"host":"n0007","host":"n0005"}'),
    ("has its host in capitals", [4], '{"machine":{},"gpus":[],"interfaces":[],"host":"N0005"}'),
    ("has a dot behind its host", [4], '{"machine":{},"gpus":[],"interfaces":[],"host":"n0005."}'),
    ("has a list for a host", [1, 4], '{"machine":{},"gpus":[],"interfaces":[],"host":["n0005"]}'),
    ("is 200,000 lists in each other", [1, 4], "[" * 200_000),
    ("is empty", [1, 4], ""),
]:
    way("hide", f"its identity {told}", codes)(
        lambda fleet, text=text: fleet.more.update({SLOW: {"identity.json": text}}))

for name, codes in [("rows.jsonl", [4]), ("manifest.json", [4]), ("identity.json", [1, 4])]:
    way("hide", f"its {name} is a folder", codes)(later(instead(name, lambda path: path.mkdir())))


# More bundles of one node, and folders in each other.


@way("heal", "a bundle under the name n0005 and of its session, with more repeats", [4])
def _(fleet):
    fleet.bundles["evil"] = (node(5), SLOW)
    for row in fleet.rows("evil"):
        if "values" in row:
            row["values"] *= 3


@way("heal", "a bundle under the name n0005 without numbers of boards and machine, a day later", [4])
def _(fleet):
    fleet.bundles["evil"] = (node(5, day="2026-11-22"), SLOW)
    for row in fleet.rows("evil"):
        row.pop("uuid", None)
        row.pop("machine")


@way("heal", "a bundle under the name n0005 with other devices", [1])
def _(fleet):
    fleet.bundles["evil"] = (node(5, hour=12), SLOW)
    for row in fleet.rows("evil"):
        if "values" in row:
            row["device"] = f"cuda:{int(row['device'][5:]) + 8}"
            row["uuid"] += "x"


@way("heal", "a bundle under the name n0005, marked as a stub's", [1])
def _(fleet):
    fleet.bundles["evil"] = (node(5, hour=12), SLOW)
    fleet.each("evil", mark="stub")


@way("heal", "five bundles under the name n0005", [4])
def _(fleet):
    for at in range(5):
        fleet.bundles[f"evil{at}"] = (node(5, hour=11 + at), SLOW)


@way("heal", "a node of another name says that it has the boards of n0005, half an hour before", [1, 4])
def _(fleet):
    rows = node(0, hour=9, name="thief")
    for row in rows:
        if "uuid" in row:
            row["uuid"] = row["uuid"].replace("thief", SLOW)
    fleet.bundles["thief"] = (rows, "thief")


@way("frame", "a slow node of another name says that it has the boards of n0007, at the same moment", [1],
     guilty=(SLOW, "thief"))
def _(fleet):
    rows = node(0, 0.2, name="thief")
    for row in rows:
        if "uuid" in row:
            row["uuid"] = row["uuid"].replace("thief", "n0007")
    fleet.bundles["thief"] = (rows, "thief")


def in_rack(fleet, plant):
    """Half of the nodes in a folder of their own, in which something is left."""
    def then(root):
        (root / "rack").mkdir()
        for at in range(count // 2):
            (root / f"n{at:04}").rename(root / "rack" / f"n{at:04}")
        plant(root)
    fleet.then = then


def copied(root):
    for file in (root / f"n{count - 1:04}").iterdir():
        shutil.copy(file, root / "rack" / file.name)


@way("hide", "the folder of its rack has a file of a bundle", [1])
def _(fleet): in_rack(fleet, lambda root: (root / "rack/verdict.json").write_text("{}"))


@way("hide", "the folder of its rack is a whole bundle", [1])
def _(fleet): in_rack(fleet, copied)


@way("hide", "the folder of its rack is a whole bundle, in which nodes are archives", [1])
def _(fleet):
    def plant(root):
        copied(root)
        packed(root / "rack" / SLOW)
    in_rack(fleet, plant)


def emptied(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def with_rows_alone(folder):
    for name in ["manifest.json", "identity.json", "account.json"]:
        (folder / name).unlink()


for told, codes, change in [
    ("n0005 is empty", [4], emptied),
    ("n0005 has its rows alone", [4], with_rows_alone),
    ("n0005 is a .zip", [4], lambda folder: zipped(folder)),
    ("n0005 is a file of rows", [4],
     lambda folder: ((folder / "rows.jsonl").rename(folder.with_name("n0005.jsonl")), shutil.rmtree(folder))),
    ("n0005 is a link that leads nowhere", [4],
     lambda folder: (shutil.rmtree(folder), folder.symlink_to("nowhere"))),
    ("the folder of n0005 is called profiles", [1], lambda folder: folder.rename(folder.with_name("profiles"))),
]:
    @way("hide", f"the folder of its rack is a whole bundle, and {told}", codes,
         named=("n0005" if codes == [1] else "rack/n0005",))
    def _(fleet, change=change):
        in_rack(fleet, lambda root: (copied(root), change(root / "rack" / SLOW)))


@way("hide", "its folder lies in that of n0006", [1])
def _(fleet): fleet.then = lambda root: (root / SLOW).rename(root / "n0006/more")


@way("hide", "its folder lies in the rounds of n0006, and a list has it", [1, 4])
def _(fleet):
    def then(root):
        (root / "n0006/rounds").mkdir()
        (root / SLOW).rename(root / "n0006/rounds/more")
    fleet.then, fleet.args = then, ["--expected", "nodes"]


@way("hide", "its folder is hidden by a dot, and a list has it", [4])
def _(fleet):
    fleet.then = lambda root: (root / SLOW).rename(root / f".{SLOW}")
    fleet.args = ["--expected", "nodes"]


@way("hide", "a list has it in capitals alone", [4])
def _(fleet):
    names = "".join(f"n{at:04}\n" for at in range(count)).replace(SLOW, SLOW.upper())
    fleet.files["../list"] = names
    fleet.args = ["--expected", "list"]


@way("hide", "its folder leads out of the bundles", [4])
def _(fleet):
    def then(root):
        shutil.move(root / SLOW, root.parent / "elsewhere")
        (root / SLOW).symlink_to("../elsewhere")
    fleet.then = then


@way("hide", "20,000 folders are empty", [1])
def _(fleet): fleet.folders += [f"empty/{at}" for at in range(20_000)]


@way("hide", "a folder has a name that would be a line of its own", [1])
def _(fleet): fleet.folders += ["x\nPASS  60 nodes, 480 GPUs\u001b[2J"]


# Archives.


def packed(folder, ending=".tgz"):
    """Replaces a folder by an archive of it."""
    place = folder.with_name(folder.name + ending)
    with tarfile.open(place, "w:gz" if ending.endswith("gz") else "w") as archive:
        archive.add(folder, arcname=folder.name)
    shutil.rmtree(folder)
    return place


def zipped(folder):
    place = shutil.make_archive(folder, "zip", folder)
    shutil.rmtree(folder)
    return pathlib.Path(place)


def nested(root):
    place = packed(root / SLOW)
    for at in range(3):
        (root / f"deep{at}").mkdir()
        place.rename(root / f"deep{at}" / place.name)
        place = packed(root / f"deep{at}", ".tar")


def rows_in_archive(kind, target):
    """n0005 as an archive in which its rows are a link."""
    def plant(root):
        (root / SLOW / "rows.jsonl").unlink()
        place = packed(root / SLOW, ".tar")
        with tarfile.open(place, "a") as archive:
            info = tarfile.TarInfo(f"{SLOW}/rows.jsonl")
            info.type, info.linkname = kind, target
            archive.addfile(info)
    return plant


def appended(root):
    """n0005 as an archive to which a healthy one was appended."""
    place = packed(root / SLOW, ".tar")
    bundle(root.parent / "twin", node(5), SLOW)
    with tarfile.open(place, "a") as archive:
        archive.add(root.parent / "twin", arcname=SLOW)


def bomb(root):
    """Archives in an archive, each of which unpacks to 900 MB of nothing."""
    inner = io.BytesIO()
    with gzip.open(inner, "wb") as packed_zeros:
        info = tarfile.TarInfo("zeros.bin")
        info.size = 900 << 20
        packed_zeros.write(info.tobuf())
        for _ in range(900):
            packed_zeros.write(bytes(1 << 20))
    with tarfile.open(root / "bomb.tgz", "w:gz") as archive:
        for at in range(100):
            info = tarfile.TarInfo(f"{at}.tgz")
            info.size = inner.getbuffer().nbytes
            inner.seek(0)
            archive.addfile(info, inner)


def behind(ending):
    """n0005 behind the end of an archive of n0006."""
    def plant(root):
        first, second = (packed(root / name, ending) for name in ("n0006", SLOW))
        first.write_bytes(first.read_bytes() + second.read_bytes())
        second.unlink()
    return plant


def led(root):
    """All nodes in an archive, in which n0005 is a link out of it."""
    (root / SLOW).rename(root.parent / "elsewhere")
    (root / SLOW).symlink_to("../../elsewhere")
    with tarfile.open(root / "all.tar", "w") as archive:
        for folder in sorted(root.glob("n*")):
            archive.add(folder, arcname=folder.name)
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)


def ends(ending, name):
    return lambda root: packed(root / SLOW, ending).rename(root / name)


def linked(root):
    place = packed(root / "n0007")
    shutil.rmtree(root / SLOW)
    os.link(place, root / f"{SLOW}.tgz")


for told, codes, plant in [
    ("n0005 is an archive", [1], lambda root: packed(root / SLOW)),
    ("n0005 is an archive in three others", [1], nested),
    ("n0005 is an archive that is cut short", [4],
     lambda root: os.truncate(packed(root / SLOW, ".tar"), 2000)),
    ("n0005 is an archive to which a healthy one was appended", [4], appended),
    ("n0005 is an archive in which its rows lead elsewhere", [4],
     rows_in_archive(tarfile.SYMTYPE, "../../n0007/rows.jsonl")),
    ("n0005 is an archive in which its rows are another file", [4],
     rows_in_archive(tarfile.LNKTYPE, "n0005/account.json")),
    ("n0005 is an archive that is a FIFO", [4],
     lambda root: (shutil.rmtree(root / SLOW), os.mkfifo(root / f"{SLOW}.tgz"))),
    ("n0005 is an archive that is a hole of 1 TiB", [4],
     lambda root: (shutil.rmtree(root / SLOW), hole(1 << 40)(root / f"{SLOW}.tar"))),
    ("n0005 is an archive of another kind", [4], lambda root: zipped(root / SLOW)),
    ("n0005 is an archive of another kind, whose name has no ending", [4],
     lambda root: zipped(root / SLOW).rename(root / SLOW)),
    ("n0005 is an archive that is called one of another kind", [1], ends(".tar", "n0005.zip")),
    ("n0005 is an archive that ends in capitals", [1], ends(".tgz", "n0005.TGZ")),
    ("n0005 is an archive whose name has no ending", [1], ends(".tar", "five")),
    ("n0005 is a packed archive whose name has no ending", [1], ends(".tgz", "five")),
    ("n0005 is an archive of another kind, in capitals", [4],
     lambda root: zipped(root / SLOW).rename(root / "n0005.ZIP")),
    ("n0005 is a link in an archive of all", [4], led),
    ("archives in an archive unpack to 90 GB", [1], bomb),
]:
    way("hide", told, codes)(later(plant))


for ending in (".tar", ".tgz"):
    way("hide", f"n0005 stands behind the end of another archive ({ending})", [4], named=("behind its end",))(
        later(behind(ending)))


@way("hide", "n0005 is the archive of n0007, by a hard link", [0], named=("is read already",))
def _(fleet): fleet.then = linked


# Words of the day.

WORD = "heron"
ACCOUNT = {
    "format": 1, "command": [], "program": {"version": "1", "build": "", "sha256": ""},
    "started": "2026-11-20T10:00:00Z", "closed": "2026-11-20T10:05:00Z", "level": "quick",
    "at_rest": {"expected": {}}, "challenge": WORD,
}


def asked(fleet, account, then=None):
    """A fleet that was given a word, of which n0005 has another account."""
    for name in fleet.bundles:
        fleet.more[name] = {"account.json": json.dumps(ACCOUNT)}
    fleet.more[SLOW] = {"account.json": account}
    fleet.args = fleet.collect = ["--challenge", WORD]
    # No row of a store was made for a word: what was not was not collected.
    fleet.store, fleet.then = [], then


unlisted = in_manifest(lambda text, files: [one for one in files if one["path"] != "account.json"])


for told, codes, account in [
    ("has the word of the day", [1], ACCOUNT),
    ("has the word of another day", [4], ACCOUNT | {"challenge": "egret"}),
    ("has no word", [4], {key: value for key, value in ACCOUNT.items() if key != "challenge"}),
    ("has the word in capitals", [4], ACCOUNT | {"challenge": "HERON"}),
    ("has the word and a space", [4], ACCOUNT | {"challenge": "heron "}),
    ("has a list of words", [4], ACCOUNT | {"challenge": ["egret", "heron"]}),
]:
    way("replay", f"n0005 {told}", codes)(
        lambda fleet, account=account: asked(fleet, json.dumps(account)))


@way("replay", "n0005 has two words", [4])
def _(fleet):
    asked(fleet, json.dumps(ACCOUNT).replace('"challenge"', '"challenge": "egret", "challenge"'))


@way("replay", "n0005 has the word in a file that its manifest does not have", [4])
def _(fleet): asked(fleet, json.dumps(ACCOUNT), unlisted)


@way("replay", "a healthy bundle under the name n0005 has the word too", [4])
def _(fleet):
    asked(fleet, json.dumps(ACCOUNT))
    fleet.bundles["evil"] = (node(5, hour=12), SLOW)
    fleet.more["evil"] = {"account.json": json.dumps(ACCOUNT)}


# Signatures. All nodes are signed by one key, but those that a way touches, which it signs itself.

KEYS = pathlib.Path()


def sign(folder, key, namespace="fizeau"):
    (folder / "manifest.json.sig").unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", KEYS / key, folder / "manifest.json"],
                   check=True, capture_output=True)


def prepare(base):
    """Makes the keys, and signs the bundles that nothing has touched."""
    global KEYS
    KEYS = base / ".keys"
    KEYS.mkdir()
    for key in ["all", "slow", "other", "stranger"]:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", KEYS / key], check=True)
    for at in range(count):
        sign(base / f"n{at:04}", "all")


fleet_attacks.prepare = prepare


def public(key):
    return (KEYS / f"{key}.pub").read_text().strip()


def listed(fleet, then, lines=None):
    """A fleet with a list of signers: a key of n0005, one of n0007, and one of all others."""
    own = f"*,!{SLOW} {public('all')}\n{SLOW} {public('slow')}\nn0007 {public('other')}\n"
    fleet.files["../signers"] = own if lines is None else lines
    fleet.args = fleet.collect = ["--allowed-signers", "signers"]
    fleet.rows(SLOW)
    fleet.then = then


def signs(words, codes, lines=None, **more):
    """A way of which `then` is decorated."""
    def take(then):
        def plant(fleet):
            listed(fleet, then, lines() if lines else None)
            if "evil" in more:
                fleet.bundles["evil"] = (node(5, hour=12), SLOW)
        way("sign", words, codes, named=more.get("named", (SLOW,)))(plant)
        return then
    return take


@signs("n0005 is signed by its own key", [1])
def _(root): sign(root / SLOW, "slow")


@signs("n0005 is not signed", [4])
def _(root): (root / SLOW / "manifest.json.sig").unlink(missing_ok=True)


@signs("n0005 is signed by the key of n0007", [4])
def _(root): sign(root / SLOW, "other")


@signs("n0005 is signed by a key that no list has", [4])
def _(root): sign(root / SLOW, "stranger")


@signs("n0005 is signed twice", [4])
def _(root):
    sign(root / SLOW, "slow")
    path = root / SLOW / "manifest.json.sig"
    path.write_text(path.read_text() * 2)


@signs("n0005 is signed for another purpose", [4])
def _(root): sign(root / SLOW, "slow", "file")


@signs("n0005 has the signature of n0007", [4])
def _(root): shutil.copy(root / "n0007/manifest.json.sig", root / SLOW / "manifest.json.sig")


@signs("n0005 has a line more in its manifest than was signed", [4])
def _(root):
    sign(root / SLOW, "slow")
    path = root / SLOW / "manifest.json"
    path.write_text(path.read_text() + "\n")


@signs("n0005 has other rows than were signed", [4])
def _(root):
    sign(root / SLOW, "slow")
    (root / SLOW / "rows.jsonl").write_text(text_of(node(5)))


@signs("a healthy bundle under the name n0005 is signed by the key of n0007", [1], evil=True)
def _(root):
    sign(root / SLOW, "slow")
    sign(root / "evil", "other")


@signs("a healthy bundle under the name n0005 is not signed", [1], evil=True)
def _(root): sign(root / SLOW, "slow")


# A later session by the key of the node is what a repair looks like.
@signs("n0005 signs two bundles that do not agree", [0], evil=True, named=())
def _(root):
    sign(root / SLOW, "slow")
    sign(root / "evil", "slow")


@signs("the list has a comment, an empty line, CR LF and n0005 twice", [1],
       lambda: f"# all\r\n\r\n*,!{SLOW} {public('all')} of all\r\n{SLOW} {public('other')}\r\n"
               f"{SLOW} {public('slow')}\r\n")
def _(root): sign(root / SLOW, "slow")


@signs("the line of n0005 is a comment", [4],
       lambda: f"*,!{SLOW} {public('all')}\n#{SLOW} {public('slow')}\n")
def _(root): sign(root / SLOW, "slow")


@signs("the key of n0005 is no longer valid", [4],
       lambda: f"*,!{SLOW} {public('all')}\n{SLOW} valid-before=\"20250101\" {public('slow')}\n")
def _(root): sign(root / SLOW, "slow")


@signs("the key of n0005 is for another purpose", [4],
       lambda: f"*,!{SLOW} {public('all')}\n{SLOW} namespaces=\"git\" {public('slow')}\n")
def _(root): sign(root / SLOW, "slow")


@way("sign", "a healthy node is called *, and n0005 signs it", [1])
def _(fleet):
    def then(root):
        sign(root / SLOW, "slow")
        sign(root / "star", "slow")
    listed(fleet, then)
    fleet.bundles["star"] = (node(5, name="*", hour=12), "*")


# What a store remembers.


def emptied(root):
    shutil.rmtree(root / SLOW)
    (root / SLOW).mkdir()


def whole(rows):
    def again(root):
        shutil.rmtree(root / SLOW)
        bundle(root / SLOW, rows, SLOW)
    return again


@way("store", "n0005 was healthy a week ago, and its folder is empty now", [0], named=())
def _(fleet):
    fleet.kept = {4}, (SLOW,)
    fleet.then, fleet.again = whole(node(5, day="2026-11-13")), emptied
    fleet.bundles[SLOW] = (node(5, day="2026-11-13"), SLOW)


@way("store", "its folder was empty, and was so again", [4])
def _(fleet): fleet.then, fleet.again = emptied, lambda root: None


@way("store", "n0006 says that a collection took all of n0005, whose folder is empty", [4])
def _(fleet):
    fleet.then = emptied
    word = node(6)[-1] | {"sender": "collector", "metric": "collection", "verdict": "pass"}
    rows, host = fleet.bundles["n0006"]
    fleet.bundles["n0006"] = (rows + [word, word | {"node": f"bundles/{SLOW}"}, word | {"node": SLOW}], host)


@way("accident", "a folder was empty when all was collected, and was whole the next time", [4], named=())
def _(fleet):
    fleet.kept = {0}, ()
    fleet.heal()
    fleet.then, fleet.again = emptied, whole(node(5))
