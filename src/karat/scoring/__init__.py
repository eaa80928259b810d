"""Scoring: hits judged by gold, metrics, and the engines that run them."""
