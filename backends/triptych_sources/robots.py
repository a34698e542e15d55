"""The rules of a site for programs that read it: robots.txt, RFC 9309."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import attrs

_LINE = re.compile(r"\s*([A-Za-z-]+)\s*:\s*([^#]*)")


@attrs.frozen
class Robots:
    """What a robots.txt says to one program.

    Python's `urllib.robotparser` knows no ``*`` and ``$``, and takes the first rule that matches
    instead of the longest, so that ``Allow: /`` before others would allow everything.

    Attributes:
        delay: the seconds to wait between requests; an extension that many sites use.
        sitemaps: the addresses of sitemaps.
    """

    _rules: tuple[tuple[int, bool, re.Pattern[str]], ...] = ()
    delay: float = 0.0
    sitemaps: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, agent: str) -> Robots:
        """Read the rules for ``agent``, else those for all programs. Invalid lines are skipped."""
        groups: dict[str, list[tuple[str, str]]] = {}
        sitemaps: list[str] = []
        names: list[str] = []
        in_rules = False
        for line in text.splitlines():
            found = _LINE.match(line)
            if found is None:
                continue
            key, value = found[1].lower(), found[2].strip()
            if key == "sitemap":
                sitemaps.append(value)
            elif key == "user-agent":
                names = [value.lower()] if in_rules else [*names, value.lower()]
                in_rules = False
                groups.setdefault(value.lower(), [])
            elif key in ("allow", "disallow", "crawl-delay"):
                in_rules = True
                for name in names:
                    groups[name].append((key, value))
        mine = groups.get(agent.lower(), groups.get("*", []))
        delays = [float(v) for k, v in mine if k == "crawl-delay" and re.fullmatch(r"\d+\.?\d*", v)]
        rules = [
            (len(value), key == "allow", _pattern(value))
            for key, value in mine
            if key != "crawl-delay" and value
        ]
        # The longest rule decides; of two as long, the one that allows.
        rules.sort(key=lambda rule: rule[:2], reverse=True)
        return cls(tuple(rules), max(delays, default=0.0), tuple(sitemaps))

    def allows(self, path: str) -> bool:
        """Return whether the program may read ``path``, with its query."""
        path = _comparable(path)
        return next((allowed for _, allowed, rule in self._rules if rule.match(path)), True)


def _pattern(rule: str) -> re.Pattern[str]:
    end = r"\Z" if rule.endswith("$") else ""
    parts = _comparable(rule.removesuffix("$") if end else rule).split("*")
    # Each part at its first place: without this, many stars would take quadratic time and more.
    first, *others = map(re.escape, parts)
    middle = "".join(f"(?>.*?{each})" for each in others[:-1])
    last = f".*{others[-1]}" if others else ""
    return re.compile(first + middle + last + end, re.DOTALL)


def _comparable(path: str) -> str:
    """``path`` in one of the ways in which octets may be written."""
    return quote(
        unquote(path, errors="surrogateescape"), safe="/?&=*$%+,;:@!'()~", errors="surrogateescape"
    )
