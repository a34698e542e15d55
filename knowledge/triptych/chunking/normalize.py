"""One line ending for the scanners, at unchanged offsets."""

BYTE_ORDER_MARK = "\ufeff"


def unify_line_ends(content: str) -> str:
    """Return `content` with every line ended by `\\n`, each code point at its old offset.

    CRLF becomes a space and `\\n`; a lone CR becomes `\\n`. A leading byte order mark becomes
    an empty line, so that what follows it stands at the start of a line.
    """
    if "\r" in content:
        content = content.replace("\r\n", " \n").replace("\r", "\n")
    if content.startswith(BYTE_ORDER_MARK):
        content = "\n" + content[1:]
    return content
