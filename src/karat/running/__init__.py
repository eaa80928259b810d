"""Running a retriever over queries, and the log that comes of it."""
