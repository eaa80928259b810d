"""Chat models behind any OpenAI-compatible endpoint: asked at once, paid for once."""
