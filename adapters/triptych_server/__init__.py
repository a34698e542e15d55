"""A knowledge base over HTTP and MCP: server, client, console, keys, metrics."""
