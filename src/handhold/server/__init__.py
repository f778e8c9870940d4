"""Handhold as a server: the same tools, for clients that speak the Model Context Protocol.

Nothing here does what a tool does: every call goes through a toolbox. Imported by `handhold mcp`, by `handhold serve`
and by whoever embeds it; `import handhold` never loads it, since it needs the extra `mcp`.
"""
