"""The dashboard: pages for people, and the same as JSON for scripts."""
