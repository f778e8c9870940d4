"""The one way in which `serve`, the hub and the review page listen: limits of time and of connections per client."""
