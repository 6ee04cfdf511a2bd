"""Look: measure what a model holds, and never change what is measured."""
