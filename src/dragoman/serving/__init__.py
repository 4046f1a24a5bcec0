"""HTTP APIs and the page, over one `Translator` a model. Extra: dragoman[serve]."""
