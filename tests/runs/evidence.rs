//! The bundle that `fizeau accept` leaves: signed so that `ssh-keygen -Y verify` accepts it, every
//! changed byte named, nothing secret and, where asked for, no name and no serial number in it.

use super::small_node::{self, plant};
use crate::{
    program::{Place, Said, say},
    skipped,
};
use oorandom::Rand32;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const SIGNER: &str = "operator@example.org";

/// What identifies the made-up node, as unusual as such texts are.
const HOST: &str = "gpu-17b.rack_\u{e9}4.Example";
const SERIALS: [(&str, &str); 4] = [
    ("sys/class/dmi/id/product_serial", "SN \"7\\Q\" & <x'9>"),
    ("sys/class/dmi/id/product_uuid", "4C4C4544-0059-4D10-8052-B7C04F5A3132"),
    ("sys/class/net/ens1f0/address", "a0:88:c2:5e:17:bc"),
    ("sys/class/infiniband/mlx5_0/node_guid", "a088:c203:005e:17bc"),
];

/// What nobody may find in a bundle.
const SECRET: &str = "correct-horse-battery-staple";
const KEY: &str = "0123456789abcdef-of-the-operator";

fn place() -> Place {
    let place = small_node::place();
    fs::write(place.path("key.txt"), KEY).expect("written");
    place
}

/// A node with names and numbers, one of them in the kernel's log too.
fn node(place: &Place) {
    plant(place, "proc/sys/kernel/hostname", &format!("{HOST}\n"));
    plant(place, "proc/meminfo", "MemTotal: 1048576 kB\n");
    for (file, text) in SERIALS {
        plant(place, file, &format!("{text}\n"));
    }
    plant(place, "sys/class/net/ens1f0/device/vendor", "0x15b3\n");
    let fault = format!("NVRM: Xid (PCI:0000:1a:00): 79, {HOST} board {}", SERIALS[0].1);
    plant(place, "dev/kmsg", &format!("6,1,2,-;{fault}\n"));
}

fn accept(place: &Place, more: &[&str]) -> Said {
    let args = ["accept", "--root", "root", "--profile", "profile.toml"];
    let mut command = place.fizeau(args.iter().chain(more));
    command.env("SOME_PASSWORD", SECRET).env("FIZEAU_TOKEN", SECRET);
    command.env("HOME", place.path("home-of-alice"));
    say(&mut command)
}

/// Every check of the verdict was decided again.
pub fn all_follow(place: &Place, said: &Said) {
    let text = fs::read_to_string(place.path("out/verdict.json")).expect("a verdict");
    let verdict: Value = serde_json::from_str(&text).expect("JSON");
    let count = verdict["checks"].as_array().expect("checks").len();
    assert!(count > 0, "{text}");
    let words = format!("{count} checks decided again, all with the same result\n");
    assert!(said.out.contains(&words), "{words}: {}{}", said.out, said.err);
}

/// What `fizeau verify` says of a bundle.
pub fn verify(place: &Place, more: &[&str]) -> Said {
    say(&mut place.fizeau(["verify", "out"].iter().chain(more)))
}

/// Every file of a bundle.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            folder if folder.is_dir() => all.extend(files(&folder)),
            file => all.push(file),
        }
    }
    all.sort();
    all
}

/// A fresh key, its public half and the file of allowed signers; none without `ssh-keygen`.
fn key(place: &Place) -> Option<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(place.path("key"));
    if command.stdin(Stdio::null()).status().is_err() {
        skipped::because("ssh", "ssh-keygen is not installed");
        return None;
    }
    let public = fs::read_to_string(place.path("key.pub")).expect("a key");
    fs::write(place.path("signers"), format!("{SIGNER} {public}")).expect("written");
    Some(())
}

const SIGNED: [&str; 4] = ["--allowed-signers", "signers", "--signer", SIGNER];

