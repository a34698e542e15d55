"""Makes the modules that several folders of tests share importable."""
