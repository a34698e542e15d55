"""A knowledge base in LangChain, Haystack and graphs of agents."""
