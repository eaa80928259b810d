"""`karat mcp`: tools for agents."""

from __future__ import annotations

import click

from karat.cli.help import KaratCommand


@click.command("mcp", cls=KaratCommand, short_help="Tools for agents: an MCP server over the files of a folder.")
@click.option("--root", metavar="DIR", default=".", show_default=True, help="Folder whose files may be read.")
@click.option("--allow-write", is_flag=True, help="Let tools write reports to new files in the folder.")
def command(root: str, allow_write: bool) -> None:
    """Serve evaluate, compare, gate, triage and check over the Model Context Protocol, on standard input and output.

    Only files below DIR are read, wherever `..` and links lead. Nothing is written without --allow-write, and no file
    is overwritten. An agent starts the server itself; docs/agents.md shows how.

    \b
    karat mcp --root evaluation
    karat mcp --root evaluation --allow-write
    """
    from importlib.util import find_spec

    from karat.errors import MissingExtra

    if find_spec("mcp") is None:
        raise MissingExtra("karat mcp", "mcp", "mcp")
    from karat.files.guarded_folder import GuardedFolder

    folder = GuardedFolder(root, writable=allow_write)
    from karat.cli.scoring import load_numpy

    load_numpy()
    from karat.web.mcp_server import serve_tools

    serve_tools(folder)
