"""Search: validate, rewrite, retrieve, fuse, hydrate, postprocess, cut."""