#[test]
fn a_signed_bundle_is_accepted_and_any_changed_byte_of_it_is_named() {
    let place = place();
    if key(&place).is_none() {
        return;
    }
    // The host's own name, so that records have a name that the tree has too.
    let real = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    plant(&place, "proc/sys/kernel/hostname", &real);
    let more = ["--out", "out", "--budget", "10min", "--sign", "key"];
    let redact = ["--redact", "names", "--redact-key", "key.txt"];
    let all: Vec<&str> = more.iter().chain(&redact).copied().collect();
    let said = accept(&place, &all);
    assert_eq!(said.code, Some(4), "{}{}", said.out, said.err);
    names_are_joined(&place);
    let manifest = fs::File::open(place.path("out/manifest.json")).expect("a manifest");
    let mut real = Command::new("ssh-keygen");
    real.args(["-Y", "verify", "-n", "fizeau", "-I", SIGNER]);
    real.arg("-f").arg(place.path("signers"));
    real.arg("-s").arg(place.path("out/manifest.json.sig")).stdin(manifest);
    let real = real.output().expect("ssh-keygen");
    assert!(real.status.success(), "{}", String::from_utf8_lossy(&real.stderr));

    let said = verify(&place, &SIGNED);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    all_follow(&place, &said);
    assert!(said.out.contains(SIGNER), "{}", said.out);
    let other = verify(&place, &["--allowed-signers", "signers", "--signer", "other"]);
    assert_eq!(other.code, Some(1), "{}", other.out);
    assert!(other.out.starts_with("FAIL  another signer"), "{}", other.out);
    let nobody = verify(&place, &[]);
    assert_eq!(nobody.code, Some(4), "{}", nobody.out);
    assert!(nobody.out.contains("whose key signed it was not checked"), "{}", nobody.out);

    let mut random = Rand32::new(7);
    let all = files(&place.path("out"));
    assert!(all.len() > 10, "{all:?}");
    for file in &all {
        let name = file.strip_prefix(place.path("out")).expect("below").display().to_string();
        let bytes = fs::read(file).expect("a file");
        let is_sealed = name.starts_with("manifest.json");
        for _ in 0..if is_sealed { 8 } else { 1 } {
            let mut changed = bytes.clone();
            match changed.len() {
                0 => changed.push(b'x'),
                length => {
                    let at = random.rand_range(0..length as u32) as usize;
                    changed[at] ^= random.rand_range(1..256) as u8;
                }
            }
            fs::write(file, &changed).expect("written");
            let said = verify(&place, &SIGNED);
            assert_eq!(said.code, Some(1), "{name}: {}{}", said.out, said.err);
            let first = said.out.lines().next().expect("a line");
            assert!(first.starts_with("FAIL  changed: "), "{name}: {first}");
            let is_named =
                if is_sealed { first.contains("manifest.json") } else { first.contains(&name) };
            assert!(is_named, "{name}: {first}");
        }
        fs::write(file, &bytes).expect("written");
    }
    // White space that readers of signatures ignore.
    let path = place.path("out/manifest.json.sig");
    let text = fs::read_to_string(&path).expect("a signature");
    fs::write(&path, format!("{text}\n")).expect("written");
    assert_eq!(verify(&place, &SIGNED).code, Some(1));
    fs::write(&path, &text).expect("written");
    assert_eq!(verify(&place, &SIGNED).code, Some(0));
    added_missing_and_forged(&place);
}

/// One name stands for the host in all files.
fn names_are_joined(place: &Place) {
    let text = |file: &str| fs::read_to_string(place.path("out").join(file)).expect("a file");
    let identity: Value = serde_json::from_str(&text("identity.json")).expect("JSON");
    let name = identity["host"].as_str().expect("a host");
    assert!(name.starts_with("name_"), "{name}");
    let record = place.record("out/rounds/0001-host");
    assert_eq!(record.header.environment.host.as_deref(), Some(name));
    assert!(text("verdict.json").contains(&format!("\"node\": \"{name}\"")));
}

