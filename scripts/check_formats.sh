#!/usr/bin/env bash
# What `fizeau accept` writes for other programs, read by those programs' own means: Prometheus's text
# by promtool and by Prometheus's Python parser, JUnit's XML by the schema of Jenkins; and the files of
# scripts/kubernetes by the schemas of Kubernetes's API. Each reader has to refuse a planted fault.
# Needs Debian or Ubuntu for promtool; the first time the network.
# Usage: scripts/check_formats.sh
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/common.sh

readers=$(environment formats-1 prometheus_client==0.23.1 xmlschema==4.1.0 kubernetes-validate==1.34.1)
# Debian's package has promtool in it, and a server that nobody needs here: it is not installed.
# Where it is not there it is fetched below.
promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
    promtool=$cache/promtool/usr/bin/promtool
    [ -x "$promtool" ] || (
        mkdir -p "$cache/promtool"
        cd "$cache/promtool"
        apt-get download -q prometheus >/dev/null 2>&1 || { apt-get update -q && apt-get download -q prometheus; } >&2
        dpkg-deb -x prometheus_*.deb .
        rm -f prometheus_*.deb usr/bin/prometheus
    )
fi
# Jenkins's schema of JUnit's XML (xunit-plugin, MIT), as the sources of pytest have it.
schema=$cache/junit/pytest-8.4.2/testing/example_scripts/junit-10.xsd
[ -s "$schema" ] || (
    mkdir -p "$cache/junit"
    "$readers/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
        --dest "$cache/junit" pytest==8.4.2 >&2
    tar -xzf "$cache/junit/pytest-8.4.2.tar.gz" -C "$cache/junit" --wildcards '*/junit-10.xsd'
)
echo "a1a816f58d1bf95ebabf371994df0b9246dee66ea9572fbec4f9296f1b2c0ff6  $schema" |
    sha256sum --check --quiet
build_program

program=$PWD/target/debug/fizeau
place=$(mktemp -d)
trap 'wait; rm -rf "$place"' EXIT
mkdir -p "$place"/{root/proc,root/sys/class/infiniband/'a"b\<&>é'/ports/1}
stub_node "$place" 4
# A name that has to be escaped.
sed -i 's/^name = "stub"/name = "one \\"node\\""/' "$place/node.toml"
echo "MemTotal: 1048576 kB" >"$place/root/proc/meminfo"
# A device whose name has all that has to be escaped.
echo "4: ACTIVE" >"$place/root/sys/class/infiniband/a\"b\\<&>é/ports/1/state"
accepted() { # OUT CODE ENVIRONMENT.. -- ARGUMENTS..
    local out=$place/$1 code=$2 status=0 variables=()
    shift 2
    until [ "$1" = -- ]; do variables+=("$1") && shift; done
    shift
    env FIZEAU_LIBRARY_PATH="$place/none" "${variables[@]}" "$program" accept --root "$place/root" \
        --out "$out" --textfile "$out.prom" "$@" >"$out.txt" 2>&1 || status=$?
    [ "$status" = "$code" ] || { cat "$out.txt" >&2 && echo "exit code $status" >&2 && exit 1; }
}
lib=FIZEAU_LIBRARY_PATH=$place/lib
accepted pass 0 -- --level passive
accepted fail 1 "$lib" FIZEAU_STUB=devices=4,lanes=8 -- --level passive
accepted unclear 4 "$lib" FIZEAU_STUB=devices=4,ecc=0 -- --level passive --profile "$place/node.toml"
accepted measured 1 "$lib" FIZEAU_STUB=devices=4,gpu2.hbm=0.83,noise=0.002,seed=3 -- \
    --budget 5min --profile "$place/node.toml" --device cuda:0 --device cuda:1 --device cuda:2 \
    --device cuda:3
for out in pass fail unclear measured; do
    cmp "$place/$out/metrics.prom" "$place/$out.prom"
    said=$("$promtool" check metrics <"$place/$out.prom" 2>&1) || { echo "$said" >&2 && exit 1; }
    [ -z "$said" ] || { echo "promtool on $out: $said" >&2 && exit 1; }
done
if { cat "$place/fail.prom" && tail -n 1 "$place/fail.prom"; } | "$promtool" check metrics 2>/dev/null; then
    echo "fault: promtool takes a sample that is there twice" >&2
    exit 1
fi
echo "Prometheus: promtool ($("$promtool" --version 2>&1 | sed -n '1s/.*version \([^ ]*\).*/\1/p')) reads four verdicts"
# While it is written over and over, a reader sees it whole.
for _ in $(seq 40); do accepted pass 0 -- --level passive; done &
"$readers/bin/python3" scripts/check_formats.py "$schema" "$place" scripts/kubernetes*.yaml \
    scripts/kubernetes/*.yaml scripts/kubernetes/npd.json
wait $!
echo "formats: each is read by its reader"
