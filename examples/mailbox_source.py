"""Keep the mails of an mbox file searchable: a source of your own in three calls.

python mailbox_source.py archive.mbox                  brings new mails in, drops deleted ones
python mailbox_source.py archive.mbox "release date"   and searches them
"""

import mailbox
import sys
from collections.abc import Iterator
from contextlib import closing
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from hashlib import sha256
from pathlib import Path

import triptych
from triptych.sync import Fetched, SourceEntry, SourceRoot, SourceSync


class Mailbox:
    """The mails of an mbox file, each named by the digest of its bytes."""

    def __init__(self, path: str) -> None:
        self.location = str(Path(path).absolute())
        self._mails: dict[str, bytes] = {}

    def revision(self) -> str:
        """Return what changes with the file: its time and size."""
        found = Path(self.location).stat()
        return f"{found.st_mtime_ns} {found.st_size}"

    def list(self) -> Iterator[SourceEntry]:
        """Yield each mail. A mail never changes, so its name is its revision."""
        with closing(mailbox.mbox(self.location, create=False)) as box:
            mails = [box.get_bytes(key) for key in box.iterkeys()]
        self._mails = {f"{sha256(mail).hexdigest()[:16]}.txt": mail for mail in mails}
        for name in self._mails:
            yield SourceEntry(name=name, revision=name)

    def fetch(self, name: str, known: str) -> Fetched:
        """Return the text of a mail."""
        if not self._mails:
            list(self.list())
        mail = BytesParser(EmailMessage, policy=default).parsebytes(self._mails[name])
        body = mail.get_body(("plain", "html"))
        text = "" if body is None else body.get_content()
        data = f"{mail['subject']}\n\nFrom {mail['from']}, {mail['date']}\n\n{text}"
        return Fetched(data=data.encode("utf-8", "replace"), url=f"mid:{mail['message-id']}")


if __name__ == "__main__":
    path, *query = sys.argv[1:]
    with triptych.open("mails.db") as kb:
        mails = SourceRoot(source=Mailbox(path), dataset_id="mails")
        report = SourceSync(kb, mails, state=Path("mails.db.sync")).sync()
        report.raise_for_failures()
        print(f"{report.added} new, {len(report.deleted)} deleted, {report.unchanged} unchanged")
        for hit in kb.search(" ".join(query), dataset_id="mails").hits if query else ():
            print(f"{hit.content.splitlines()[0]}  {hit.metadata['source_url']}")
