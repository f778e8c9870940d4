"""C-89, E-2: with realistic .env files around, the output of everyday work loses its secrets and nothing else."""

from typing import Any

import pytest

from tests.everyday.runner import missing, read_workloads, run_here
from tests.scale import sampled
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.slow,
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

PLAIN = """\
NODE_ENV=development
PORT=3000
HOST=localhost
DEBUG=true
LOG_LEVEL=info
VITE_API_URL=http://localhost:3000/api
VITE_APP_TITLE="My Application"
DATABASE_URL=sqlite:///db/development.sqlite3
REDIS_URL=redis://127.0.0.1:6379/0
ALLOWED_HOSTS=localhost,127.0.0.1,example.org
CORS_ORIGIN=https://app.example.org
PYTHONPATH=src/packages/application
STATIC_ROOT=/var/www/application/static
AUTH_TOKEN_URL=https://auth.example.org/oauth2/token
JWKS_KEY_URL=https://auth.example.org/.well-known/jwks.json
SSL_KEY=certs/development/server.key
SSH_KEY=/home/user/.ssh/id_ed25519
SECRET_KEY_FILE=/run/secrets/secret_key
PASSWORD_RESET_TIMEOUT=259200
TOKEN_LIFETIME=15m
USE_API_KEY=true
ADMIN_PASSWORD=admin
DB_PASSWORD=postgres
SESSION_SECRET=changeme
API_KEY=
FEATURE_FLAGS=new-ui,dark-mode,fast-path
TZ=Europe/Berlin
MAIL_FROM=no-reply@example.org
COMPOSE_PROJECT_NAME=my-application
GIT_AUTHOR_NAME=User
"""
SECRETS = {
    "STRIPE_SECRET_KEY": "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
    "JWT_SECRET": "pT7vQ2mXw9LrZ8kN4bYc",
    "SMTP_PASSWORD": "correct-horse-battery-9",
    "GITHUB_TOKEN": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "CACHE_URL": "hunter2hunter2hunter2",
}
WRITE_ENV = f"""
cat >> .env <<'ENV'
{PLAIN}{"".join(f"{name}={value}{chr(10)}" for name, value in SECRETS.items() if name != "CACHE_URL")}\
CACHE_URL=redis://cache:{SECRETS["CACHE_URL"]}@cache.example.org:6379/1
ENV
cp .env .env.production
grep -v -e sk_ -e JWT_SECRET -e SMTP_ -e ghp_ -e CACHE_ .env > settings.txt
"""
COMMANDS = [
    "cat settings.txt",
    "cut -d= -f2- settings.txt | tr '\\n' ' '",
    "grep -rn localhost settings.txt && echo listening on http://localhost:3000/api in development mode, debug true",
]
WORKLOADS = [each for each in read_workloads() if each.get("ci") and not missing(each)][:20]


def with_env(workload: dict[str, Any], *more: str) -> dict[str, Any]:
    return workload | {
        "setup": f"({workload['setup']}\n){WRITE_ENV}",
        "commands": [*workload["commands"], *COMMANDS, *more],
    }


@pytest.mark.parametrize("workload", sampled(WORKLOADS, 2), ids=lambda each: each["name"])
def test_e2_nothing_but_secrets_is_redacted_in_the_output_of_everyday_work(workload: dict[str, Any]):
    (row,) = run_here([with_env(workload)])
    secret = sum(row.bare_printed.count(value) for value in SECRETS.values())  # git shows an untracked .env in a stash
    assert len(row.printed) > 1000
    assert row.printed.count("[redacted") == secret
    assert all(line in row.printed for line in PLAIN.splitlines())


def test_e2_every_secret_of_such_a_file_is_redacted():
    (row,) = run_here([with_env(WORKLOADS[0], "cat .env")])
    assert {value for value in SECRETS.values() if value in row.bare_printed} == set(SECRETS.values())
    assert {value for value in SECRETS.values() if value in row.printed} == set()
    assert row.printed.count("[redacted") == len(SECRETS)
