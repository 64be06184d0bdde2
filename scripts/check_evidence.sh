#!/usr/bin/env bash
# Signs bundles with each kind of SSH key and by ssh-agent, and checks them as somebody without fizeau
# would: the signature by `ssh-keygen -Y verify`, the files by sha256sum. Then one byte is changed.
# Needs OpenSSH and Python.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

fizeau=${1:-target/debug/fizeau}
[ -x "$fizeau" ] || build_program
fizeau=$(realpath "$fizeau")
work=$(mktemp -d)
agent=
trap '[ -z "$agent" ] || kill "$agent"; rm -rf "$work"' EXIT
mkdir "$work/root"
cd "$work"
# No GPU of this machine is looked at.
export FIZEAU_LIBRARY_PATH=$work

fault() { # WORDS
    echo "fault: $1" >&2
    exit 1
}

signed() { # NAME KEY PUBLIC : a bundle signed with KEY, checked by PUBLIC
    local bundle=bundle-$1 code=0
    echo "checker namespaces=\"fizeau\" $(cut -d' ' -f1,2 "$3")" >signers
    "$fizeau" accept --level passive --root root --out "$bundle" --sign "$2" >said 2>&1 || code=$?
    # Nothing fails on an empty tree, and nothing passes either.
    ((code == 0 || code == 4)) || fault "accept --sign $2: exit code $code: $(cat said)"
    (
        cd "$bundle"
        ssh-keygen -Y verify -n fizeau -I checker -f ../signers -s manifest.json.sig <manifest.json
        python3 -c 'import json
for one in json.load(open("manifest.json"))["files"]: print(one["sha256"], "", one["path"])' >../sums
        sha256sum --check --quiet ../sums
        echo "ok: $1: sha256sum finds $(wc -l <../sums) files as the manifest has them"
    )
    "$fizeau" verify "$bundle" --allowed-signers signers --signer checker >said ||
        fault "verify of $1: $(cat said)"
    printf 'X' | dd of="$bundle/identity.json" bs=1 seek=1 conv=notrunc status=none
    code=0
    "$fizeau" verify "$bundle" --allowed-signers signers --signer checker >said || code=$?
    ((code == 1)) && grep -q '^FAIL  changed: identity.json' said ||
        fault "a changed byte of $1 was not named (exit code $code): $(cat said)"
}

for kind in ed25519 ecdsa rsa; do
    ssh-keygen -q -t $kind -N '' -C '' -f key-$kind
    signed $kind key-$kind key-$kind.pub
done
# The private half is in the agent alone.
eval "$(ssh-agent -s)" >/dev/null
agent=$SSH_AGENT_PID
ssh-add -q key-ed25519
rm key-ed25519
signed agent key-ed25519.pub key-ed25519.pub
echo "ok: bundles signed with keys of three kinds and by an agent are accepted, and changes are named"
