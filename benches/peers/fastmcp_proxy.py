"""A proxy made with FastMCP, over HTTP in front of a server over HTTP: `fastmcp_proxy.py URL PORT`."""

import sys

from fastmcp.server import create_proxy

if __name__ == "__main__":
    url, port = sys.argv[1], int(sys.argv[2])
    proxy = create_proxy(url, name="proxy")
    proxy.run(transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, log_level="error")
