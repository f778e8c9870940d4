"""Built-in rules that deny access to secrets unless the user allows it.

A secret that a model has read is as good as published, and a command that can read one can print it. So reading is
denied, and changing too, since a file that cannot be read cannot be edited sensibly. The message says how to allow a
file. Examples and templates that projects share are exempt, and so are keys that packages and tests ship.
"""

from handhold.core.policy.rules import PATH_VERBS, Rule, RuleSet
from handhold.core.ports.policy import Verdict

_TEMPLATE_WORDS = "{example,sample,template,dist,defaults,schema}"  # endings of files that are meant to be copied
_DEPENDENCY_AND_TEST_PATHS = (
    "**/{node_modules,site-packages,vendor}/**",
    "**/{test,tests,testdata,fixtures,__fixtures__,testing}/**",
)

SECRET_RULES: tuple[Rule, ...] = (
    Rule(
        "secret environment files",
        Verdict.DENY,
        PATH_VERBS,
        because="environment files contain passwords and keys, which stay out of the conversation",
        paths=(".env", ".env.*", "*.env"),
        exclude=(
            f".env.{_TEMPLATE_WORDS}",
            f".env.*.{_TEMPLATE_WORDS}",
            ".env.test",
            f"{_TEMPLATE_WORDS}.env",
            f"*.{_TEMPLATE_WORDS}.env",
        ),
        covers=(".env", "api/.env", ".ENV", ".env.local", ".env.production", "deploy/prod.env", ".env.test.local"),
        does_not_cover=(
            ".env.example",
            ".env.local.sample",
            ".env.test",
            "example.env",
            ".envrc",
            "environment.md",
            "env.py",
        ),
        ignore_case=True,
    ),
    Rule(
        "secret keys",
        Verdict.DENY,
        PATH_VERBS,
        because="a private key stays out of the conversation",
        paths=(
            *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss"),
            *("ssh_host_*_key", "*.ppk", "*.kdb", "*.kdbx", ".ssh", ".gnupg", ".password-store"),
        ),
        covers=("id_rsa", "deploy/id_ed25519", ".ssh/config", ".ssh", ".gnupg/trustdb.gpg", "vault.kdbx", "a/x.PPK"),
        does_not_cover=("id_rsa.pub", "docs/ssh.md", "ssh_host_rsa_key.pub", "id_card.png", "grid_rsa"),
        ignore_case=True,
    ),
    Rule(
        "secret key files",
        Verdict.DENY,
        PATH_VERBS,
        because="its name is that of a private key, and private keys stay out of the conversation",
        paths=(
            *("*.key", "key.pem", "*[-_.]key.pem", "*privkey*.pem", "*private*.pem"),
            *("*.p12", "*.pfx", "*.jks", "*.keystore", "authkey_*.p8"),
        ),
        exclude=(*_DEPENDENCY_AND_TEST_PATHS, "*pub*key.pem", "*[-_.]pub.key", "debug.keystore"),
        covers=("server.key", "tls/server-key.pem", "privkey1.pem", "my_private.pem", "app.p12", "AuthKey_1A2B.p8"),
        does_not_cover=(
            *("cert.pem", "cacert.pem", "public-key.pem", "monkey.pem", "keyboard.py", "android/app/debug.keystore"),
            *("tests/certs/server.key", "node_modules/x/key.pem"),
        ),
        ignore_case=True,
    ),
    Rule(
        "secret credentials",
        Verdict.DENY,
        PATH_VERBS,
        because="programs keep passwords and tokens there, which stay out of the conversation",
        paths=(
            *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".pypirc", ".git-credentials", ".vault-token", ".htpasswd"),
            *("**/.aws/credentials", "**/.aws/sso", "**/.kube/config", "**/.docker/config.json", "**/.azure"),
            *("**/.config/gcloud", "**/.config/gh/hosts.yml", "**/.cargo/credentials", "**/.cargo/credentials.toml"),
            *("**/.gem/credentials", "**/.terraform.d/credentials.tfrc.json", "**/.streamlit/secrets.toml"),
            *("credentials.json", "service-account*.json", "service_account*.json", "serviceaccount*.json"),
            *("client_secret*.json", "application_default_credentials.json"),
            *("~/.npmrc", "~/.m2/settings.xml", "~/.gradle/gradle.properties", "~/.config/hub", "~/.config/op"),
            *("~/.local/share/keyrings", "~/.mozilla", "~/.config/google-chrome", "~/.config/chromium"),
        ),
        covers=(
            *(".netrc", "home/.git-credentials", ".aws/credentials", "x/.kube/config", ".docker/config.json"),
            *("credentials.json", "config/service-account-prod.json", "serviceAccountKey.json", "~/.npmrc"),
            ".config/gcloud/access_tokens.db",
        ),
        does_not_cover=(
            ".npmrc",
            ".aws/config",
            "docker/config.json",
            ".kube/cache/x",
            "credentials.py",
            "service.json",
        ),
        ignore_case=True,
    ),
)

BUILT_IN_RULES = RuleSet("built in", "built in", SECRET_RULES, usable_by_commands=True)
