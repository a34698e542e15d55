"""The unit of systemd and the server of nginx on their page are valid, and fit the server."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import httpx
import pytest

from support.doc_pages import PAGES, blocks
from support.rows import each_row
from support.servers import serving
from triptych_server.http import Limits
from triptych_server.http.workers import ServeOptions

Directives: TypeAlias = "list[tuple[list[str], Directives | None]]"

(PAGE,) = (each for each in PAGES if each.name == "operate.md")
(UNIT,) = (each.text for each in blocks(PAGE) if each.kind == "ini")
(NGINX,) = (each.text for each in blocks(PAGE) if each.kind == "nginx")
PROGRAM = "/opt/triptych/bin/triptych"
PEM = Path(__file__).parents[1] / "support" / "loopback.pem"

SECTIONS = {  # systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.kill(5)
    "Unit": "Description Wants After",
    "Service": "User StateDirectory Environment EnvironmentFile ExecStart Restart RestartSec "
    "KillMode TimeoutStopSec LimitNOFILE UMask NoNewPrivileges PrivateTmp ProtectHome "
    "ProtectSystem",
    "Install": "WantedBy",
}
CONTEXTS = {  # nginx.org/en/docs/dirindex.html: the directives of a block, with their arguments
    "http": {"server": 0},
    "server": {
        "listen": 2,
        "server_name": 1,
        "ssl_certificate": 1,
        "ssl_certificate_key": 1,
        "client_max_body_size": 1,
        "location": 1,
    },
    "location": {
        "proxy_pass": 1,
        "proxy_http_version": 1,
        "proxy_set_header": 2,
        "proxy_buffering": 1,
        "proxy_read_timeout": 1,
    },
}


def unit() -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(strict=True, interpolation=None, delimiters="=")
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # names have capitals
    parser.read_string(UNIT)
    return {name: dict(parser[name]) for name in parser.sections()}


def command() -> list[str]:
    program, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    assert (program, arguments[0]) == (PROGRAM, "serve")
    return arguments


def nginx(text: str) -> Directives:
    """The directives of a configuration, each with those of its block, if it has one."""
    words = iter(re.findall(r'"[^"\n]*"|[{};]|[^\s{};"]+', re.sub(r"(?m)^\s*#.*$", "", text)))

    def block(*, is_inner: bool) -> Iterator[tuple[list[str], Directives | None]]:
        given: list[str] = []
        for word in words:
            if word == "}":
                assert is_inner, "a block ends that did not begin"
                assert given == [], "a directive has no semicolon"
                return
            if word in "{;":
                assert given, "a directive has no name"
                yield given, list(block(is_inner=True)) if word == "{" else None
                given = []
            else:
                given.append(word)
        assert not is_inner, "a block does not end"
        assert given == [], "a directive has no semicolon"

    return list(block(is_inner=False))


def checked(directives: Directives, context: str) -> dict[str, list[str]]:
    """The arguments of every directive; they are those that its context has."""
    found: dict[str, list[str]] = {}
    for (name, *arguments), inner in directives:
        assert len(arguments) == CONTEXTS[context][name], name
        assert (inner is not None) == (name in CONTEXTS), name
        found.setdefault(name, []).append(" ".join(arguments))
        found |= {} if inner is None else checked(inner, name)
    return found


def seconds(text: str) -> float:
    assert re.fullmatch(r"\d+s?", text)
    return float(text.removesuffix("s"))


def test_the_unit_has_sections_and_directives_that_there_are() -> None:
    found = unit()
    assert [*found] == [*SECTIONS]
    for section, directives in found.items():
        assert set(directives) <= set(SECTIONS[section].split())
    drain: Any = attrs.fields_dict(ServeOptions)["drain_seconds"].default
    assert seconds(found["Service"]["TimeoutStopSec"]) > drain
    url = found["Service"]["Environment"].removeprefix("TRIPTYCH_URL=")
    assert url.startswith(f"/var/lib/{found['Service']['StateDirectory']}/")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "triptych.service"
    file.write_text(UNIT.replace(PROGRAM, sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True
    )
    assert "triptych.service" not in done.stderr


@each_row(
    "wrong", ["listen 443 ssl", "server {", "}", "server { { listen 1; } }", "server { x 1; }"]
)
def test_what_is_no_configuration_of_nginx_is_refused(wrong: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        checked(nginx(wrong), "http")


def test_the_proxy_fits_the_server_of_the_unit() -> None:
    found = checked(nginx(NGINX), "http")
    arguments = command()
    given = dict(pairwise(arguments))
    limits = Limits()
    assert found["proxy_pass"] == [f"http://127.0.0.1:{given['--port']}"]
    assert found["server_name"] == [given["--allow-host"]]
    assert given["--trusted-proxy"] == "127.0.0.1"
    assert int(found["client_max_body_size"][0].removesuffix("m")) << 20 >= limits.body
    assert seconds(found["proxy_read_timeout"][0]) > limits.seconds
    assert found["proxy_buffering"] == ["off"]
    headers = dict(each.split(" ") for each in found["proxy_set_header"])
    assert headers["X-Forwarded-For"] == "$proxy_add_x_forwarded_for"
    assert headers["X-Forwarded-Proto"] == "$scheme"
    assert headers["Host"] == "$http_host"


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not here")
def test_nginx_reads_the_configuration(tmp_path: Path) -> None:
    own = re.sub(r"/etc/ssl/kb\.example\.(pem|key)", str(PEM), NGINX).replace("443", "8443")
    file = tmp_path / "nginx.conf"
    file.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\n{own}\n}}\n")
    done = subprocess.run(["nginx", "-t", "-c", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_the_command_of_the_unit_serves_what_the_proxy_sends(tmp_path: Path) -> None:
    arguments = command()
    arguments[arguments.index("--port") + 1] = "0"
    start = [sys.executable, "-m", "triptych_adapters.cli", "--store", "kb.db", *arguments]
    with serving(tmp_path, start) as server:
        sent = {"Host": "kb.example", "X-Forwarded-For": "203.0.113.9"}
        origin = {"X-Forwarded-Proto": "https", "Origin": "https://kb.example"}
        url = f"{server.url}/v1/datasets"
        assert httpx.get(url, headers={**sent, **origin}, timeout=60).json() == []
        origin["X-Forwarded-Proto"] = "http"
        assert httpx.get(url, headers={**sent, **origin}, timeout=60).status_code == 403
