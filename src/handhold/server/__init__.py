"""The Model Context Protocol server: the same tools for MCP clients.

Every call goes through a toolbox; the server implements no tools itself. It needs the extra `mcp`, so `import handhold`
never loads it. `handhold mcp`, `handhold serve` and embedding applications do.
"""
