"""Chat models behind any OpenAI-compatible endpoint, with concurrent requests and a cache."""
