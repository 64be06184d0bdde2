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
