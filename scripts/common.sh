# Sourced by scripts that need what a machine may lack. Packages of Debian are installed where they
# are missing; Python packages are kept in a cache outside the repository, which only saves time.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/fizeau-ci

install_packages() { # options and packages of apt-get install..
    local sudo=
    ((EUID == 0)) || sudo=sudo
    echo "installing $*" >&2
    $sudo apt-get update -q >&2
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$@" >&2
}

# What an environment holds is part of its name: another version is another environment.
environment() { # name, packages.. : prints its folder
    local venv=$cache/$1
    shift
    mkdir -p "$cache"
    {
        flock 9
        [ -e "$venv/complete" ] || {
            rm -rf "$venv" && python3 -m venv "$venv" &&
                "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" >&2 &&
                touch "$venv/complete"
        } || exit
    } 9>"$venv.lock"
    echo "$venv"
}

# Tells that a check is skipped. Where every check must run, that is a failure.
skipped() { # why
    if [[ ${CI:-} == true || ${FIZEAU_REQUIRE_ALL:-} == 1 ]]; then
        echo "fault: every check must run here, and one cannot: $1" >&2
        exit 1
    fi
    echo "skipped: $1" >&2
}

# The program and the stub libraries. With a test among what is built, cargo chooses the features of
# the dependencies as for all tests, and builds none of them a second time.
build_program() {
    cargo build --locked --quiet --workspace --lib --bins --test readme
}

# Links the stub of an NVIDIA driver into a folder, by the names that the driver's libraries have.
stub_driver() { # FOLDER, then more libraries that the stub stands for
    local folder=$1 library
    shift
    mkdir -p "$folder"
    for library in libcuda.so.1 libnvidia-ml.so.1 libnvrtc.so.13 "$@"; do
        ln -s "$(realpath "${CARGO_TARGET_DIR:-target}/debug/libfizeau_stub_driver.so")" "$folder/$library"
    done
}

# A node of stub GPUs: the driver in lib/, the suite own.toml and the profile node.toml with the check
# of one copy. Rust's tests of such nodes have the same ones.
stub_node() { # FOLDER, its number of GPUs
    stub_driver "$1/lib"
    cat - tests/stub/node/copies.toml >"$1/own.toml" <<'SUITE'
name = "own"
description = "One copy"
measure = { samples_min = 10, samples_max = 12, noise_max = 0.01, time_min = 0.0, time_max = 0.005, warmup_max = 0.001, sample_min = 0.0001, deadline = 60.0 }

SUITE
    sed "s/^gpus = .*/gpus = $2/" tests/stub/node/profile.toml >"$1/node.toml"
}

# Runs tests whose needs were brought: none may be skipped, and at least one must be there.
required_tests() { # arguments of cargo test
    local said
    said=$(FIZEAU_REQUIRE_ALL=1 FIZEAU_ELSEWHERE= cargo test --locked --workspace "$@" 2>&1) || {
        echo "$said" >&2
        exit 1
    }
    grep '^test .* ok$' <<<"$said" || {
        echo "fault: no test is there: cargo test $*" >&2
        exit 1
    }
}

command -v python3 >/dev/null && python3 -c 'import ensurepip' 2>/dev/null ||
    install_packages python3 python3-venv