fn added_missing_and_forged(place: &Place) {
    let named = |words: &str| {
        let said = verify(place, &SIGNED);
        assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
        assert!(said.out.lines().next().is_some_and(|line| line.contains(words)), "{}", said.out);
    };
    let own = place.path("out/rounds/more.txt");
    fs::write(&own, "x").expect("written");
    named("added: rounds/more.txt");
    fs::remove_file(&own).expect("removed");
    symlink("verdict.json", &own).expect("a link");
    named("rounds/more.txt: it is a link");
    fs::remove_file(&own).expect("removed");
    let path = place.path("out/state.json");
    let state = fs::read(&path).expect("a state");
    fs::remove_file(&path).expect("removed");
    named("missing: state.json");
    fs::write(&path, state).expect("written");
    fs::remove_file(place.path("out/manifest.json.sig")).expect("removed");
    named("missing: manifest.json.sig");

    // An account that leaves a repeat out.
    let path = place.path("out/account.json");
    let account = fs::read_to_string(&path).expect("an account");
    let mut told: Value = serde_json::from_str(&account).expect("JSON");
    let events = told["groups"][0]["events"].as_array_mut().expect("events");
    let at = events.iter().position(|event| event["record"].is_object()).expect("a repeat");
    events.remove(at);
    let told = told.to_string();
    fs::write(&path, &told).expect("written");
    let [was, is] = [&account, &told]
        .map(|text| fizeau_judge::evidence::manifest::Entry::of("account.json", text.as_bytes()));
    let manifest = place.path("out/manifest.json");
    let before = fs::read_to_string(&manifest).expect("a manifest");
    let [was, is] = [was, is].map(|one| format!("{}\",\"size\":{}", one.sha256, one.size));
    assert!(before.contains(&was), "{before}");
    fs::write(&manifest, before.replace(&was, &is)).expect("written");
    let said = verify(place, &[]);
    let is_told = ["does not follow", "a repeat may have been left out"];
    assert!(is_told.iter().any(|words| said.out.contains(words)), "{}", said.out);
    fs::write(&path, account).expect("written");
    fs::write(&manifest, before).expect("written");

    // A better verdict with a manifest that fits: nobody signed it, and it does not follow.
    let path = place.path("out/verdict.json");
    let verdict = fs::read_to_string(&path).expect("a verdict");
    let forged = verdict.replace("\"inconclusive\"", "\"pass\"");
    assert_ne!(forged, verdict);
    fs::write(&path, &forged).expect("written");
    let [was, is] = [&verdict, &forged]
        .map(|text| fizeau_judge::evidence::manifest::Entry::of("verdict.json", text.as_bytes()));
    let path = place.path("out/manifest.json");
    let manifest = fs::read_to_string(&path).expect("a manifest");
    let fitting = manifest
        .replace(&was.sha256, &is.sha256)
        .replace(&format!("\"size\":{}}}]", was.size), &format!("\"size\":{}}}]", is.size));
    fs::write(&path, fitting).expect("written");
    let said = verify(place, &[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("does not follow from the records"), "{}", said.out);
    fs::remove_file(&path).expect("removed");
    assert!(verify(place, &[]).out.contains("missing: manifest.json"));
}

/// Whether bytes hold a text, in upper or lower case.
fn holds(bytes: &[u8], text: &str) -> bool {
    let lower = |bytes: &[u8]| bytes.to_ascii_lowercase();
    let (bytes, text) = (lower(bytes), lower(text.as_bytes()));
    bytes.windows(text.len()).any(|window| window == text)
}

#[test]
fn a_redacted_bundle_holds_no_name_no_serial_number_and_nothing_secret() {
    let place = place();
    node(&place);
    let redact = ["--redact", "names,serials", "--redact-key", "key.txt"];
    for (out, more) in [("out", &redact[..]), ("again", &redact[..]), ("whole", &[])] {
        let args = ["--level", "passive", "--out", out];
        let all: Vec<&str> = args.iter().chain(more).copied().collect();
        let said = accept(&place, &all);
        assert_eq!(said.code, Some(1), "an Xid fails it: {}{}", said.out, said.err);
    }
    let json = |serial: &str| {
        let text = serde_json::to_string(serial).expect("JSON");
        text[1..text.len() - 1].to_owned()
    };
    let home = place.path("home-of-alice").display().to_string();
    let mut names = vec![HOST.to_owned(), "gpu-17b".into(), home];
    for (_, serial) in SERIALS {
        names.extend([serial.to_owned(), json(serial), serial.replace([':', '-'], "")]);
    }
    // That of the real host, where it is more than a word.
    let real = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name").trim().to_owned();
    if real.len() > 5 && real.contains(|c: char| !c.is_ascii_alphabetic()) {
        names.push(real);
    }
    let mut seen = 0;
    for file in files(&place.path("out")) {
        let bytes = fs::read(&file).expect("a file");
        for name in names.iter().map(String::as_str).chain([SECRET, KEY]) {
            assert!(!holds(&bytes, name), "{name:?} is in {}", file.display());
        }
        seen += 1;
    }
    assert!(seen >= 7, "{seen} files");
    // The same search finds them where nothing was redacted, but for what is secret.
    let whole: Vec<u8> = files(&place.path("whole"))
        .iter()
        .flat_map(|file| fs::read(file).expect("a file"))
        .collect();
    for (_, serial) in SERIALS {
        assert!(holds(&whole, &json(serial)), "{serial} was not read");
    }
    assert!(holds(&whole, "gpu-17b") && !holds(&whole, SECRET) && !holds(&whole, KEY));

    // Bundles of one machine by one key can be joined.
    let identity =
        |out: &str| fs::read_to_string(place.path(out).join("identity.json")).expect("an identity");
    assert_eq!(identity("out"), identity("again"));
    let json: Value = serde_json::from_str(&identity("out")).expect("JSON");
    let host = json["host"].as_str().expect("a host");
    assert!(host.starts_with("name_") && host.len() == 21, "{host}");
    assert!(json["machine"]["uuid"].as_str().expect("a UUID").starts_with("serial_"), "{json}");
    let state = fs::read_to_string(place.path("out/state.json")).expect("a state");
    assert!(state.contains(host), "the name in the log is not the same: {state}");
    // The made-up tree is of another host than the records, which is found by their hashes too.
    let said = verify(&place, &[]);
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    assert!(said.out.contains("checks decided again"), "{}", said.out);
    assert!(said.out.starts_with("FAIL  identity.json does not follow: its host is name_"));
}

#[test]
fn what_cannot_be_signed_or_redacted_is_said_before_anything_is_measured() {
    let place = place();
    fs::write(place.path("short.txt"), "short").expect("written");
    for (more, words) in [
        (&["--level", "passive", "--sign", "key.txt"][..], "--out DIR"),
        (&["--out", "out", "--sign", "nothing"], "--sign nothing"),
        (&["--out", "out", "--redact", "names"], "FIZEAU_REDACT_KEY"),
        (&["--out", "out", "--redact", "all"], "names,serials"),
        (&["--out", "out", "--redact-key", "key.txt"], "--redact"),
        (&["--out", "out", "--redact", "names", "--redact-key", "nothing"], "nothing"),
        (&["--out", "out", "--redact", "names", "--redact-key", "short.txt"], "16"),
    ] {
        let said = accept(&place, more);
        let code = if more.contains(&"nothing") { 3 } else { 2 };
        assert_eq!(said.code, Some(code), "{more:?}: {}", said.err);
        assert!(said.err.contains(words), "{more:?}: {}", said.err);
    }
    let args = ["accept", "--root", "root", "--profile", "profile.toml", "--level", "passive"];
    fs::write(place.path("broken.txt"), "-----BEGIN OPENSSH PRIVATE KEY-----\n").expect("written");
    let sign = ["--out", "out", "--sign", "broken.txt"];
    let said = say(place.fizeau(args.iter().chain(&sign)).env("PATH", place.path("root"))).ended(3);
    assert!(said.err.contains("ssh-keygen is not installed"), "{}", said.err);
    if key(&place).is_none() {
        return;
    }
    // A file that is no key is refused before anything is measured.
    let said = accept(&place, &["--level", "passive", "--out", "out", "--sign", "key.txt"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("--sign key.txt: it is no SSH key"), "{}", said.err);
    assert!(!place.path("out/manifest.json").exists());
    // One that only begins like a key: the verdict is there, and is not signed.
    let said = accept(&place, &["--level", "passive", "--out", "out", "--sign", "broken.txt"]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("did not sign with broken.txt"), "{}", said.err);
    assert!(place.path("out/manifest.json").exists());
    assert!(!place.path("out/manifest.json.sig").exists());
    for (args, code) in [
        (&["verify", "nothing"][..], 3),
        (&["verify"], 2),
        (&["verify", "out", "--signer", "a"], 2),
        (&["verify", "out", "--allowed-signers", "nothing", "--signer", "a"], 3),
    ] {
        assert_eq!(say(&mut place.fizeau(args)).code, Some(code), "{args:?}");
    }
}
