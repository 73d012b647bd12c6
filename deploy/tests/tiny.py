"""A strategy of a few lines, made in a test's folder: real processes, no application."""

from pathlib import Path

from deploy.strategy import Strategy, load

TOML = 'title = "Tiny"\nfamily = "waits in the worker"\nbackend = "inline"\n'
# Answers anything with 200 at $PORT, as `web` does at /readyz.
WEB = """
import http.server, os, sys
class Ok(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments): pass
print("serving", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Ok).serve_forever()
"""


def tiny_strategy(folder: Path, procfile: str, toml: str = "", **files: str) -> Strategy:
    """Write the folder of a strategy named `tiny` and load it; `{folder}` stands for its path."""
    home = folder / "tiny"
    home.mkdir(parents=True)
    (home / "web.py").write_text(WEB)
    (home / "Procfile").write_text(procfile.replace("{folder}", str(home)))
    (home / "strategy.toml").write_text(TOML + toml)
    for name, text in files.items():
        (home / name.replace("__", ".")).write_text(text)
    return load("tiny", folder)
