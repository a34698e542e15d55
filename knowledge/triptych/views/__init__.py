"""Views: a Service with something filled in, a dataset or a pipeline."""
