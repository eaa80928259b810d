"""GitHub and GitLab, and the comment that Karat keeps on pull requests."""
