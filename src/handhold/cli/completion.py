"""`handhold completion`: the script that makes a shell call back into `handhold` at every Tab."""

from typing import TypedDict

import click
from click.shell_completion import ShellComplete, get_completion_class

from handhold.cli.options import as_json, print_json

SHELLS = ("bash", "zsh", "fish")


class CompletionJSON(TypedDict):
    shell: str
    script: str


JSON_OUTPUT = {"": CompletionJSON}


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@as_json
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:  # noqa: FBT001
    """Print the completion script for a shell.

    \b
    bash, in ~/.bashrc:                   eval "$(handhold completion bash)"
    zsh, in ~/.zshrc after compinit:      eval "$(handhold completion zsh)"
    fish, in ~/.config/fish/config.fish:  handhold completion fish | source
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # The method of the base class: the one for bash would first start a bash to check its version.
    script = ShellComplete.source(kind(ctx.find_root().command, {}, "handhold", "_HANDHOLD_COMPLETE"))
    if as_json:
        print_json(CompletionJSON(shell=shell, script=script))
    else:
        click.echo(script)
