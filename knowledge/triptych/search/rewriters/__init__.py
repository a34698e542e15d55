"""Query rewriters: fragments, paraphrases, hypothetical answers, follow-up questions, chains."""
