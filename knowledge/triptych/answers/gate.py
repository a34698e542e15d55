"""Leaving out sentences that are not proven, or refusing them, while an answer is streamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from triptych.answers.citations import CitationFilter
from triptych.answers.claims import opens_at, runs_of
from triptych.answers.options import ProofPolicy
from triptych.answers.proof import Prover, claiming
from triptych.answers.records import AnswerSentence, Claim
from triptych.errors import UnusableAnswerError
from triptych.text.patterns import late

_MAY_GO_ON: Final = late(r"\p{Nd}\.\s*\Z")
"""The end of a sentence, or of the day of a date."""

_MARKER: Final = late(r"[\s>*•-]*\d{1,4}[.)]\s*")
_LETTER: Final = late(r"\p{L}")


class SentenceGate:
    """Lets an answer through, without the sentences that are not proven.

    It holds back the sentence in work; by the policy "mark" nothing. However the answer is cut
    into pieces, what comes out is the same.

    Attributes:
        text: what came out so far.
        dropped: the claims for which sentences were left out.
    """

    def __init__(self, prover: Prover, policy: ProofPolicy) -> None:
        self.text: str = ""
        self.dropped: list[Claim] = []
        self._prover = prover
        self._policy = policy
        self._read = ""
        self._decided: int = 0
        self._gap = ""

    def feed(self, piece: str, reading: CitationFilter) -> str:
        """Take the next piece of what ``reading`` let through; what can be shown now.

        Raises:
            UnusableAnswerError: a sentence is not proven, and the policy is "refuse".
        """
        return self._advance(piece, reading, last=False)

    def end(self, piece: str, reading: CitationFilter) -> str:
        """Take the last piece; what is left to be shown.

        Raises:
            UnusableAnswerError: as `feed`.
        """
        return self._advance(piece, reading, last=True)

    def _advance(self, piece: str, reading: CitationFilter, *, last: bool) -> str:
        self._read += piece
        before = len(self.text)
        if self._policy == "mark":
            self.text += piece
        elif piece or last:
            sentences = claiming(self._read, reading)
            count = len(sentences) if last else self._final(sentences, reading)
            if count and sentences[count - 1].start >= self._decided:
                self._decide(sentences, count)
            rest = self._gap + self._read[self._decided :]
            if last and (not self.dropped or _LETTER.search(rest)):
                self.text += rest.rstrip() if self.text else rest.strip()
        return self.text[before:]

    def _final(self, sentences: Sequence[AnswerSentence], reading: CitationFilter) -> int:
        """How many sentences stay as they are, whatever follows."""
        if not sentences:
            return 0
        end = sentences[-1].end
        closed = "\n\n" in self._read[end:] or any(start >= end for start, _ in reading.code)
        start, run_end = runs_of(self._read, sentences)[-1]
        # What closes it may stand alone so far, and belong to a sentence that is still to come.
        opened = start + min(opens_at(self._read[start:]), opens_at(self._read[start:run_end]))
        count = len(sentences) - (not closed)
        while (
            count
            and not closed
            and (sentences[count - 1].end > opened or _MAY_GO_ON.search(sentences[count - 1].text))
        ):
            count -= 1
        return count

    def _decide(self, sentences: Sequence[AnswerSentence], count: int) -> None:
        """Decide the first ``count`` sentences; what a quotation joins stays or goes together."""
        claims = self._prover.prove(self._read, sentences)
        start = None
        for at, sentence in enumerate(sentences[:count], 1):
            if sentence.start < self._decided:
                continue
            start = sentence.start if start is None else start
            end = sentence.end
            spanned = any(each.start < end < each.end for each in claims)
            if at < len(sentences) and (spanned or _MARKER.fullmatch(sentence.text)):
                continue  # "1." belongs to what follows
            self._gap = _joined(self._gap, self._read[self._decided : start])
            bad = [each for each in claims if each.start < end and start < each.end]
            bad = [each for each in bad if each.status != "supported"]
            if bad and self._policy == "refuse":
                raise UnusableAnswerError(
                    f"the answer is refused: {bad[0]}. Ask with proof='mark' to see it",
                    reason="unproven",
                )
            self.dropped += bad
            if not bad:
                self.text += self._gap if self.text else self._gap.lstrip()
                self.text += self._read[start:end]
                self._gap = ""
            self._decided = end
            start = None


def _joined(before: str, after: str) -> str:
    """The text between two sentences of which those between were left out."""
    if before.strip() or after.strip():
        return before + after
    return max(before, after, key=lambda gap: (gap.count("\n"), len(gap)))
