"""Where a project lives (GitHub, GitLab), and the one comment that Karat keeps on its pull requests."""
