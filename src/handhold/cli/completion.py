"""What teaches a shell to complete our command lines. The shell asks us at every Tab, so it never grows stale."""

import click
from click.shell_completion import ShellComplete, get_completion_class

from handhold.cli.options import as_json, print_json

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@as_json
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:  # noqa: FBT001
    """Print the completion of SHELL.

    \b
    bash, in ~/.bashrc:                   eval "$(handhold completion bash)"
    zsh, in ~/.zshrc after compinit:      eval "$(handhold completion zsh)"
    fish, in ~/.config/fish/config.fish:  handhold completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # The base class's own: bash's would first run a bash, to ask for its version.
    script = ShellComplete.source(kind(ctx.find_root().command, {}, "handhold", "_HANDHOLD_COMPLETE"))
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
