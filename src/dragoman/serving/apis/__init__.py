"""The HTTP APIs: this project's, LibreTranslate's and DeepL's."""
